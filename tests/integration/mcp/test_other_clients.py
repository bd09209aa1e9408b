"""Clients that other people wrote, against the server: over HTTP and over standard input and output.

Whenever tests run, the inspector, mcpc and the SDKs talk to the mode `apify`, see tests/contract/peer/test_clients.py,
and the current Python SDK to the default mode, see the other tests of this folder.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outlast.cli.main import command_line
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.processes.installed import node, npm_package, path_with_node, python_with
from tests.support.stacks.service import Service, settings_environment

PROGRAMS = Path(__file__).parent / "clients"
TRANSPORTS = pytest.mark.parametrize("transport", ["http", "stdio"])
ERAS_AND_TRANSPORTS = pytest.mark.parametrize(
    ("era", "transport"),
    [("legacy", "http"), ("modern", "stdio"), ("modern", "http"), ("legacy", "stdio")],
)
STDIO_SERVER = [sys.executable, "-m", "tests.support.http.stdio_server", "tools=actors,dev,outlast/sleeper"]

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(400)]


@pytest.fixture
def environment(service: Service, tmp_path: Path) -> dict[str, str]:
    """Where a server on standard input and output finds the service, and a home for the client."""
    settings = settings_environment(
        service.temporal_address,
        service.sandbox,
        OUTLAST_DATA_DIR=str(tmp_path),
        OUTLAST_LOG_LEVEL="warning",
        OUTLAST_TOOLS_FROM="tests.support.tools.conformance_tools",
        HOME=str(tmp_path),
        PATH=path_with_node(),
        PYTHONPATH=str(ROOT),
    )
    return {name: value for name, value in settings.items() if name != "PYTHONWARNINGS"}


async def output_of(command: list[str], environment: dict[str, str], *, code: int = 0) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == code, f"{out.decode()[-3000:]}\n{err.decode()[-3000:]}"
    return out.decode()


async def json_of(command: list[str], environment: dict[str, str]) -> Any:
    return json.loads(await output_of(command, environment))


def target(transport: str, service: Service) -> list[str]:
    return ["http", f"{service.api_url}/mcp"] if transport == "http" else ["stdio", *STDIO_SERVER]


@TRANSPORTS
async def test_the_python_sdk_of_the_older_era(service: Service, environment: dict[str, str], transport: str) -> None:
    python = python_with("mcp==1.30.0")
    seen = await json_of([str(python), str(PROGRAMS / "mcp_1_30.py"), *target(transport, service)], environment)
    support = seen.pop("support")
    assert (support["call-actor"], support["failing_job"], support.get("get-task")) == ("optional", "required", None)
    statuses = seen.pop("statuses")
    assert statuses[-1] == "completed"
    assert seen == {
        "plain": "Hello, Ann!",
        "run": "SUCCEEDED",
        "asked": "a.txt was deleted",
        "cancelled": "cancelled",
        "listed": True,
    }


@TRANSPORTS
async def test_fastmcp_drives_tasks_of_the_newer_era(
    service: Service, environment: dict[str, str], transport: str
) -> None:
    python = python_with("fastmcp==4.1.2", "fastmcp-tasks==4.1.2")
    seen = await json_of([str(python), str(PROGRAMS / "fastmcp_4_1.py"), *target(transport, service)], environment)
    assert seen == {
        "plain": "Hello, Ann!",
        "run": "SUCCEEDED",
        "statuses": ["working", "cancelled"],
        "asked": "a.txt was deleted",
        "composed": "Hello, Ann!",
    }


@pytest.fixture
def config(service: Service, environment: dict[str, str], tmp_path: Path, transport: str) -> Path:
    """A configuration as clients keep it, with one server: `outlast`."""
    path = tmp_path / "mcp.json"
    if transport == "stdio":
        server = {"command": STDIO_SERVER[0], "args": STDIO_SERVER[1:], "env": environment, "cwd": str(ROOT)}
        path.write_text(json.dumps({"mcpServers": {"outlast": server}}))
    else:
        install = ["mcp", "install", "claude-code", "--url", str(service.api_url), "--file", str(path)]
        ended = CliRunner().invoke(command_line(), install)
        assert ended.exit_code == 0, ended.output
    return path


@ERAS_AND_TRANSPORTS
async def test_the_inspector(environment: dict[str, str], config: Path, transport: str, era: str) -> None:
    package = npm_package("@modelcontextprotocol/inspector", "2.12.0")
    program = [str(node()), str(package / "clients" / "launcher" / "build" / "index.js"), "--cli"]
    program += ["--config", str(config), "--server", "outlast", "--protocol-era", era]
    listed = await json_of([*program, "--method", "tools/list"], environment)
    assert "call-actor" in [tool["name"] for tool in listed["tools"]]
    call = ["--method", "tools/call", "--tool-name", "slow_compute", "--tool-arg", "seconds=0", "label=it"]
    assert "Computed it" in await output_of([*program, *call], environment)


@TRANSPORTS
async def test_mcpc(environment: dict[str, str], config: Path, transport: str) -> None:
    package = npm_package("@apify/mcpc", "0.2.6")
    mcpc = [str(node()), str(package / "bin" / "mcpc")]
    # mcpc gives its own background process five seconds to start, which a busy machine may need more than once for.
    await eventually(lambda: output_of([*mcpc, "connect", f"{config}:outlast", "@o"], environment))
    try:
        tools = await json_of([*mcpc, "--json", "@o", "tools-list"], environment)
        assert "call-actor" in [tool["name"] for tool in tools]
        assert "Hello, Ann!" in await output_of(
            [*mcpc, "--json", "@o", "tools-call", "greet", "name:=Ann"], environment
        )
        call = ["tools-call", "slow_compute", "seconds:=0", "label:=it", "--task"]
        assert "Computed it" in await output_of([*mcpc, "--json", "@o", *call], environment)
        assert "slow_compute" in await output_of([*mcpc, "--json", "@o", "tasks-list"], environment)
    finally:
        await output_of([*mcpc, "close", "@o"], environment)
