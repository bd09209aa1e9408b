"""Secrets planted everywhere they come in are found nowhere they could be read: histories, database, logs, metrics."""

import base64
from typing import Any

import httpx
import pytest

from tests.support.calls.tasks import WAIT, completed, sleeper_call
from tests.support.http.api_client import bearer
from tests.support.planted_secrets import histories, in_any_spelling
from tests.support.stacks.api_server import connect
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import SEAL_KEYS, Service

USER_TOKEN = "apify_api_plantedTokenOfAUser_-0123456789"
LEAKED_TOKEN = "apify_api_leakedByAnErrorMessage_-0123456"
ECHOED_HEADER = "plantedBearerInAnErrorMessage0123"
API_KEY = "planted-api-key-0123456789"
SAVED_INPUT = "plantedInTheInputOfASavedTask0123456789"
SEAL_KEY = SEAL_KEYS.partition(":")[2]


service = service_fixture(scope="module", database=True, callers={"alice": API_KEY})


def planted(sandbox: Sandbox) -> dict[str, str]:
    return {
        "the user's token": USER_TOKEN,
        "the operator's token": sandbox.token,
        "a token in an error message": LEAKED_TOKEN,
        "a header in an error message": ECHOED_HEADER,
        "the API key": API_KEY,
        "the sealing key": SEAL_KEY,
        "what a saved task was given": SAVED_INPUT,
        "the password for proxies of the user's account": "proxyPasswordOf_planted_0123456789",
    }


def saved_calls() -> list[dict[str, Any]]:
    """Calls that save inputs, and name things by names that are looked up in the account."""
    run_input, by_name = {"seconds": 0, "note": SAVED_INPUT}, {"actorTaskId": "planted-task"}
    action = {"actor": "outlast/sleeper", "input": run_input}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create-actor-task", {"actor": "outlast/sleeper", "name": "planted-task", "input": run_input}),
        ("update-actor-task", {**by_name, "input": run_input}),
        ("call-actor-task", {**by_name, "input": run_input}),
        ("create-schedule", {"cronExpression": "@yearly", "name": "planted-schedule", "actions": [action]}),
        ("update-schedule", {"scheduleId": "planted-schedule", "actions": [action]}),
        ("delete-schedule", {"scheduleId": "planted-schedule"}),
        ("delete-actor-task", by_name),
    ]
    return [{"tool": tool, "arguments": arguments} for tool, arguments in calls]


async def make_calls(service: Service) -> list[str]:
    """Calls of both callers: good ones, failed ones, refused ones, one that an outage of the platform delays."""
    sandbox, tasks = service.sandbox, []
    sandbox.add_user("planted", USER_TOKEN)
    message = f"Token {LEAKED_TOKEN} refused; Authorization: Bearer {ECHOED_HEADER}"
    async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=180) as api:
        for who in (bearer(USER_TOKEN), bearer(API_KEY)):

            async def call(body: dict[str, Any], who: dict[str, str] = who) -> dict[str, Any]:
                answer = await completed(api, body, **who)
                tasks.append(answer["task"]["id"])
                return answer["result"]

            await call(sleeper_call(0.1) | {"session_id": "planted"})
            await call(sleeper_call(0, mode="openai"))
            await call(sleeper_call(0, failWith={"exitCode": 1}))
            sandbox.order_fault("status", method="POST", path="/runs$", status=400, message=message, times=1)
            await call(sleeper_call(0))
            sandbox.order_fault("status", method="POST", path="/runs$", status=503, message=message, times=1)
            await call(sleeper_call(0))
            sandbox.order_fault("status", method="GET", path="/actor-runs/", status=403, message=message, times=1)
            await call({"tool": "get-actor-run", "arguments": {"runId": "any"}})
            if who == bearer(USER_TOKEN):  # The other one shares the account.
                for body in saved_calls():
                    assert not (await call(body))["is_error"]
            sandbox.order_fault("status", path="/v2/act", status=401, message=message, times=1)
            refused = await api.post("/v1/tasks", json={"tool": "outlast--absent"}, headers={**who, **WAIT})
            assert refused.status_code >= 400
            for secret in planted(sandbox).values():
                assert secret not in refused.text
            sandbox.clear_faults()
        await api.get("/v1/tasks", headers=bearer("apify_api_nobodyKnowsThisToken"))
    return tasks


@pytest.mark.slow
async def test_planted_secrets_are_found_nowhere(service: Service) -> None:
    tasks = await make_calls(service)
    sandbox = service.sandbox
    client = await connect(service.temporal_address)
    places = await histories(client)
    assert len(places) >= len(tasks)
    for file in (*service.folder.glob("temporal.db*"), service.worker.log, service.api.log, sandbox.log):
        places[file.name] = file.read_bytes()
    async with httpx.AsyncClient(trust_env=False, timeout=180) as http:
        places["metrics of the worker"] = (await http.get(service.worker_metrics_url)).content
        places["metrics of the API"] = (await http.get(f"{service.api_url}/metrics")).content

    # What the search must find, or it has looked in the wrong places.
    database = b"".join(content for name, content in places.items() if name.startswith("temporal.db"))
    assert "temporal.db-wal" in places
    for task_id in tasks:
        assert task_id.encode() in database
        assert task_id.encode() in places["worker.log"]
    assert b"[redacted]" in database
    assert b"outlast_tool_calls_total" in places["metrics of the worker"]

    found = [
        f"{what} in {place}"
        for what, secret in planted(sandbox).items()
        for place, content in places.items()
        if any(spelling in content for spelling in in_any_spelling(secret))
    ]
    assert found == []


def test_the_search_itself_finds_what_is_there() -> None:
    for secret in (USER_TOKEN, SEAL_KEY):
        for text in (secret, f'{{"token": "{secret}"}}'):
            for content in (text.encode(), base64.b64encode(text.encode()), text.encode().hex().encode()):
                assert any(spelling in content for spelling in in_any_spelling(secret))
