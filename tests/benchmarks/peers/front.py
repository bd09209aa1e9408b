"""The front of DBOS and Prefect, whose users write one: the same three routes of a FastAPI application."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.benchmarks.peers.processes import PeerProcess
from tests.benchmarks.rest_caller import RestCaller
from tests.support.stacks.sandbox import Sandbox


class FrontConnection:
    """A connection to the application; `ends` says which of its words for a state means what."""

    def __init__(self, caller: RestCaller, ends: Mapping[str, bool]) -> None:
        self._caller = caller
        self._ends = ends

    async def read_rows(self, dataset_id: str) -> int:
        """See `Connection`."""
        status, rows = await self._caller.post("/read", {"dataset_id": dataset_id})
        assert status == 200, rows
        return len(rows)

    async def start_run(self, call_id: str, seconds: float) -> str:
        """See `Connection`."""
        status, answer = await self._caller.post("/runs", {"call_id": call_id, "seconds": seconds})
        assert status == 200, answer
        return answer["ticket"]

    async def has_ended(self, ticket: str) -> bool | None:
        """See `Connection`."""
        status, answer = await self._caller.get(f"/runs/{ticket}")
        assert status == 200, answer
        return self._ends.get(answer["status"])


@dataclass(frozen=True)
class RunningFront:
    """The application runs on `port`; `executes` is the process that executes calls."""

    sandbox: Sandbox
    port: int
    executes: PeerProcess
    ends: Mapping[str, bool]

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[FrontConnection]:
        """See `Running`."""
        async with RestCaller("127.0.0.1", self.port) as caller:
            yield FrontConnection(caller, self.ends)

    def kill(self) -> None:
        """See `Running`."""
        self.executes.restart_after_kill()
