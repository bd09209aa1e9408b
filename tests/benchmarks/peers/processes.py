"""Processes of peers: started with a log file, killed with everything they started, and gone when this one is."""

import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from outlast.deploy.local.orphans import die_with_parent
from outlast.deploy.local.processes import tail
from tests.support.eventually import eventually

_START_SECONDS = 120.0
_STOP_SECONDS = 10.0
APPS = Path(__file__).with_name("apps")


class PeerProcess:
    """One program of a peer."""

    def __init__(self, command: Sequence[object], log: Path, environment: Mapping[str, str]) -> None:
        """Start it; what it writes is appended to `log`."""
        self.log = log
        self._command = [str(part) for part in command]
        self._environment = dict(environment)
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                cwd=APPS,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )

    def restart_after_kill(self) -> None:
        """`kill -9` it and its children, and start it again at once, as a supervisor does."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process = self._started()

    def restart_if_ended(self) -> None:
        """Start it again if it has ended by itself, as a supervisor does."""
        if self._process.poll() is not None:
            self._process = self._started()

    def stop(self) -> None:
        """End it: politely, then not."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()

    async def await_answer(self, url: str) -> None:
        """Return when `url` answers, whatever it answers. Raises `AssertionError` with the log when it does not."""
        async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
            await eventually(lambda: self._answers(http, url), _START_SECONDS, 0.1)

    async def _answers(self, http: httpx.AsyncClient, url: str) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._command[0]} has ended:\n{tail(self.log)}")
        try:
            await http.get(url)
        except httpx.HTTPError as error:
            raise AssertionError(f"{url}: {error!r}\n{tail(self.log)}") from error
        return True

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)


@asynccontextmanager
async def started(command: Sequence[object], log: Path, environment: Mapping[str, str]) -> AsyncGenerator[PeerProcess]:
    """Run a program until the end of the block."""
    process = PeerProcess(command, log, environment)
    try:
        yield process
    finally:
        process.stop()
