"""What the sandbox loads before it can answer."""

import subprocess
import sys

NOT_BEFORE_USE = {"httpx", "jsonschema", "markdown_it", "psutil"}


def test_libraries_for_single_requests_are_not_loaded_at_the_start() -> None:
    report = "import sys, outlast.deploy.local.sandbox.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True).stdout.split()
    assert "starlette.applications" in loaded
    assert NOT_BEFORE_USE.isdisjoint(loaded)
