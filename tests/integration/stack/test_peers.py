"""The benchmark of peers counts what became of calls at the platform, not by what a peer says of itself."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.benchmarks.peers.survival import survival
from tests.support.stacks.sandbox import Sandbox, running_sandbox


@dataclass
class Careless:
    """A peer that, when it is killed, starts the run of one call again, fails one, and forgets one."""

    sandbox: Sandbox
    calls: list[str] = field(default_factory=list[str])
    is_killed: bool = False
    accepted_when_killed: int = 0

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator["Careless"]:
        """It is its own connection."""
        yield self

    async def read_rows(self, dataset_id: str) -> int:
        raise AssertionError("only its survival is asked for")

    async def start_run(self, call_id: str, seconds: float) -> str:
        await asyncio.to_thread(self._start, call_id, seconds)
        self.calls.append(call_id)
        return call_id

    async def has_ended(self, ticket: str) -> bool | None:
        if not self.is_killed:
            return None
        return {"call-1": False, "call-2": None}.get(ticket, True)

    def kill(self) -> None:
        self.is_killed = True
        self.accepted_when_killed = self.sandbox.counters["startsAccepted"]
        self._start("call-0", 15)

    def _start(self, call_id: str, seconds: float) -> None:
        headers = {"Authorization": f"Bearer {self.sandbox.token}"}
        run_input = {"seconds": seconds, "message": call_id}
        url = f"{self.sandbox.url}/v2/acts/outlast~sleeper/runs"
        httpx.post(
            url, json=run_input, headers=headers, params={"memory": 128}, trust_env=False, timeout=180
        ).raise_for_status()


async def test_calls_that_are_lost_failed_or_paid_twice_are_told_apart(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as sandbox:
        careless = Careless(sandbox)
        found = await survival(careless, calls=4, patience_seconds=1)
        counted = sandbox.counters["startsAccepted"]
    assert (found.calls, found.completed, found.failed, found.lost) == (4, 2, 1, 1)
    assert (found.starts, found.started_twice) == (counted, 1) == (5, 1)
    # How many that are is a matter of time; one may be accepted between the two counts.
    assert 0 <= found.accepted_starts_at_the_kill <= careless.accepted_when_killed
