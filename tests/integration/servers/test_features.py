"""Resources, prompts and completion of MCP servers, and their notifications, for clients of both revisions."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from tests.support.eventually import eventually
from tests.support.mcp import library_server
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.service import Service

ERAS = ("auto", "legacy")
LIBRARIES = ("old", "new", "far")
POLICY = 'anonymous = "local"\nunmatched = "allow"\n[[rules]]\ncaller = "local"\ntool = "closed__*"\naction = "deny"\n'


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libraries")
    for name in ("old", "new", "far", "closed", "bare"):
        (folder / name).mkdir()
        (folder / name / f"dune-{name}").write_text(f"Spice, {name}.")
    return folder


@pytest.fixture(scope="module")
def far(shelves: Path) -> Iterator[str]:
    """The address of a library over HTTP."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--factory",
        "tests.support.mcp.library_server:app",
        "--port",
        str(port),
    ]
    environment = {**os.environ, "LIBRARY": str(shelves / "far"), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, "--log-level", "error"], cwd=ROOT, env=environment) as serving:
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            serving.kill()


@pytest.fixture(scope="module")
def settings(shelves: Path, far: str) -> dict[str, str]:
    def entry(name: str, *more: str, **options: Any) -> dict[str, Any]:
        arguments = [library_server.__file__, str(shelves / name), *more]
        return {"command": sys.executable, "args": arguments, "outlast": options}

    servers = {
        "old": entry("old", "legacy"),
        "new": entry("new"),
        "far": {"url": far},
        "closed": entry("closed"),
        "bare": entry("bare", resources=False, prompts=False),
    }
    file, policy = shelves / "servers.json", shelves / "policy.toml"
    file.write_text(json.dumps({"mcpServers": servers}))
    policy.write_text(POLICY)
    return {"OUTLAST_MCP_SERVERS_FILE": str(file), "OUTLAST_POLICY_FILE": str(policy)}


service = service_fixture(scope="module", settings_from="settings")


def connection(service: Service, era: str, query: str = "?tools=servers", **options: Any) -> Client:
    return Client(f"{service.api_url}/mcp{query}", mode=era, cache=None, **options)


@pytest.mark.parametrize("era", ERAS)
async def test_resources_are_listed_once_and_read_from_their_server(service: Service, era: str) -> None:
    async with connection(service, era) as client:
        listed = {resource.uri for resource in (await client.list_resources()).resources}
        assert {f"outlast://servers/{name}/shared:///catalogue" for name in LIBRARIES} <= listed
        assert {f"outlast://servers/{name}/book:///dune-{name}" for name in LIBRARIES} <= listed
        assert not any("closed" in uri or "bare" in uri for uri in listed)
        for name in LIBRARIES:
            uri = f"outlast://servers/{name}/book:///dune-{name}"
            (content,) = (await client.read_resource(uri)).contents
            assert (content.uri, getattr(content, "text", "")) == (uri, f"Spice, {name}.")
        with pytest.raises(MCPError, match="Several MCP servers may have shared:///catalogue"):
            await client.read_resource("shared:///catalogue")
        with pytest.raises(MCPError, match="There is no book book:///gone"):
            await client.read_resource("outlast://servers/old/book:///gone")
        with pytest.raises(MCPError, match=r"2,000,0.. bytes; at most 1,500,000"):
            await client.read_resource("outlast://servers/new/book:///large")
        with pytest.raises(MCPError):
            await client.read_resource("outlast://servers/closed/book:///dune-closed")


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_alone_keeps_its_uris_and_takes_none_of_outlasts(service: Service, era: str) -> None:
    async with connection(service, era, "?tools=old") as client:
        listed = {resource.uri for resource in (await client.list_resources()).resources}
        assert {"shared:///catalogue", "book:///dune-old"} <= listed
        assert "dune-old" in getattr((await client.read_resource("shared:///catalogue")).contents[0], "text", "")
        templates = {one.uri_template for one in (await client.list_resource_templates()).resource_templates}
        assert {"book:///{title}", "outlast://servers/old/outlast://tasks/{title}"} <= templates
        hidden = await client.read_resource("outlast://servers/old/outlast://tasks/1")
        assert getattr(hidden.contents[0], "text", "") == "no task"
        with pytest.raises(MCPError):
            await client.read_resource("outlast://servers/new/book:///dune-new")


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_have_the_name_of_their_server_and_suggest_values(service: Service, era: str) -> None:
    async with connection(service, era) as client:
        listed = {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert {"run-actor", *(f"{name}__review" for name in LIBRARIES)} <= listed
        assert not any(name.startswith(("closed", "bare")) for name in listed)
        for name in LIBRARIES:
            prompt = await client.get_prompt(f"{name}__review", {"title": "Dune"})
            text, link = (message.content for message in prompt.messages)
            assert getattr(text, "text", "") == "Review Dune."
            assert getattr(link, "uri", "") == f"outlast://servers/{name}/shared:///catalogue"
            argument = {"name": "title", "value": "dune"}
            found = await client.complete(PromptReference(name=f"{name}__review"), argument)
            assert found.completion.values == [f"dune-{name}"]
            template = ResourceTemplateReference(uri=f"outlast://servers/{name}/book:///{{title}}")
            assert (await client.complete(template, argument)).completion.values == [f"dune-{name}"]
        with pytest.raises(MCPError):
            await client.get_prompt("closed__review", {"title": "Dune"})


async def _names(client: Client, awaited: str) -> set[str]:
    """The tools, if the awaited one is among them: a server may be listed later than its first client connects."""
    names = {tool.name for tool in (await client.list_tools()).tools}
    return names if awaited in names else set()


@pytest.mark.parametrize("server", LIBRARIES)
async def test_changed_lists_are_told_at_once(service: Service, server: str) -> None:
    told = asyncio.Queue[str]()

    async def noticed(message: Any) -> None:
        told.put_nowait(message.method)

    query = f"?tools={server}"
    async with (
        connection(service, "legacy", query, message_handler=noticed) as legacy,
        connection(service, "auto", query) as modern,
        modern.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True) as events,
    ):
        names = await eventually(lambda: _names(legacy, f"{server}__open-desk"))
        assert f"{server}__lend" not in names
        await legacy.call_tool(f"{server}__open-desk", {})
        found = {await told.get(), await told.get()}
        assert found == {"notifications/tools/list_changed", "notifications/prompts/list_changed"}
        assert {type(await anext(events)).__name__ for _ in range(2)} == {"ToolsListChanged", "PromptsListChanged"}
        assert f"{server}__lend" in {tool.name for tool in (await modern.list_tools()).tools}
        assert f"{server}__recommend" in {prompt.name for prompt in (await modern.list_prompts()).prompts}
        written = await legacy.call_tool(f"{server}__write", {"title": f"emma-{server}", "text": "Highbury"})
        assert await told.get() == "notifications/resources/list_changed"
        assert type(await anext(events)).__name__ == "ResourcesListChanged"
        assert f"book:///emma-{server}" in {one.uri for one in (await modern.list_resources()).resources}
        assert getattr(written.content[1], "uri", "") == f"book:///emma-{server}"
