"""Shipped Actors written as coroutines, for benchmarks with thousands of runs at once.

To clients they behave like the Actor of the same name: status messages, rows, the OUTPUT record, aborts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import cast

import orjson

from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.runs.run_table import Run
from outlast.deploy.local.sandbox.storages.datasets import Datasets
from outlast.deploy.local.sandbox.storages.key_value_stores import KeyValueStores
from outlast.deploy.local.sandbox.times_and_ids import iso, now


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of the sandbox that an in-process Actor uses."""

    datasets: Datasets
    stores: KeyValueStores
    say: Callable[[str], None]
    aborting: asyncio.Event
    """Set when the run is aborted gracefully: what the platform's event of that name tells an Actor."""


async def sleeper(run: Run, surroundings: Surroundings) -> int:
    """`outlast/sleeper`. It counts the time of the run, so a restart of the sandbox does not prolong it, and a run that
    was resurrected goes on where it was."""
    found = surroundings.stores.get(run.store_id, "INPUT")
    settings = cast("JsonObject", orjson.loads(found[0].read_bytes())) if found else {}
    seconds, steps = float(settings.get("seconds", 10)), int(settings.get("steps", 10))
    message, rows = str(settings.get("message", "")), int(settings.get("rows", 1))
    suffix = f": {message}" if message else ""
    pushed = surroundings.datasets.item_count(run.dataset_id)
    slept = 0.0
    for step in range(steps + 1):
        due = seconds * step / steps
        if await _is_asked_to_stop(surroundings.aborting, max(0.0, due - run.duration_seconds())):
            break
        slept = due
        surroundings.say(f"Slept {_written(due)} of {_written(seconds)} s{suffix}")
        until = rows * step // steps
        if until > pushed:
            await surroundings.datasets.push(run.dataset_id, orjson.dumps(_rows(settings, seconds, pushed, until)))
            pushed = until
    aborted = surroundings.aborting.is_set()
    output = {
        "sleptSeconds": slept,
        "requestedSeconds": seconds,
        "rows": pushed,
        "message": message,
        "aborted": aborted,
    }
    surroundings.stores.put(run.store_id, "OUTPUT", "application/json; charset=utf-8", orjson.dumps(output))
    if aborted:
        surroundings.say(f"Aborted after {_written(slept)} of {_written(seconds)} s")
        return 0
    return _ending(settings.get("failWith"), surroundings)


async def _is_asked_to_stop(aborting: asyncio.Event, seconds: float) -> bool:
    """Whether the run is asked to stop within these seconds."""
    try:
        await asyncio.wait_for(aborting.wait(), seconds)
    except TimeoutError:
        return False
    return True


def _rows(settings: JsonObject, seconds: float, first: int, end: int) -> list[JsonObject]:
    row = {"message": settings.get("message", ""), "seconds": seconds, "createdAt": iso(now())}
    if settings.get("rowBytes"):
        row["payload"] = "z" * int(settings["rowBytes"])
    return [{"index": index, **row} for index in range(first, end)]


def _ending(failure: JsonObject | None, surroundings: Surroundings) -> int:
    if failure is None:
        return 0
    surroundings.say(str(failure.get("message", "Failed because the input asked for it.")))
    return int(failure.get("exitCode", 1))


def _written(seconds: float) -> str:
    return f"{seconds:.2f}".rstrip("0").rstrip(".")


IN_PROCESS_ACTORS: dict[str, Callable[[Run, Surroundings], Coroutine[object, object, int]]] = {
    "outlast/sleeper": sleeper,
}
