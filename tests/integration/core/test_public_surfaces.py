"""REST, MCP, the command line and the Python client offer what they did: see `tests.support.snapshots`."""

import inspect
from functools import cached_property
from types import ModuleType

import httpx
import pytest
from typer.main import get_command

import outlast
import outlast.client
from outlast import AsyncClient, Client
from outlast.cli.main import command_line
from outlast.workflows.tools.registry import MODES
from tests.support.http.mcp_wire import MODERN, Wire
from tests.support.snapshots import check, commands, json_lines, members_of, names_of


async def test_rest(api: httpx.AsyncClient, pytestconfig: pytest.Config) -> None:
    document = (await api.get("/openapi.json")).json()
    document["info"].pop("version")
    check(pytestconfig, "openapi.json", json_lines(document))


@pytest.mark.parametrize("mode", MODES)
async def test_tools_of_a_mode(mode: str, api: httpx.AsyncClient, pytestconfig: pytest.Config) -> None:
    listed = await Wire(api, MODERN, f"?mode={mode}").request("tools/list")
    check(pytestconfig, f"tools/{mode}.json", json_lines(listed["tools"]))


def test_command_line(pytestconfig: pytest.Config) -> None:
    check(pytestconfig, "commands.txt", "\n".join(commands(get_command(command_line()))) + "\n")


@pytest.mark.parametrize("module", [outlast, outlast.client], ids=lambda module: module.__name__)
def test_python(module: ModuleType, pytestconfig: pytest.Config) -> None:
    check(pytestconfig, f"{module.__name__}.txt", "\n".join(names_of(module)) + "\n")


@pytest.mark.parametrize("client", [Client("http://127.0.0.1", "a-key"), AsyncClient("http://127.0.0.1", "a-key")])
def test_areas_of_a_client(client: object, pytestconfig: pytest.Config) -> None:
    areas = [
        getattr(client, name)
        for name in sorted(dir(type(client)))
        if isinstance(inspect.getattr_static(client, name), cached_property)
    ]
    found = "\n".join(line for area in areas for line in members_of(type(area)))
    check(pytestconfig, f"{type(client).__name__}.txt", f"{found}\n")
