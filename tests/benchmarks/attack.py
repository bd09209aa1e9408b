"""One caller's quick calls while another one attacks with every weapon at once for a minute."""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import running_system
from tests.support.paths import TEST_ACTORS

_QUIET_SECONDS = 15
_ATTACKED_SECONDS = 60
_PAUSE_SECONDS = 0.05
"""Between two calls of the victim: a person's agent, not a flood."""
_VICTIM, _ATTACKER = "victim-key-0123456789", "attacker-key-0123456789"
_UNDER = Target("at most", 2_000)
_NONE = Target("exactly", 0)


@dataclass
class _Calls:
    taken: list[float] = field(default_factory=list[float])
    """Milliseconds."""
    failed: list[str] = field(default_factory=list[str])

    @property
    def p50(self) -> float:
        return statistics.median(self.taken)

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.taken, n=100)[-1]


async def measure_attack() -> Finding:
    """The victim calls `get-dataset-items` for 1 KB of rows, one call after the other."""
    keys = {"OUTLAST_API_KEYS": f"victim:{_VICTIM},attacker:{_ATTACKER}"}
    async with (
        running_system(actors=TEST_ACTORS, environment=keys) as system,
        system.caller(_VICTIM) as victim,
    ):
        dataset_id = await _own_dataset(victim)
        await _calls(victim, dataset_id, 3)
        quiet = await _calls(victim, dataset_id, _QUIET_SECONDS)
        answers: dict[str, dict[str, int]] = {}
        async with _attacked(str(system.stack.addresses.api_url), answers):
            attacked = await _calls(victim, dataset_id, _ATTACKED_SECONDS)
    figures = (
        Figure("quiet: p50", quiet.p50, "ms"),
        Figure("quiet: p99", quiet.p99, "ms"),
        Figure("attacked: p50", attacked.p50, "ms"),
        Figure("attacked: p99", attacked.p99, "ms", _UNDER),
        Figure("attacked: slowest", max(attacked.taken), "ms"),
        Figure("attacked: failed calls", len(attacked.failed), "", _NONE),
    )
    setting = {"quiet calls": len(quiet.taken), "attacked calls": len(attacked.taken), "attacker was answered": answers}
    return Finding("attack", figures, {**setting, "failures": attacked.failed[:5]})


async def _own_dataset(victim: RestCaller) -> str:
    """The dataset of a run of the victim's: callers that share an account do not reach each other's."""
    arguments = {"actor": "outlast/big-table", "input": {"rows": 5, "columns": "narrow"}}
    _, answer = await victim.post("/v1/tools/call-actor/call", {"arguments": arguments})
    return str(answer["task"]["run"]["dataset_id"])


async def _calls(victim: RestCaller, dataset_id: str, seconds: float) -> _Calls:
    made = _Calls()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        body = {"arguments": {"datasetId": dataset_id}}
        status, answer = await victim.post("/v1/tools/get-dataset-items/call", body)
        made.taken.append((time.perf_counter() - began) * 1_000)
        if status != 200 or answer["result"]["is_error"]:
            made.failed.append(f"{status}: {str(answer)[:300]}")
        await asyncio.sleep(_PAUSE_SECONDS)
    return made


@asynccontextmanager
async def _attacked(url: str, answers: dict[str, dict[str, int]]) -> AsyncGenerator[None]:
    """Attack from a process of its own; what it was answered is put into `answers`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.support.hostile.attacker", url, _ATTACKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield
        told, _ = await process.communicate(b"")
        answers.update(json.loads(told))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
