"""With OUTLAST_LOG_FORMAT=json every line of a process is one JSON object, whoever writes it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.stacks.service import SEAL_KEYS
from tests.support.stacks.stack_config import clean_environment

pytestmark = pytest.mark.timeout(300)  # each process imports all of Outlast

NOISE = """
import asyncio, logging, sys, threading, warnings

class Leaves:
    def __del__(self):
        raise LookupError("nobody can catch this")

warnings.warn("an old name")
worker = threading.Thread(target=lambda: 1 / 0, name="reader")
worker.start()
worker.join()
Leaves()
"""
NOISY_TOOLS = (
    NOISE
    + """
logging.getLogger("uvicorn.error").error("from uvicorn")
logging.getLogger("temporalio.core").warning("from the SDK")

def end(serving):
    serving.close()
    {}.popitem()

asyncio.run = end  # the next thing that the process does ends it

TOOLS = []
"""
)


def lines_of(module: str, folder: Path, **settings: str) -> list[dict[str, Any]]:
    """What a process that ends by itself has written, line by line."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", module],
        cwd=folder,
        env=clean_environment(
            PATH=os.environ["PATH"], OUTLAST_SEAL_KEYS=SEAL_KEYS, OUTLAST_LOG_FORMAT="json", **settings
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.mark.parametrize("module", ["outlast.worker", "outlast.api"])
def test_every_line_is_json_whoever_writes_it(tmp_path: Path, module: str) -> None:
    (tmp_path / "noisy.py").write_text(NOISY_TOOLS)
    lines = lines_of(module, tmp_path, OUTLAST_TOOLS_FROM="noisy")
    found = {line["logger"]: line for line in lines if line["logger"] != "outlast"}
    assert "an old name" in found["py.warnings"]["event"]
    assert found["uvicorn.error"]["event"] == "from uvicorn"
    assert found["temporalio.core"]["event"] == "from the SDK"
    exceptions = [line["exception"] for line in lines if line["logger"] == "outlast"]
    for text in ("ZeroDivisionError", "nobody can catch this", "KeyError: 'popitem(): dictionary is empty'"):
        assert [trace for trace in exceptions if text in trace], exceptions


@pytest.mark.parametrize("module", ["outlast.worker", "outlast.api"])
def test_bad_settings_are_json_too(tmp_path: Path, module: str) -> None:
    (line,) = lines_of(module, tmp_path, OUTLAST_LOG_LEVEL="shout")
    assert line["level"] == "error"
    assert "OUTLAST_LOG_LEVEL" in line["event"]


def test_every_line_of_the_sandbox_is_json_too() -> None:
    program = f"""
from outlast.deploy.local.sandbox.__main__ import configure_logging

configure_logging("json")
{NOISE}
{{}}["nobody handles this"]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=240)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert "an old name" in next(line for line in lines if line["logger"] == "py.warnings")["message"]
    exceptions = [line["exception"] for line in lines if line["logger"] == "sandbox"]
    for text in ("ZeroDivisionError", "nobody can catch this", "KeyError: 'nobody handles this'"):
        assert [trace for trace in exceptions if text in trace], exceptions


def test_every_line_of_a_stdio_server_is_json_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "outlast.cli", "mcp", "--data-dir", str(tmp_path / "data")],
        cwd=tmp_path,
        env=clean_environment(
            PATH=os.environ["PATH"], OUTLAST_LOG_FORMAT="json", APIFY_TOKEN="t", APIFY_API_BASE_URL="http://127.0.0.1:1"
        ),
        input="",
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode != 0
    assert {line["logger"] for line in lines} == {"outlast.mcp"}
    assert lines[-1]["level"] == "error"
    assert "http://127.0.0.1:1" in lines[-1]["event"]
