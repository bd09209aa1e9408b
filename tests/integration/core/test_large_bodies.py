"""Bodies that are large, deep or full of fields: refused in a few words, while others are served."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tests.support.calls.tasks import sleeper_call
from tests.support.eventually import eventually
from tests.support.hostile.pulse import beating
from tests.support.hostile.weapons import KINDS, body_of, call
from tests.support.http.mcp_wire import MODERN, Wire
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

pytestmark = pytest.mark.slow

MAX_REFUSAL_BYTES = 64 * 1024
PATHS = ("/v1/tasks", "/v1/tools/call-actor/call", "/v1/sessions", "/v1/adapters/openai-chat/calls", "/mcp")
TOO_COMPLEX = {"fields", "objects", "depth"}
"""Refused before they are parsed. The others are within the limits of structure, or no JSON."""
USUAL = ("fields", "depth", "fields inside", "wrong items", "control characters")
OTHERS = tuple(kind for kind in KINDS if kind not in USUAL)
"""Kinds that are refused where one of the usual ones is."""
JSON = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "call-actor",
}


@pytest.fixture
async def other(service: Service, sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    """Another caller."""
    async with service.http(sandbox.add_user("not-hostile").token) as http:
        yield http


@pytest.mark.parametrize("kind", [*USUAL, *(pytest.param(kind, marks=pytest.mark.thorough) for kind in OTHERS)])
async def test_no_body_holds_others_up_or_gets_a_large_answer(
    api: httpx.AsyncClient, other: httpx.AsyncClient, service: Service, kind: str
) -> None:
    """The first attack held everybody up for seven seconds, five times."""
    answered = 0
    with beating(service.api_url, service.api.process.pid):
        attacks = [asyncio.create_task(api.post(path, content=body_of(kind), headers=JSON)) for path in PATHS]
        while not all(attack.done() for attack in attacks):
            assert (await other.get("/v1/tools/get-actor-run")).status_code == 200
            answered += 1
    for path, attack in zip(PATHS, attacks, strict=True):
        refused = attack.result()
        assert 400 <= refused.status_code < 500, (path, refused.text[:500])
        assert len(refused.content) < MAX_REFUSAL_BYTES, path
        is_unparsed = refused.json().get("type") == "urn:outlast:problem:body-too-complex"
        assert is_unparsed == (kind in TOO_COMPLEX), path
    assert answered >= 1


async def test_violations_are_bounded_in_number_and_size(api: httpx.AsyncClient) -> None:
    arguments = {f"{'x' * 300}{number}": "y" * 5_000 for number in range(500)}
    refused = await api.post("/v1/tasks", json={"tool": "get-dataset-items", "arguments": arguments})
    violations = refused.json()["error"]["violations"]
    assert 0 < len(violations) <= 50
    assert len(refused.content) < MAX_REFUSAL_BYTES


@pytest.mark.parametrize("path", PATHS)
async def test_a_stranger_is_refused_before_the_body_is_read(service: Service, sandbox: Sandbox, path: str) -> None:
    """The body never comes, so an answer means that nothing waited for it."""
    settings = api_settings(sandbox, api_keys=SecretStr("ann:0123456789abcdef"), accept_apify_tokens=False)
    async with serving_api(await connect(service.temporal_address), settings) as http:
        assert (await http.get("/healthz")).status_code == 200
        reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 5000000\r\n"
        )
        writer.write(f"{head}\r\n{{".encode())
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()


async def test_a_large_honest_body_is_taken(api: httpx.AsyncClient) -> None:
    urls = [{"url": f"https://example.com/{number}?a=1,2", "method": "GET"} for number in range(30_000)]
    body = {"tool": "get-dataset-items", "arguments": {"datasetId": "absent", "startUrls": urls}}
    refused = await api.post("/v1/tasks", json=body)
    assert [entry["path"] for entry in refused.json()["error"]["violations"]] == ["/startUrls"]


@pytest.mark.parametrize(
    ("path", "body", "place", "near"),
    [
        ("tasks", {"tool": "x", "options": {"budget": {"maxItems": 5}}}, "/options/budget/maxItems", "max_items"),
        ("tools/x/call", {"options": {"output": {"ttlSeconds": 60}}}, "/options/output/ttlSeconds", "ttl_seconds"),
        ("adapters/anthropic/calls", {"message": [], "options": {"budgets": {}}}, "/options/budgets", "budget"),
        ("sessions", {"budgets": {"dollars": 1}}, "/budgets/dollars", "known are minutes, steps, tokens, usd"),
        ("sessions", {"controls": {"temprature": 1}}, "/controls/temprature", "temperature"),
        ("sessions/import", {"settings": {"maxStep": 1}}, "/settings/maxStep", "maxSteps"),
        ("sessions/s/messages", {"message": [{"type": "text", "txt": "x"}]}, "/message/0/txt", "text"),
        ("tasks/t/input", {"answers": {"a": {"contents": {}}}}, "/answers/a/contents", "content"),
    ],
)
async def test_a_misspelt_field_is_refused_with_the_nearest_one(
    api: httpx.AsyncClient, path: str, body: dict[str, Any], place: str, near: str
) -> None:
    refused = await api.post(f"/v1/{path}", json=body)
    assert refused.status_code == 422, refused.text
    messages = {entry["path"]: entry["message"] for entry in refused.json()["violations"]}
    assert near in messages[place]


@pytest.mark.parametrize(
    ("meta", "status"),
    [({"outlast/options": {"budget": {"maxItems": 5}}}, "did you mean 'max_items'?"), ({"of.another/key": 1}, None)],
)
async def test_options_of_an_mcp_call_are_checked_and_other_meta_is_let_through(
    api: httpx.AsyncClient, meta: dict[str, Any], status: str | None
) -> None:
    own = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    arguments = {"actor": "outlast/sleeper", "input": {"seconds": 0}}
    params = {"name": "call-actor", "arguments": arguments, "_meta": {**own, **meta}}
    answer = await api.post("/mcp", content=call(params=params), headers=JSON)
    assert (status in answer.text) if status else ('"error"' not in answer.text), answer.text


async def test_calls_with_large_bodies_that_wait_do_not_wait_for_each_other(api: httpx.AsyncClient) -> None:
    """A caller's large bodies are worked on one by one; a call that has begun is no longer one of them."""
    call_actor = sleeper_call(3_600, padding="x" * 100_000)
    wire = Wire(api, MODERN)
    calls = (
        wire.request("tools/call", {"name": "call-actor", "arguments": call_actor["arguments"]}),
        api.post("/v1/tools/call-actor/call", json={"arguments": call_actor["arguments"]}),
        wire.request("tools/call", {"name": "call-actor", "arguments": call_actor["arguments"]}),
    )
    waiting = [asyncio.ensure_future(call) for call in calls]

    async def begun() -> list[str] | None:
        tasks = (await api.get("/v1/tasks", params={"status": "working"})).json()["tasks"]
        return [task["id"] for task in tasks] if len(tasks) == len(waiting) else None

    for task_id in await eventually(begun):
        assert (await api.post(f"/v1/tasks/{task_id}/cancel")).status_code == 202
    await asyncio.gather(*waiting)
