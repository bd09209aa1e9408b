"""How long one caller's quick call takes while another caller's events wait for a receiver that never answers."""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from outlast.deploy.local.config import Component
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, new_data_dir, running_system
from tests.support.calls.batches import doubles
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes.module_process import started_module
from tests.support.stacks.stack_config import clean_environment

_SILENT, _QUICK = "silent-0123456789abcdef", "quick-0123456789abcdef"
EVENTS = 10_000
_QUIET_SECONDS, _WAITING_SECONDS = 20, 60
_PAUSE_SECONDS = 0.05
"""Between two calls: a person's agent, not a flood."""
_PATIENCE_SECONDS = 3_600.0
_ENDED = "WorkflowType = 'WebhookDeliveryWorkflow' AND ExecutionStatus"
_P99_AT_MOST_MS = Target("at most", 2_000)


@dataclass(frozen=True)
class _Receiver:
    """A receiver in its own process. While `silent` exists, it takes requests and never answers."""

    url: str
    taken: Path

    @property
    def silent(self) -> Path:
        return self.taken.with_suffix(".silent")

    @property
    def attempts(self) -> int:
        """Requests that it has not answered."""
        asked = self.taken.with_suffix(".asked")
        return len(asked.read_text().splitlines()) if asked.exists() else 0

    def times(self) -> list[str]:
        """The times of the events that it has taken, in the order in which they arrived."""
        return [json.loads(json.loads(line)["raw"])["timestamp"] for line in self.taken.read_text().splitlines()]


async def measure_receivers(events: int = EVENTS) -> Finding:
    """Time quick calls alone, while the events wait, and while the receiver gets them."""
    environment = {
        "OUTLAST_API_KEYS": f"silent:{_SILENT},quick:{_QUICK}",
        "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
    }
    with new_data_dir() as folder, _receiving(folder) as receiver:
        receiver.silent.touch()
        async with (
            running_system(environment=environment, tools_from="tests.support.tools.batch_tools") as system,
            system.caller(_QUICK) as quick,
            system.caller(_SILENT) as silent,
        ):
            async with _calling(quick) as alone:
                before = await _cost(system, _QUIET_SECONDS)
            webhook = await _all_wait(system, silent, receiver, events)
            attempts = receiver.attempts
            async with _calling(quick) as waiting:
                meanwhile = await _cost(system, _WAITING_SECONDS)
            attempts = receiver.attempts - attempts
            receiver.silent.unlink()
            began = time.monotonic()
            # As its owner does who does not want to wait for the next probe.
            await silent.patch(f"/v1/webhooks/{webhook}", {"enabled": True})
            async with _calling(quick) as draining:
                await eventually(lambda: _delivered(system, events), _PATIENCE_SECONDS, 1)
            drained = time.monotonic() - began
        times = receiver.times()
    return Finding(
        "receivers",
        (
            Figure("quick call alone, p99", _percentile99(alone), "ms"),
            Figure("while the events wait, p50", statistics.median(waiting), "ms"),
            Figure("while the events wait, p99", _percentile99(waiting), "ms", _P99_AT_MOST_MS),
            Figure("Temporal server, share of a core: before", before, ""),
            Figure("the same while the events wait", meanwhile, ""),
            Figure(f"attempts within {_WAITING_SECONDS} s of waiting", attempts, "", Target("at most", 4)),
            Figure("while the events arrive, p99", _percentile99(draining), "ms", _P99_AT_MOST_MS),
            Figure("until all had arrived", drained, "s"),
            Figure("events that did not arrive", events - len(set(times)), "", Target("exactly", 0)),
            Figure("events out of order", _out_of_order(times), "", Target("exactly", 0)),
        ),
        {"events": events, "quick calls": len(waiting) + len(draining), "requests in all": len(times)},
    )


@contextmanager
def _receiving(folder: Path):
    port, taken = free_port(), folder / "received.jsonl"
    url = f"http://127.0.0.1:{port}/"
    module, log = "tests.support.http.webhook_receiver", folder / "receiver.log"
    with started_module(
        module, str(port), str(taken), ready_url=url, log=log, environment=clean_environment()
    ) as started:
        started.await_answer()
        yield _Receiver(url, taken)


async def _all_wait(system: System, silent: RestCaller, receiver: _Receiver, events: int) -> str:
    """The webhook, when all events of a batch wait for its receiver."""
    body = {"url": receiver.url, "events": ["task.completed"], "batch_items": True}
    status, webhook = await silent.post("/v1/webhooks", body)
    assert status == 201, webhook
    status, batch = await silent.post("/v1/batches", doubles(events))
    assert status == 201, batch

    async def waits() -> bool:
        _, shown = await silent.get(f"/v1/webhooks/{webhook['id']}")
        open_ones = await system.temporal.count_workflows(f"{_ENDED} = 'Running'")
        return (shown.get("backlog") or {"events": 0})["events"] >= 0.9 * events and open_ones.count == events

    await eventually(waits, _PATIENCE_SECONDS, 1)
    return str(webhook["id"])


async def _cost(system: System, seconds: float) -> float:
    """The share of a core that the Temporal server takes for some time."""
    before = system.processor_seconds()[Component.TEMPORAL.value]
    await asyncio.sleep(seconds)
    return (system.processor_seconds()[Component.TEMPORAL.value] - before) / seconds


@asynccontextmanager
async def _calling(quick: RestCaller) -> AsyncGenerator[list[float]]:
    """Quick calls, one after the other, until the block ends; gives how many milliseconds each took."""
    taken: list[float] = []
    ended = asyncio.Event()

    async def call() -> None:
        while not ended.is_set():
            began = time.perf_counter()
            body: Any = {"arguments": {"number": 21}}
            status, answer = await quick.post("/v1/tools/double/call", body)
            assert status == 200, answer
            taken.append((time.perf_counter() - began) * 1_000)
            await asyncio.sleep(_PAUSE_SECONDS)

    calling = asyncio.create_task(call())
    try:
        yield taken
    finally:
        ended.set()
        await calling


async def _delivered(system: System, events: int) -> bool:
    return (await system.temporal.count_workflows(f"{_ENDED} = 'Completed'")).count == events


def _out_of_order(times: list[str]) -> int:
    return sum(later < earlier for earlier, later in pairwise(times))


def _percentile99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[-1]
