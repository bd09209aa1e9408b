"""What a key may be used for, in every front door: the routes of the API's own document, MCP, and the adapters."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry, Scope
from outlast.api.access.policy.policy_file import add_key
from tests.support.calls.tasks import sleeper_call
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox

KEYS: dict[str, set[Scope]] = {
    "none": set(),
    "read": {"read"},
    "call": {"call"},
    "cancel": {"cancel"},
    "approve": {"approve"},
    "most": {"call", "read", "cancel"},
    "admin": {"read", "admin"},
}
DELETES = {
    ("post", "/v1/tasks/{task_id}/cancel"),
    ("post", "/v1/batches/{batch_id}/cancel"),
    ("post", "/v1/sessions/{session_id}/turns/{turn_id}/cancel"),
}
ANSWERS = {("post", "/v1/tasks/{task_id}/input")}
FORBIDDEN = "urn:outlast:problem:forbidden-scope"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, str]]]:
    path = tmp_path_factory.mktemp("policy") / "policy.toml"
    made: dict[str, dict[str, str]] = {}
    for name, scopes in KEYS.items():
        key, hashed = new_key(name)
        add_key(path, KeyEntry(id=name, caller="key:ann", hash=str(hashed), scopes=frozenset(scopes)))
        made[name] = bearer(key.get_secret_value())
    with path.open("a") as file:
        file.write('[callers."key:ann"]\nmodels = ["openai/gpt-5*"]\n')
    return path, made


@pytest.fixture
async def api(
    temporal: Client, sandbox: Sandbox, keys: tuple[Path, dict[str, dict[str, str]]]
) -> AsyncIterator[httpx.AsyncClient]:
    """An API whose policy has one caller with a key for each set of scopes."""
    async with serving_api(temporal, api_settings(sandbox, policy_file=keys[0]), whole=True) as api:
        yield api


def needed(method: str, path: str) -> set[Scope]:
    if method == "delete" or (method, path) in DELETES:
        return {"cancel"}
    if path.startswith(("/v1/servers", "/v1/health", "/v1/policy")):
        return {"admin"}
    if path == "/v1/me":
        return set()
    if (method, path) in ANSWERS:
        return {"call", "approve"}
    return {"read"} if method == "get" else {"call"}


async def test_every_route_refuses_keys_without_its_scope(
    api: httpx.AsyncClient, keys: tuple[Path, dict[str, dict[str, str]]]
) -> None:
    paths: dict[str, dict[str, Any]] = (await api.get("/openapi.json")).json()["paths"]
    routes = [(method, path) for path, methods in paths.items() if path.startswith("/v1/") for method in methods]
    assert len(routes) > 25
    wrong: list[str] = []
    for method, path in routes:
        if path.endswith("/events"):
            continue  # the same dependency; what is allowed would never end
        assert "403" in paths[path][method]["responses"], path
        filled = path.replace("{provider}", "anthropic").replace("{name}", "nothing")
        for part in ("{task_id}", "{session_id}", "{turn_id}", "{locator}"):
            filled = filled.replace(part, "no-such-thing")
        for name, scopes in KEYS.items():
            response = await api.request(
                method, filled, headers=keys[1][name], json={} if method in ("post", "patch") else None
            )
            refused = response.status_code == 403 and response.json()["type"] == FORBIDDEN
            if refused is bool(not needed(method, path) or scopes & needed(method, path)):
                wrong.append(f"{method} {path} with {name}: {response.status_code}")
    assert not wrong
    problem = (await api.post("/v1/tasks", headers=keys[1]["read"], json=sleeper_call(0))).json()
    assert "the scope `call`; your key has read" in problem["detail"]


async def test_usage_of_others_needs_admin_and_models_are_those_of_the_policy(
    api: httpx.AsyncClient, keys: tuple[Path, dict[str, dict[str, str]]]
) -> None:
    for name, status in (("read", 403), ("admin", 200)):
        response = await api.get("/v1/usage", params={"caller": "key:bob"}, headers=keys[1][name])
        assert response.status_code == status, response.text
    assert (await api.get("/v1/usage", headers=keys[1]["read"])).status_code == 200
    headers = keys[1]["most"]
    body = {"sessionId": "models-of-ann", "providerId": "openai", "modelId": "gpt-5.1"}
    assert (await api.post("/v1/sessions", json=body, headers=headers)).status_code == 201
    other = body | {"sessionId": "other", "modelId": "gpt-4.1"}
    refused = await api.post("/v1/sessions", json=other, headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:outlast:problem:model-forbidden")
    message = {"message": "Hello", "modelId": "gpt-4.1"}
    refused = await api.post("/v1/sessions/models-of-ann/messages", json=message, headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:outlast:problem:model-forbidden"), refused.text
    assert "openai/gpt-5*" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("method", "params", "scopes"),
    [
        ("tools/list", {}, {"read"}),
        ("tools/call", {"name": "no-such-tool", "arguments": {}}, {"read", "call", "cancel", "approve", "admin"}),
        ("tools/call", {"name": "fetch-apify-docs", "arguments": {}}, {"call"}),
        ("tools/call", {"name": "list-tasks", "arguments": {}}, {"read"}),
        ("tools/call", {"name": "cancel-task", "arguments": {"taskId": "x"}}, {"cancel"}),
        ("tools/call", {"name": "answer-task", "arguments": {"taskId": "x", "key": "y"}}, {"call", "approve"}),
        ("tools/call", {"name": "fetch-apify-docs", "arguments": {}, "task": {}}, {"call"}),
        ("tasks/list", {}, {"read"}),
        ("tasks/get", {"taskId": "x"}, {"read"}),
        ("tasks/cancel", {"taskId": "x"}, {"cancel"}),
        ("resources/list", {}, {"read"}),
        ("prompts/list", {}, {"read"}),
        ("ping", {}, set()),
    ],
)
async def test_mcp_methods_need_scopes_as_routes_do(
    api: httpx.AsyncClient,
    keys: tuple[Path, dict[str, dict[str, str]]],
    method: str,
    params: dict[str, Any],
    scopes: set[Scope],
) -> None:
    wrong: list[str] = []
    for name, own in KEYS.items():
        answer = await mcp(api, keys[1][name], method, params)
        if ("needs the scope" in answer) is bool(not scopes or own & scopes):
            wrong.append(f"{name}: {answer[:300]}")
    assert not wrong


async def mcp(api: httpx.AsyncClient, headers: dict[str, str], method: str, params: dict[str, Any]) -> str:
    """The answer to one request of a new session (2025-11-25)."""
    headers = headers | {"Accept": "application/json, text/event-stream"}
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    path = "/mcp?tools=docs,list-tasks,cancel-task,answer-task"
    begun = await api.post(path, headers=headers, json=message(1, "initialize", client))
    assert begun.status_code == 200, begun.text
    headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
    await api.post(path, headers=headers, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
    answer = await api.post(path, headers=headers, json=message(2, method, params))
    await api.delete(path, headers=headers)
    return answer.text


def message(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
