"""Clients that other people wrote, as they are used with the peer: one script, two addresses, the same to be seen."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.peer.differences import LISTED_BESIDES, OWN_TEMPLATES
from tests.contract.peer.process.server import VERSION
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN
from tests.support.paths import ROOT
from tests.support.processes.installed import node, npm_package, path_with_node, python_with
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PROGRAMS = Path(__file__).parent / "clients"
QUERY = "tools=actors,docs,runs,storage,outlast/sleeper"
PLAIN = pytest.param(QUERY, id="plain", marks=pytest.mark.thorough)
WITH_WIDGETS = pytest.param(f"{QUERY}&ui=apps", id="with widgets")
QUERIES = pytest.mark.parametrize("query", [PLAIN, WITH_WIDGETS])


async def output_of(*command: str, environment: dict[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 180)
    assert process.returncode == 0, f"{out.decode()[-3000:]}\n{err.decode()[-3000:]}"
    return out.decode()


async def seen_of_both(
    service: Service, peer_url: str, query: str, *command: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the program saw of the peer, and of ours; its last arguments are the address and the token."""
    addresses = (f"{peer_url}/?{query}", f"{service.api_url}/mcp?mode=apify&{query}")
    outputs = [await output_of(*command, address, service.sandbox.token) for address in addresses]
    theirs, ours = [json.loads(output) for output in outputs]
    ours["tools"] = [tool for tool in ours["tools"] if tool[0] not in LISTED_BESIDES]
    return theirs, ours


@QUERIES
@pytest.mark.thorough
async def test_the_python_sdk_sees_the_same(service: Service, peer_url: str, query: str) -> None:
    program = (str(python_with("mcp==1.30.0")), str(PROGRAMS / "python_1_30.py"))
    theirs, ours = await seen_of_both(service, peer_url, query, *program)
    assert ours == theirs
    assert (ours["run"][0], ours["task"], ours["page"]) == ("SUCCEEDED", ["completed", "SUCCEEDED"], [2, 1])


@QUERIES
async def test_the_typescript_sdk_sees_the_same(service: Service, peer_url: str, query: str) -> None:
    """It comes with the peer, which is written with it."""
    sdk = npm_package("@apify/actors-mcp-server", VERSION).parents[1] / "@modelcontextprotocol" / "sdk"
    theirs, ours = await seen_of_both(service, peer_url, query, str(node()), str(PROGRAMS / "typescript.mjs"), str(sdk))
    assert ours == theirs
    assert (ours["run"][0], ours["task"]) == ("SUCCEEDED", ["taskCreated", "SUCCEEDED"])


async def test_the_typescript_sdk_of_the_newer_revision_sees_the_same(service: Service, peer_url: str) -> None:
    """It reads an error also where the status is 400 (`HTTP_ON_PURPOSE`): its callers are told the same."""
    sdk = npm_package("@modelcontextprotocol/client", "2.4.0")
    program = (str(node()), str(PROGRAMS / "typescript_2.mjs"), str(sdk))
    theirs, ours = await seen_of_both(service, peer_url, f"{QUERY}&ui=apps", *program)
    assert ours == theirs
    assert (ours["revision"], ours["run"][0], ours["failed"][0]) == (MODERN, "SUCCEEDED", True)
    assert {label: refused[:2] for label, refused in ours["refused"].items()} == {
        "an unknown tool": ["ProtocolError", -32602],
        "a missing argument": ["ProtocolError", -32602],
        "an unknown resource": ["ResourceNotFoundError", -32602],
    }


@QUERIES
@pytest.mark.thorough
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_sees_the_same(
    service: Service, peer_url: str, tmp_path: Path, era: str, query: str
) -> None:
    package = npm_package("@modelcontextprotocol/inspector", "2.12.0")
    program = (str(node()), str(package / "clients" / "launcher" / "build" / "index.js"), "--cli")
    headers = {"Authorization": f"Bearer {service.sandbox.token}"}
    servers = {
        "peer": {"type": "http", "url": f"{peer_url}/?{query}", "headers": headers},
        "ours": {"type": "http", "url": f"{service.api_url}/mcp?mode=apify&{query}", "headers": headers},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    seen: dict[str, Any] = {}
    for server in servers:
        chosen = (*program, "--config", str(config), "--server", server, "--protocol-era", era)
        listed = json.loads(await output_of(*chosen, "--method", "tools/list"))["tools"]
        call = ("--method", "tools/call", "--tool-name", "outlast--sleeper", "--tool-arg", "seconds=0")
        answer = await output_of(*chosen, *call)
        names = [tool["name"] for tool in listed if tool["name"] not in LISTED_BESIDES]
        seen[server] = (names, '"SUCCEEDED"' in answer, "SUCCEEDED in " in answer)
    assert seen["ours"] == seen["peer"]
    assert seen["ours"][1:] == (True, True)


@pytest.mark.thorough
async def test_mcpc_sees_the_same(service: Service, peer_url: str, tmp_path: Path) -> None:
    """It lists, calls, calls as a task, waits with progress, and reads resources."""
    package = npm_package("@apify/mcpc", "0.2.6")
    program = (str(node()), str(package / "bin" / "mcpc"))
    environment = {"PATH": path_with_node(), "HOME": str(tmp_path)}
    headers = {"Authorization": f"Bearer {service.sandbox.token}"}
    servers = {
        "peer": {"type": "http", "url": f"{peer_url}/?{QUERY}", "headers": headers},
        "ours": {"type": "http", "url": f"{service.api_url}/mcp?mode=apify&{QUERY}", "headers": headers},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    seen: dict[str, Any] = {}
    for server in servers:
        session = f"@{server}"

        async def asked(*command: str, session: str = session) -> Any:
            return json.loads(await output_of(*program, "--json", session, *command, environment=environment))

        connect = (*program, "connect", f"{config}:{server}", session)
        # mcpc gives its own background process five seconds to start, which a busy machine may need more than once for.
        await eventually(lambda connect=connect: output_of(*connect, environment=environment))
        try:
            seen[server] = await script_of_mcpc(service, asked)
        finally:
            await output_of(*program, "close", session, environment=environment)
    assert seen["ours"] == seen["peer"]
    assert seen["ours"]["run"][0] == "SUCCEEDED"


async def script_of_mcpc(service: Service, asked: Callable[..., Awaitable[Any]]) -> dict[str, Any]:
    """What mcpc sees of one server, without what is each server's own."""
    tools = [tool["name"] for tool in await asked("tools-list") if tool["name"] not in LISTED_BESIDES]
    call = ("tools-call", "call-actor", "actor:=outlast/sleeper", 'input:={"seconds": 0.3, "rows": 2}')
    run = (await asked(*call))["structuredContent"]
    dataset = run["storages"]["datasets"]["default"]["id"]
    state = await asked("tools-call", "get-actor-run", f"runId:={run['runId']}")
    items = await asked("resources-read", f"{service.sandbox.url}/v2/datasets/{dataset}/items?limit=1&fields=index")
    templates = await asked("resources-templates-list")
    as_task = await asked("tools-call", "outlast--sleeper", "seconds:=0", "--task")
    return {
        "tools": tools,
        "run": [run["status"], run["actorName"], sorted(run)],
        "state": state["structuredContent"]["status"],
        "items": [content["text"] for content in items["contents"]],
        "templates": sorted(entry["name"] for entry in templates if entry["name"] not in OWN_TEMPLATES),
        "task": as_task["structuredContent"]["status"],
    }
