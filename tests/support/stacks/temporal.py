"""A real Temporal server for tests, with the flags of the embedded stack."""

import dataclasses
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from outlast.deploy.local.orphans import die_with_parent
from outlast.deploy.local.processes import tail
from outlast.deploy.local.temporal_server import TemporalServer
from tests.support.ports import free_port

_START_TIMEOUT_SECONDS = 60.0
_ATTEMPTS = 3


_TEST_OPTIONS = (
    # Sessions continue as new after a few dozen calls instead of a thousand.
    "--dynamic-config-value",
    "limit.historyCount.suggestContinueAsNew=100",
    # Tests do not wait for five failures of a step.
    "--dynamic-config-value",
    "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=2",
    # Tests may let days pass for a workflow.
    "--dynamic-config-value",
    "frontend.WorkflowTimeSkippingEnabled=true",
)
# A garbage collection for each 400% that the heap grows, not for each 100%: tests have memory rather than time.
_FEWER_COLLECTIONS = {"GOGC": "400"}


@contextmanager
def running_temporal(folder: Path, *, ui: bool = False, database: Path | None = None) -> Iterator[TemporalServer]:
    """Run a server on free ports until the end of the block, in memory unless it is given a `database`.

    It dies with this process whatever happens.
    """
    log = folder / "temporal.log"
    server, process = _start(log, ui, database)
    try:
        yield server
    finally:
        process.kill()
        process.wait()


def start_temporal(
    server: TemporalServer, log: Path, *, options: Sequence[str] = _TEST_OPTIONS
) -> "subprocess.Popen[bytes]":
    """Start this server and return at once; the caller kills it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*server.command(), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | _FEWER_COLLECTIONS,
            preexec_fn=die_with_parent(),
        )


def _start(log: Path, ui: bool, database: Path | None) -> tuple[TemporalServer, "subprocess.Popen[bytes]"]:
    for _ in range(_ATTEMPTS):  # between picking a port and listening on it, another test's server may take it
        server = TemporalServer(free_port(), free_port(), free_port())
        server = dataclasses.replace(server, ui_port=free_port() if ui else None, database=database)
        process = start_temporal(server, log)
        if _becomes_ready(server, process):
            return server, process
        process.kill()
        process.wait()
    raise AssertionError(f"The Temporal server does not start:\n{tail(log)}")


def _becomes_ready(server: TemporalServer, process: "subprocess.Popen[bytes]") -> bool:
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    with httpx.Client(trust_env=False, timeout=10) as client:
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                if client.get(f"{server.http_url}/api/v1/namespaces/{server.namespace}").is_success:
                    return process.poll() is None
            time.sleep(0.02)
    return False
