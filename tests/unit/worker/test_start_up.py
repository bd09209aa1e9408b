"""What a process does not load before it needs it: tasks wait for workers and the API that start."""

import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.stacks.stack_config import clean_environment

NEEDED_LATER = (*("anthropic", "apify_client", "openai", "opentelemetry.exporter", "yaml"),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "never_needed"),
    [
        ("outlast.worker.__main__", ("cryptography.x509", "fastapi", "jwt", "mcp", "typer", "uvicorn")),
        ("outlast.api.__main__", ("typer", "outlast.worker.eager_worker")),
    ],
)
def test_a_process_loads_no_client_and_no_sdk_that_it_does_not_need_yet(
    module: str, never_needed: tuple[str, ...]
) -> None:
    report = f"import gc, sys, {module}; assert gc.isenabled(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", report],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert {*NEEDED_LATER, *never_needed} & set(done.stdout.split()) == set()
