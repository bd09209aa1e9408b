"""The command line needs no package of the server until a command starts one."""

import subprocess
import sys

import pytest

from tests.support.stacks.stack_config import clean_environment

_REPORT = """
import os, ssl, sys
leave, create = os._exit, ssl.create_default_context
def report(code):
    print("\\nIMPORTED", *sorted(sys.modules), flush=True)
    leave(code)
os._exit = report
def authorities(*args, **kwargs):
    sys.modules["authorities"] = ssl
    return create(*args, **kwargs)
ssl.create_default_context = authorities
from outlast.cli.main import main
sys.argv[0] = "outlast"
main()
"""


def run(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """The command, which says what it has imported when it leaves its interpreter."""
    command = [sys.executable, "-c", _REPORT, *arguments]
    return subprocess.run(command, env=clean_environment(**settings), capture_output=True, text=True, check=False)


def imported_by(*arguments: str) -> set[str]:
    return set(run(*arguments).stdout.rpartition("IMPORTED")[2].split())


SERVER = {
    "anthropic", "apify_client", "cryptography", "fastapi", "jsonschema", "mcp", "obstore", "openai",
    "prometheus_client",
    "psutil", "pydantic_settings", "starlette", "structlog", "temporalio", "tomlkit", "uvicorn", "websockets",
}  # fmt: skip
"""Packages of the server, and those of single commands."""


@pytest.mark.parametrize("arguments", [["--help"], ["up", "--help"], ["tasks", "ls"], ["call", "x", "{}"]])
def test_client_commands_need_no_package_of_the_server(arguments: list[str]) -> None:
    imported = imported_by(*arguments, "--url", "http://127.0.0.1:9")
    assert "httpx" in imported
    assert imported & SERVER == set()
    assert "authorities" not in imported, "they are read for TLS, which nobody speaks here"


def test_the_client_builds_no_model_before_it_is_used() -> None:
    built = """
import outlast.client
for name in outlast.client.__all__:
    getattr(outlast.client, name)
from outlast.contracts.base import Response
models = Response.__subclasses__()
print(len(models), [model.__name__ for model in models if model.__pydantic_complete__])
"""
    ended = subprocess.run([sys.executable, "-c", built], capture_output=True, text=True, check=True)
    count, complete = ended.stdout.split(maxsplit=1)
    assert (int(count) > 40, complete) == (True, "[]\n")


def test_threads_of_the_temporal_sdk_cannot_change_the_exit_code() -> None:
    """They abort some interpreters that end in order, so that a command leaves before that."""
    ended = run("admin", "setup", "--json", TEMPORAL_ADDRESS="127.0.0.1:1")
    assert ended.returncode == 3
    assert "Temporal cannot be set up" in ended.stdout
    assert "IMPORTED" in ended.stdout


def test_a_closed_standard_output_is_no_error() -> None:
    """Python has no stream there then."""
    shell = f"{sys.executable} -P -m outlast.cli --version >&-"
    ended = subprocess.run(shell, shell=True, env=clean_environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
