"""Processes for tests: started with a log file, awaited until they answer, and gone when the test run is."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from outlast.deploy.local.processes import tail
from tests.support.processes.module_process import ModuleProcess

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
        with httpx.Client(trust_env=False, timeout=5) as client:
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
