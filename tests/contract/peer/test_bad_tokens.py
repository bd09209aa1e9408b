"""A token that the platform does not know: at connect, later on, and of a program that a client starts."""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.contract.peer.conftest import Both, both_of
from tests.contract.peer.differences import BAD_TOKEN_ON_PURPOSE, NOT_KNOWN_ON_PURPOSE
from tests.contract.peer.process.server import VERSION
from tests.contract.peer.test_answers import beginning, called
from tests.contract.peer.test_refusals import READS, REFUSALS
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import LEGACY, MODERN
from tests.support.processes.installed import node, npm_package
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
BAD = "apify_api_nobodyHasThisToken0123456789"
QUERY = "?tools=actors,runs,storage,tasks,outlast/sleeper"
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    **READS,
    "details": ("fetch-actor-details", {"actor": "outlast/sleeper"}),
    "call-actor": ("call-actor", {"actor": "outlast/sleeper", "input": {}}),
    "a new task": ("create-actor-task", {"actorId": "outlast/sleeper"}),
}


async def test_it_is_refused_at_connect(service: Service, peer_url: str) -> None:
    """So that a client asks for another one. The peer connects, and has each call fail."""
    async with both_of(service, peer_url, BAD) as both:
        theirs, _ = both.wires(MODERN, QUERY)
        assert "search-actors" in {tool["name"] for tool in (await theirs.request("tools/list"))["tools"]}
        refused = await called(theirs, "get-dataset-list", {})
        assert refused["isError"], BAD_TOKEN_ON_PURPOSE
    async with api_client(service.api_url, BAD) as http, api_client(peer_url, "") as nobody:
        for method in ("initialize", "tools/list", "tools/call"):
            answer = await http.post(f"/mcp{QUERY}&mode=apify", **message(method))
            assert (answer.status_code, answer.headers["www-authenticate"].split()[0]) == (401, "Bearer")
            assert answer.headers["content-type"] == "application/problem+json", NOT_KNOWN_ON_PURPOSE
        asked = discovery()
        assert (await nobody.post(f"/{QUERY}", **asked)).status_code == 200
        assert (await http.post(f"/mcp{QUERY}&mode=apify", **asked)).status_code == 401, NOT_KNOWN_ON_PURPOSE
        without = await nobody.post(f"/{QUERY}", **message("initialize"))
        # What the peer answers to a client without any token.
        assert (without.status_code, without.json()["error"]["code"]) == (401, -32001)
        assert "www-authenticate" in without.headers


def discovery() -> dict[str, Any]:
    """`server/discover`, which the peer answers to everybody."""
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN}
    request = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    return {"json": request, "headers": {**headers, "Mcp-Method": "server/discover"}}


def message(method: str) -> dict[str, Any]:
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": LEGACY}
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "a-client", "version": "1"}}
    params = {"initialize": hello, "tools/call": {"name": "get-dataset-list", "arguments": {}}}.get(method, {})
    return {"json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, "headers": headers}


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_one_that_is_revoked_later_is_told_as_the_peer_tells_it(
    both: Both, service: Service, revision: str
) -> None:
    wires = both.wires(revision, QUERY)
    for wire in wires:
        if revision == LEGACY:
            await wire.initialize()
        assert not (await called(wire, *CALLS["details"]))["isError"]  # The Actor is known from then on.
    status, kind, text = REFUSALS["bad token"]
    found: dict[str, Any] = {}
    service.sandbox.order_fault("status", path="^/v2/(?!users)", status=status, type=kind, message=text)
    try:
        for label, (tool, arguments) in CALLS.items():
            answers = [await called(wire, tool, arguments) for wire in wires]
            theirs, ours = [beginning(label, answer) for answer in answers]
            if theirs != ours:
                found[label] = (theirs, ours)
    finally:
        service.sandbox.restore()
    assert found == {}


async def over_stdio(command: list[str], environment: dict[str, str], folder: Path) -> tuple[list[Any], int | None]:
    """What a program answers to `initialize`, `tools/list` and a call on its standard input; and how it ends."""
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "a-client", "version": "1"}}
    call = {"name": "get-dataset-list", "arguments": {}}
    asked: list[tuple[str, Any]] = [("initialize", hello), ("tools/list", {}), ("tools/call", call)]
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=10_000_000,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answers: list[Any] = []
    with suppress(ConnectionError):
        for number, (method, params) in enumerate(asked):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            while (line := await asyncio.wait_for(process.stdout.readline(), 120)) and json.loads(line).get(
                "id"
            ) != number:
                pass
            if not line:
                break
            answers.append(json.loads(line))
            if method == "initialize":
                process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    process.stdin.close()
    return answers, await asyncio.wait_for(process.wait(), 60)


async def test_a_program_does_not_start_with_it_and_says_so_to_its_client(service: Service, tmp_path: Path) -> None:
    """The peer starts, offers what needs no look at the platform, and has each call fail."""
    package = npm_package("@apify/actors-mcp-server", VERSION)
    command = [str(node()), str(package / "dist" / "stdio.js"), "--tools", "storage,outlast/sleeper"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TELEMETRY_ENABLED": "false"}
    environment |= {"APIFY_TOKEN": BAD, "APIFY_API_BASE_URL": service.sandbox.url}
    (_, listed, refused), _ = await over_stdio(command, environment, tmp_path)
    names = [tool["name"] for tool in listed["result"]["tools"]]
    assert "get-dataset-list" in names
    assert "outlast--sleeper" not in names
    assert REFUSALS["bad token"][2] in refused["result"]["content"][0]["text"], BAD_TOKEN_ON_PURPOSE
    settings = clean_environment(APIFY_TOKEN=BAD, APIFY_API_BASE_URL=service.sandbox.url)
    own = [str(Path(sys.executable).parent / "outlast"), "mcp", "--data-dir", str(tmp_path / "data"), "--mode", "apify"]
    (answer,), code = await over_stdio([*own, *command[2:]], settings, tmp_path)
    assert "does not accept APIFY_TOKEN" in answer["error"]["message"]
    assert code == 2
    assert BAD not in json.dumps(answer)
