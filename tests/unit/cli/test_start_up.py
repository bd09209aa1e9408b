"""The command line starts fast: it imports what a command needs, and no more."""

import subprocess
import sys

import pytest

from tests.support.stacks.stack_config import clean_environment

_REPORT = """
import atexit, sys
atexit.register(lambda: print("\\nIMPORTED", *sorted({name.partition(".")[0] for name in sys.modules})))
from outlast.api.cli.main import main
sys.argv[0] = "outlast"
main()
"""


def imported_by(*arguments: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", _REPORT, *arguments],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return set(ended.stdout.rpartition("IMPORTED")[2].split())


@pytest.mark.parametrize("arguments", [["--help"], ["call", "--help"], ["tasks", "ls", "--help"], ["up", "--help"]])
def test_help_needs_no_client_and_no_server_code(arguments: list[str]) -> None:
    heavy = {"temporalio", "fastapi", "uvicorn", "apify_client", "httpx", "cryptography"}
    assert imported_by(*arguments) & heavy == set()


@pytest.mark.parametrize("arguments", [["tasks", "ls"], ["tools", "ls"], ["call", "x", "{}"], ["tasks", "watch", "x"]])
def test_client_commands_need_no_temporal_and_no_server_code(arguments: list[str]) -> None:
    imported = imported_by(*arguments, "--url", "http://127.0.0.1:9")
    assert "httpx" in imported
    assert imported & {"temporalio", "fastapi", "uvicorn", "apify_client", "starlette"} == set()
