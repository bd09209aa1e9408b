"""A second API of a service, which a test may kill and start again."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

from tests.support.ports import free_port
from tests.support.processes.served_process import ServedProcess, started_module
from tests.support.stacks.service import Service, settings_environment


class MortalApi:
    """An API process that a test may kill and start again, always at the same `url`."""

    def __init__(self, service: Service, log: Path, stack: ExitStack, **extra: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log, self._stack = log, stack
        self._environment = settings_environment(
            service.temporal_address,
            service.sandbox,
            OUTLAST_DATA_DIR=str(service.folder),
            OUTLAST_API_PORT=str(port),
            **extra,
        )
        self._served: ServedProcess | None = None

    async def start(self) -> None:
        """Return when it answers."""
        served = started_module(
            "outlast.api", ready_url=f"{self.url}/readyz", log=self._log, environment=self._environment
        )
        self._served = self._stack.enter_context(served)
        await asyncio.to_thread(self._served.await_answer)

    def kill(self) -> None:
        """Nothing of it is left on return."""
        assert self._served is not None
        self._served.process.kill()
        self._served.process.wait()
