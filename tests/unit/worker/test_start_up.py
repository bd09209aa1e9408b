"""What a worker does not load before it needs it: it is started in seconds, because tasks wait for it."""

import subprocess
import sys

from tests.support.paths import ROOT
from tests.support.stacks.stack_config import clean_environment

LATER = ("mcp", "mcp_types", "fastapi", "uvicorn", "typer", "opentelemetry.sdk")


def test_a_worker_loads_no_front_door_and_no_client_that_it_may_never_need() -> None:
    report = "import sys, outlast.worker.__main__; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", report],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(LATER) & set(done.stdout.split()) == set()
