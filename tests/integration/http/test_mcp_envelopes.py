"""MCP over HTTP before the SDK reads a message: ids that are none, and handshakes that name an old session."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.access.policy.contracts import Limits
from outlast.api.settings import ApiSettings
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

ANN, BOB = ({"Authorization": f"Bearer {name}-0123456789abcdef"} for name in ("ann", "bob"))
BAD_IDS = ("null", "{}", "[]", "[1]", "1.5", "1.0", "1e2", "true", "false", "NaN", "-1.5", '{"a": 1}')
SESSIONS = 3


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    settings = ApiSettings(
        data_dir=tmp_path,
        seal_keys=SecretStr(SEAL_KEYS),
        api_keys=SecretStr("ann:ann-0123456789abcdef,bob:bob-0123456789abcdef"),
        limits=Limits(mcp_sessions=SESSIONS),
        default_actors="",
    )
    async with serving_api(await connect(f"127.0.0.1:{free_port()}", lazy=True), settings, whole=True) as http:
        http.headers["Accept"] = "application/json, text/event-stream"
        yield http


async def opens(
    api: httpx.AsyncClient, caller: dict[str, str], session: str | None = None, version: str | None = None
) -> httpx.Response:
    """The answer to a handshake that names `session`."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    named = {"Mcp-Session-Id": session} if session is not None else {}
    versioned = {"MCP-Protocol-Version": version} if version else {}
    return await api.post("/mcp", json=body, headers={**caller, **named, **versioned})


@pytest.mark.parametrize("method", ["tools/list", "ping", "initialize", "notifications/initialized", "tools/call"])
async def test_a_request_whose_id_is_none_is_refused(api: httpx.AsyncClient, method: str) -> None:
    session = (await opens(api, ANN)).headers["mcp-session-id"]
    for headers in ({"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}, {"MCP-Protocol-Version": MODERN}, {}):
        for bad in BAD_IDS:
            body = f'{{"jsonrpc": "2.0", "id": {bad}, "method": "{method}", "params": {{}}}}'
            sent = {**ANN, **headers, "Content-Type": "application/json"}
            answer = await api.post("/mcp", content=body, headers=sent)
            assert (answer.status_code, answer.json()["id"]) == (400, None), (bad, headers, answer.text)
            assert answer.json()["error"]["code"] == -32600
            assert "must be a string or an integer" in answer.json()["error"]["message"]
    for good in ("0", "-7", '""', '"7"', "9007199254740993"):
        body = f'{{"jsonrpc": "2.0", "id": {good}, "method": "ping"}}'
        sent = {**ANN, "Mcp-Session-Id": session, "Content-Type": "application/json"}
        assert (await api.post("/mcp", content=body, headers=sent)).status_code == 200


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "ping", "initialize", "server/discover", "x", ""])
async def test_a_request_without_an_id_is_refused(api: httpx.AsyncClient, method: str) -> None:
    session = (await opens(api, ANN)).headers["mcp-session-id"]
    for headers in ({"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}, {"MCP-Protocol-Version": MODERN}, {}):
        for body in ({"jsonrpc": "2.0", "method": method}, {"jsonrpc": "2.0", "ID": 1, "method": method, "params": {}}):
            answer = await api.post("/mcp", json=body, headers={**ANN, **headers})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600), answer.text
            assert "has none" in answer.json()["error"]["message"]


async def test_a_notification_needs_no_id(api: httpx.AsyncClient) -> None:
    session = (await opens(api, ANN)).headers["mcp-session-id"]
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await api.post("/mcp", json=body, headers={**ANN, "Mcp-Session-Id": session})).status_code == 202


@pytest.mark.parametrize("version", [None, LEGACY])
async def test_a_handshake_that_names_a_session_which_has_ended_opens_another(
    api: httpx.AsyncClient, version: str | None
) -> None:
    first = (await opens(api, ANN)).headers["mcp-session-id"]
    assert (await api.delete("/mcp", headers={**ANN, "Mcp-Session-Id": first})).is_success
    for dead in (first, "of-another-life", "x" * 4_000):
        answer = await opens(api, ANN, dead, version)
        assert answer.status_code == 200, answer.text
        session = answer.headers["mcp-session-id"]
        assert session != dead
        wire = Wire(api, LEGACY)
        wire.session = session
        api.headers.update(ANN)
        assert (await wire.request("tools/list"))["tools"]
    refused = await opens(api, ANN, "of-another-life", version)
    assert (refused.status_code, refused.json()["type"]) == (429, "urn:outlast:problem:too-many-requests")


async def test_a_handshake_that_names_a_living_session_stays_in_it(api: httpx.AsyncClient) -> None:
    first = (await opens(api, ANN)).headers["mcp-session-id"]
    assert (await opens(api, ANN, first)).headers["mcp-session-id"] == first
    of_bob = await opens(api, BOB, first)
    assert of_bob.status_code == 200
    assert of_bob.headers["mcp-session-id"] != first


async def test_other_requests_of_a_session_that_has_ended_are_told_so(api: httpx.AsyncClient) -> None:
    sent = {**ANN, "Mcp-Session-Id": "of-another-life"}
    for body in ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"}):
        assert (await api.post("/mcp", json=body, headers=sent)).status_code == 404


async def test_the_stateless_revision_takes_no_session_from_a_header(api: httpx.AsyncClient) -> None:
    api.headers.update(ANN)
    for number in range(2 * SESSIONS):
        await Wire(api, MODERN).request("tools/list", headers={"Mcp-Session-Id": f"made-up-{number}"})
    assert (await opens(api, ANN)).status_code == 200


async def test_a_url_that_a_connection_would_have_to_keep_is_bounded(api: httpx.AsyncClient) -> None:
    refused = await api.post(f"/mcp?tools=docs&x={'y' * 9_000}", headers=ANN, json={})
    assert (refused.status_code, refused.json()["type"]) == (400, "urn:outlast:problem:bad-request")
