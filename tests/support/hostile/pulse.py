"""Whether a server is alive: `/healthz`, asked all the while.

A test must not depend on how fast its machine is. So nothing is compared with a clock: a request hangs when hundreds of
others were answered since it was sent, and the server stands still when it computes for seconds, as the system counts
the processor time of its process, and answers nobody meanwhile.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psutil

HELD_SECONDS = 2.0
"""Processor time."""
_PAUSE_SECONDS = 0.05
_PATIENCE_BEATS = 200
"""Of a request: ten seconds and more on a machine with nothing else to do."""
_TIMEOUT_SECONDS = 120


class Pulse:
    """Asks one server until it is stopped. `beats` says how often it has answered."""

    def __init__(self, url: str, pid: int) -> None:
        self.beats = 0
        self.failures: list[str] = []
        self._url = url
        self._process = psutil.Process(pid)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Ask until `stop`."""
        with httpx.Client(base_url=self._url, trust_env=False, timeout=_TIMEOUT_SECONDS) as http:
            while not self._stopped.wait(_PAUSE_SECONDS):
                self._beat(http)

    def stop(self) -> None:
        self._stopped.set()

    def check(self) -> None:
        """Raise `AssertionError` if the server has stood still."""
        assert not self.failures, self.failures

    @contextmanager
    def patience(self, request: object) -> Iterator[None]:
        """For the time of one request: fail if hundreds of others were answered before it."""
        before = self.beats
        yield
        waited = self.beats - before
        assert waited <= _PATIENCE_BEATS, f"{waited} other requests were answered before {request}"

    def _beat(self, http: httpx.Client) -> None:
        used = self._processor_seconds()
        try:
            status = http.get("/healthz").status_code
        except httpx.HTTPError as error:
            self.failures.append(f"/healthz: {error!r}")
            return
        held = self._processor_seconds() - used
        self.beats += 1
        if status != 200:
            self.failures.append(f"/healthz answered {status}")
        if held > HELD_SECONDS:
            self.failures.append(f"/healthz was answered after {held:.1f} seconds of computing")

    def _processor_seconds(self) -> float:
        used = self._process.cpu_times()
        return used.user + used.system


@contextmanager
def beating(url: str, pid: int) -> Iterator[Pulse]:
    """Ask the server at `url`, which is the process `pid`, until the end of the block. Fails if it has stood still."""
    pulse = Pulse(url, pid)
    thread = threading.Thread(target=pulse.run, name="pulse", daemon=True)
    thread.start()
    try:
        yield pulse
    finally:
        pulse.stop()
        thread.join()
    pulse.check()
