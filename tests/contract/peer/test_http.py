"""What both servers answer below the tools: statuses and codes of requests that are wrong, or that only one serves."""

from typing import Any

import httpx
import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import (
    CAPABILITIES_ON_PURPOSE,
    HTTP_ON_PURPOSE,
    LISTS_MAY_BE_KEPT,
    NO_MESSAGE_UNASKED,
    WHO_ANSWERS,
)
from tests.contract.peer.shapes import beyond, differences, shape_of
from tests.contract.peer.test_answers import SERVER
from tests.support.http.mcp_wire import LEGACY, MODERN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ACCEPT = "application/json, text/event-stream"
OLDER = {"Accept": ACCEPT, "MCP-Protocol-Version": LEGACY}
NEWER = {"Accept": ACCEPT, "MCP-Protocol-Version": MODERN}
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}


def message(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}


def newer(method: str, params: dict[str, Any] | None = None, **headers: str) -> tuple[str, dict[str, str], Any]:
    named = {"Mcp-Name": params["name"]} if params and "name" in params else {}
    sent = {**NEWER, "Mcp-Method": method, **named, **{name.replace("_", "-"): each for name, each in headers.items()}}
    return "POST", sent, message(method, {**(params or {}), "_meta": META})


REQUESTS: dict[str, tuple[str, dict[str, str], Any]] = {
    "no session": ("POST", OLDER, message("tools/list")),
    "an unknown session": ("POST", {**OLDER, "Mcp-Session-Id": "no-such-session"}, message("tools/list")),
    "a stream without a session": ("GET", OLDER, None),
    "a stream of an unknown session": ("GET", {**OLDER, "Mcp-Session-Id": "no-such-session"}, None),
    "the end of an unknown session": ("DELETE", {**OLDER, "Mcp-Session-Id": "no-such-session"}, None),
    "a foreign host": ("POST", {**OLDER, "Host": "evil.example"}, message("initialize", HELLO)),
    "a foreign origin": ("POST", {**OLDER, "Origin": "https://evil.example"}, message("initialize", HELLO)),
    "one type only": ("POST", {**OLDER, "Accept": "application/json"}, message("initialize", HELLO)),
    "no JSON": ("POST", {**OLDER, "Content-Type": "application/json"}, b"{"),
    "no message": ("POST", OLDER, {"jsonrpc": "2.0"}),
    "an unknown version": newer("tools/list", MCP_Protocol_Version="2031-01-01"),
    "another method in the header": newer("tools/list", Mcp_Method="tools/call"),
    "another tool in the header": newer("tools/call", {"name": "call-actor", "arguments": {}}, Mcp_Name="x"),
    "no method in the header": newer("tools/list", Mcp_Method=""),
    "an unknown method": newer("no/such"),
    "ping": newer("ping"),
    "logging": newer("logging/setLevel", {"level": "info"}),
    "tasks": newer("tasks/list"),
    "completion": newer(
        "completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "actor", "value": "a"}}
    ),
    "a subscription": newer("resources/subscribe", {"uri": "https://example.com/"}),
    "an unknown resource": newer("resources/read", {"uri": "file:///x"}, Mcp_Name="file:///x"),
    "an unknown tool": newer("tools/call", {"name": "no-such-tool", "arguments": {}}),
}


async def answered(http: httpx.AsyncClient, path: str, request: tuple[str, dict[str, str], Any]) -> tuple[int, Any]:
    """The status, and the code of the error if there is one."""
    verb, headers, body = request
    sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
    async with http.stream(verb, path, headers=headers, **sent) as response:
        text = (await response.aread()).decode() if response.status_code != 200 or verb == "POST" else ""
    code = next((part.partition(",")[0].strip(" }") for part in text.split('"code":')[1:]), None)
    return response.status_code, code


async def test_requests_are_refused_as_the_peer_refuses_them(both: Both) -> None:
    found: dict[str, tuple[Any, Any]] = {}
    for label, request in REQUESTS.items():
        found[label] = (await answered(both.peer, "/", request), await answered(both.ours, "/mcp?mode=apify", request))
    different = {label: answers for label, answers in found.items() if answers[0] != answers[1]}
    assert {label: answers for label, answers in different.items() if label not in HTTP_ON_PURPOSE} == {}
    assert different.keys() == HTTP_ON_PURPOSE.keys()


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_the_server_says_of_itself_what_the_peer_says(both: Both, revision: str) -> None:
    wires = both.wires(revision, "?tools=docs")
    hellos = [await (each.initialize() if revision == LEGACY else each.request("server/discover")) for each in wires]
    theirs, ours = [hello["capabilities"] for hello in hellos]
    found = [line for line in differences(theirs, ours) if line.partition(":")[0] not in CAPABILITIES_ON_PURPOSE]
    assert found == []
    assert "task" not in theirs.get("extensions", {})
    who = [hello["serverInfo"] if revision == LEGACY else hello["_meta"][SERVER] for hello in hellos]
    assert beyond(differences(shape_of(who[0]), shape_of(who[1])), WHO_ANSWERS) == []
    assert all(who[0][name] != who[1][name] for name in ("name", "title", "version"))
    keys = [hello.keys() for hello in hellos]
    assert keys[0] == keys[1]


async def test_lists_may_be_kept_for_a_while(both: Both) -> None:
    theirs, ours = [await wire.request("tools/list") for wire in both.wires(MODERN, "?tools=docs")]
    assert (theirs["cacheScope"], theirs["ttlMs"]) == ("private", 0)
    assert (ours["cacheScope"], ours["ttlMs"]) == ("private", 60_000), LISTS_MAY_BE_KEPT


async def test_a_refused_call_is_told_in_its_answer(both: Both) -> None:
    told: list[list[str]] = []
    for wire in both.wires(LEGACY, "?tools=docs"):
        await wire.initialize()
        call = {"name": "no-such-tool", "arguments": {}}
        told.append([said.get("method", "the answer") async for said in wire.messages("tools/call", call)])
    assert told[1] == ["the answer"], NO_MESSAGE_UNASKED
    assert "the answer" in told[0]
