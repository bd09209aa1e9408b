"""`kill -9` of gateway, worker and server in the middle of calls: what was executed, and what callers were told."""

import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tests.benchmarks.gateway.gateways import GATEWAYS, End, Gateway, NotSent, Running, first_call
from tests.benchmarks.report import Figure, Finding, Target, machine
from tests.support.eventually import eventually

CALLS = 20
_PACE_SECONDS = 0.25
_STAGES = {"before": 1.0, "after": 1.0}
"""Seconds that a call takes until its effect, and until its answer."""
_PATIENCE_SECONDS = 150.0
"""A call that has no answer then has none."""


class Killed(BaseModel):
    """What became of the calls of one gateway, one of whose parts was killed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: str
    calls: int
    right: int
    """Executed once, and answered."""
    twice: int
    """Executed more than once."""
    unknown: int
    """Not answered; the caller was told that it is unknown whether they were executed."""
    wrongly_failed: int
    """Executed, but the caller was told that they failed, or nothing."""
    lost: int
    """Not executed, and the caller was told that they failed, or nothing."""


class Compared(BaseModel):
    """One gateway."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    versions: str
    what_ran: str
    kills: tuple[Killed, ...]


class Figures(BaseModel):
    """One run of the benchmark."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    finished_at: str
    machine: dict[str, Any]
    gateways: tuple[Compared, ...]


async def measure_gateways() -> Finding:
    """All of them. Raises `CannotRunError` before any if one cannot be installed."""
    return finding(await compare(GATEWAYS))


async def compare(gateways: Sequence[Gateway]) -> Figures:
    """Install and measure gateways, all at the same time: what counts is what happens, not how long it takes."""
    for gateway in gateways:
        gateway.install()
    compared = tuple(await asyncio.gather(*map(_compared, gateways)))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Figures(finished_at=now, machine=machine(), gateways=compared)


async def _compared(gateway: Gateway) -> Compared:
    kills: list[Killed] = []
    with tempfile.TemporaryDirectory(prefix="outlast-gateways-") as name:
        async with gateway.running(Path(name)) as running:
            for part in running.kills:
                await first_call(running, f"before-{part}")
                print(f"  {gateway.name}: kill -9 of the {part} ...", file=sys.stderr, flush=True)
                kills.append(await _killed(running, part, Path(name) / "effects"))
    return Compared(name=gateway.name, versions=gateway.versions(), what_ran=gateway.what_ran, kills=tuple(kills))


async def _killed(running: Running, part: str, effects: Path) -> Killed:
    """Have calls in flight, kill in the middle, and wait until all have ended."""
    names = [f"{part}-{number}" for number in range(CALLS)]
    calls = [asyncio.create_task(_ended(running, name, number)) for number, name in enumerate(names)]
    await asyncio.sleep(CALLS / 2 * _PACE_SECONDS)
    running.kills[part]()
    ends = dict(zip(names, await asyncio.gather(*calls), strict=True))
    executed = _executed(effects)
    answered = {name for name, end in ends.items() if end == "answered"}
    told = {name for name, end in ends.items() if end == "unknown"}
    others = ends.keys() - answered - told
    return Killed(
        part=part,
        calls=CALLS,
        right=sum(executed[name] == 1 for name in answered),
        twice=sum(executed[name] > 1 for name in names),
        unknown=len(told),
        wrongly_failed=sum(executed[name] > 0 for name in others),
        lost=sum(executed[name] == 0 for name in (*others, *answered)),
    )


def _executed(effects: Path) -> Counter[str]:
    """How often each call was executed."""
    return Counter(effects.read_text().split())


async def _ended(running: Running, name: str, number: int) -> End | None:
    """What the caller was told; None if nothing. A call that was certainly not made is made again."""
    await asyncio.sleep(number * _PACE_SECONDS)

    async def told() -> End:
        try:
            return await running.call(name, _STAGES)
        except NotSent as error:
            raise AssertionError(repr(error)) from error

    with suppress(TimeoutError, AssertionError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await eventually(told, _PATIENCE_SECONDS, 0.2)
    return None


def finding(found: Figures) -> Finding:
    """The same for the table of all benchmarks. Targets are Outlast's: nothing twice, nothing lost, nothing hidden."""
    return Finding("gateways", tuple(figure for each in found.gateways for figure in _shown(each)), {"calls": CALLS})


def _shown(compared: Compared) -> list[Figure]:
    none = Target("exactly", 0) if compared.name.startswith("Outlast") else None
    figures: list[Figure] = []
    for killed in compared.kills:
        what = f"{compared.name}, {killed.part} killed"
        figures += [
            Figure(f"{what}: executed once and answered, of {killed.calls}", killed.right, "calls"),
            Figure(f"{what}: executed twice", killed.twice, "calls", none),
            Figure(f"{what}: told that it is unknown", killed.unknown, "calls"),
            Figure(f"{what}: executed, told as failed", killed.wrongly_failed, "calls", none),
            Figure(f"{what}: lost", killed.lost, "calls", none),
        ]
    return figures


def _table(figures: Figures) -> str:
    load, cores = figures.machine["load_average"][0], figures.machine["cores"]
    where = f"Measured on {figures.finished_at[:10]} with {cores} cores; load average {load:g}."
    head = ("", "killed", "right", "executed twice", "told as unknown", "executed, told as failed", "lost")
    rows = [
        _row(each.name, one.part, f"{one.right} of {one.calls}", one.twice, one.unknown, one.wrongly_failed, one.lost)
        for each in figures.gateways
        for one in each.kills
    ]
    ran = [_row(each.name, each.versions, each.what_ran) for each in figures.gateways]
    calls = "\n".join((_row(*head), "|---" * len(head) + "|", *rows))
    return f"{where}\n\n{calls}\n\n" + "\n".join((_row("", "version", "what ran"), "|---|---|---|", *ran)) + "\n"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


def main() -> int:
    """`python -m tests.benchmarks.gateway.compared [NAME]`: print the table of some."""
    names = sys.argv[1:]
    chosen = [each for each in GATEWAYS if not names or each.name in names]
    print(_table(asyncio.run(compare(chosen))))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
