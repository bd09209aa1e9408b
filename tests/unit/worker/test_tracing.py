"""Traces cost nothing while they are off, and a collector that is down holds nobody up."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from outlast.worker.settings import WorkerSettings
from tests.support.paths import ROOT
from tests.support.stacks.stack_config import clean_environment

OFF = """
import sys
import outlast.api.__main__, outlast.worker.__main__
from outlast.worker.settings import WorkerSettings
from outlast.worker.otlp.traces import start_tracing
from outlast.worker.connection import tracing_plugins

settings = WorkerSettings()
start_tracing(settings, "worker")()
assert tracing_plugins(settings) == ()
print([name for name in sys.modules if name.startswith("opentelemetry.exporter")])
"""
NOBODY_THERE = """
from opentelemetry import trace
from outlast.worker.settings import WorkerSettings
from outlast.worker.otlp.traces import start_tracing

stop = start_tracing(WorkerSettings(), "worker")
with trace.get_tracer("test").start_as_current_span("lost"):
    print("went on")
stop()
print("ended")
"""


def said(program: str, **settings: str) -> str:
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment(**settings), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_no_exporter_is_loaded_while_there_is_no_collector() -> None:
    assert said(OFF) == "[]\n"


@pytest.mark.slow
def test_a_collector_that_is_down_holds_no_process_up() -> None:
    assert said(NOBODY_THERE, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1") == "went on\nended\n"


def test_what_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_OTLP_ENDPOINT", "collector:4317")
    with pytest.raises(ValidationError, match="OTLP/HTTP receiver"):
        WorkerSettings()
