"""The command line starts fast: it imports what a command needs, and no more."""

import subprocess
import sys

import pytest

from tests.support.stacks.stack_config import clean_environment

_REPORT = """
import os, ssl, sys
leave, create = os._exit, ssl.create_default_context
def report(code):
    if getattr(sys.modules.get("pydantic.plugin._loader"), "_plugins", None) is not None:
        sys.modules["plugins"] = ssl
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
_COMMANDS = "outlast.cli.commands."


def run(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """The command, which says what it has imported when it leaves its interpreter."""
    command = [sys.executable, "-c", _REPORT, *arguments]
    return subprocess.run(command, env=clean_environment(**settings), capture_output=True, text=True, check=False)


def imported_by(*arguments: str) -> set[str]:
    return set(run(*arguments).stdout.rpartition("IMPORTED")[2].split())


@pytest.mark.parametrize("arguments", [["--help"], ["call", "--help"], ["tasks", "ls", "--help"], ["up", "--help"]])
def test_help_needs_no_client_and_no_server_code(arguments: list[str]) -> None:
    heavy = {"temporalio", "fastapi", "uvicorn", "apify_client", "httpx", "cryptography"}
    assert imported_by(*arguments) & heavy == set()


@pytest.mark.parametrize("arguments", [["tasks", "ls"], ["tools", "ls"], ["call", "x", "{}"], ["tasks", "watch", "x"]])
def test_client_commands_need_no_temporal_and_no_server_code(arguments: list[str]) -> None:
    imported = imported_by(*arguments, "--url", "http://127.0.0.1:9")
    assert "httpx" in imported
    assert imported & {"temporalio", "fastapi", "uvicorn", "apify_client", "starlette"} == set()
    assert {_COMMANDS + name for name in ("chat", "mcp", "up", "usage")} & imported == set()
    assert "authorities" not in imported, "they are read for TLS, which nobody speaks here"
    assert {"httpx._main", "click", "pygments"} & imported == set(), "httpx's own command line needs them"
    assert "plugins" not in imported, "pydantic looks for them in what all installed packages say of themselves"


def test_a_stack_is_started_before_the_tools_are_loaded() -> None:
    """They take as long as its Temporal server."""
    begun = """
import sys
from outlast.cli.commands.mcp import load_beginning
load_beginning()
from outlast.deploy.local.shared_stack import used_stack
print({"outlast.workflows.tools.framework.tool", "mcp", "fastapi"} & set(sys.modules))
"""
    ended = subprocess.run([sys.executable, "-c", begun], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"


def test_the_client_builds_no_model_before_it_is_used() -> None:
    built = """
import outlast.client
for name in outlast.client.__all__:
    getattr(outlast.client, name)
from outlast.client.contracts.base import Response
models = Response.__subclasses__()
print(len(models), [model.__name__ for model in models if model.__pydantic_complete__])
"""
    ended = subprocess.run([sys.executable, "-c", built], capture_output=True, text=True, check=True)
    count, complete = ended.stdout.split(maxsplit=1)
    assert (int(count) > 40, complete) == (True, "[]\n")


def test_a_command_does_not_load_the_blocking_client() -> None:
    imported = imported_by("tasks", "ls", "--url", "http://127.0.0.1:9")
    assert "outlast.client.asynchronous.client" in imported
    assert not any(name.startswith("outlast.client.blocking") for name in imported)


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
