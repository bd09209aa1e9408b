"""`python -m MODULE` as a process of its own, forked from a server that has imported Outlast already.

A test run starts hundreds of processes, and importing is most of what a start costs. The processes are as real as any:
they have a pid, signals and `kill -9`; only the interpreter is warm.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from outlast.deploy.local.processes import tail
from tests.support.paths import ROOT

_FORK_SERVER = multiprocessing.get_context("forkserver")
_FORK_SERVER.set_forkserver_preload(["tests.support.processes.preloaded"])


class ModuleProcess:
    """What tests use of `subprocess.Popen`."""

    def __init__(self, module: str, arguments: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        """Start it; what it writes is appended to `log`."""
        order = (module, tuple(arguments), str(log), dict(environment))
        self._process = _FORK_SERVER.Process(target=_run, args=order, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the signal that killed it as a negative number; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code when it has ended. Raises `subprocess.TimeoutExpired` when it has not within `timeout`."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _run(module: str, arguments: tuple[str, ...], log: str, environment: dict[str, str]) -> None:
    from tests.support.processes.preloaded import die_with_fork_server  # noqa: PLC0415 (for the fork server, not for the tests)

    if die_with_fork_server is not None:
        die_with_fork_server()
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 (as long as the process)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


_START_TIMEOUT_SECONDS = 150.0
_STOP_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True)
class ServedProcess:
    """A process that answers HTTP, and the file with everything it wrote."""

    process: ModuleProcess
    log: Path
    ready_url: str

    def await_answer(self, is_ready: Callable[[httpx.Response], bool] = lambda _: True) -> None:
        """Return when the process answers well and the answer `is_ready`; fails with its log when it does not."""
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        with httpx.Client(trust_env=False, timeout=10) as client:
            while self.process.poll() is None and time.monotonic() < deadline:
                with suppress(httpx.HTTPError):
                    answer = client.get(self.ready_url)
                    if answer.is_success and is_ready(answer):
                        return
                time.sleep(0.02)
        raise AssertionError(f"{self.ready_url} does not answer:\n{tail(self.log)}")


@contextmanager
def started_module(
    module: str, *arguments: str, ready_url: str, log: Path, environment: Mapping[str, str]
) -> Iterator[ServedProcess]:
    """Run `python -m MODULE` until the end of the block; `await_answer` says when it is ready."""
    process = ModuleProcess(module, arguments, log=log, environment=environment)
    try:
        yield ServedProcess(process, log, ready_url)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_SECONDS)
        process.kill()
        process.wait()
