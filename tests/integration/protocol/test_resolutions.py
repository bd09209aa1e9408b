"""Tasks of which it is unknown whether the tool was executed, and what people find out about them."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from outlast.client import AsyncClient, Conflict
from tests.support.calls.tasks import completed
from tests.support.processes.terminal import Shell
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.stacks.service import Service

ANN, BOB = "ann-key-0123456789abcdef", "bob-key-0123456789abcdef"
service = service_fixture(
    scope="module", tools=["tests.support.tools.unknown_outcomes"], callers={"ann": ANN, "bob": BOB}
)
api = http_fixture(ANN)


async def unknown(api: httpx.AsyncClient, folder: Path) -> str:
    """The id of a task that was charged for once, without an answer."""
    answer = await completed(api, {"tool": "charge", "arguments": {"folder": str(folder)}})
    assert answer["task"]["status"] == "failed"
    assert answer["result"]["error"]["category"] == "outcome_unknown"
    assert answer["result"]["error"]["retryable"] is False
    return answer["task"]["id"]


async def resolve(api: httpx.AsyncClient, task_id: str, **body: Any) -> httpx.Response:
    return await api.post(f"/v1/tasks/{task_id}/resolve", json=body)


async def shown(api: httpx.AsyncClient, task_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The task and its result, as both are read, and as the list has it."""
    answer = (await api.get(f"/v1/tasks/{task_id}/result")).json()
    task = (await api.get(f"/v1/tasks/{task_id}")).json()
    listed = (await api.get("/v1/tasks")).json()["tasks"]
    assert answer["task"] == task
    assert next(one for one in listed if one["id"] == task_id)["resolution"] == task["resolution"]
    return task, answer["result"]


async def test_what_was_done_completes_with_its_result(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await unknown(api, tmp_path)
    resolved = await resolve(api, task_id, outcome="done", result={"charges": 1}, note="Seen in the account")
    assert resolved.status_code == 200, resolved.text
    task, result = await shown(api, task_id)
    assert (task["status"], task["resolution"]["outcome"]) == ("completed", "done")
    assert task["resolution"]["resolved_by"] == "key:ann"
    assert "Seen in the account" in task["status_message"]
    assert (result["structured"], result["is_error"]) == ({"charges": 1}, False)
    again = await resolve(api, task_id, outcome="done", result={"charges": 1})
    assert again.json()["resolution"] == task["resolution"], "a repeated request changes nothing"
    other = await resolve(api, task_id, outcome="not_done")
    assert (other.status_code, "resolved as `done` by key:ann" in other.text) == (409, True)


async def test_what_was_not_done_may_be_called_again(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await unknown(api, tmp_path)
    assert (await resolve(api, task_id, outcome="not_done")).status_code == 200
    task, result = await shown(api, task_id)
    assert task["status"] == "failed"
    assert "was not executed" in result["error"]["message"]
    assert result["error"]["retryable"] is True


async def test_a_retry_calls_the_tool_once_however_often_it_is_asked_for(
    api: httpx.AsyncClient, tmp_path: Path
) -> None:
    task_id = await unknown(api, tmp_path)
    retries = {(await resolve(api, task_id, outcome="retry")).json()["resolution"]["task_id"] for _ in range(3)}
    assert len(retries) == 1
    answer = (await api.get(f"/v1/tasks/{retries.pop()}/result", params={"wait": 60})).json()
    assert answer["task"]["status"] == "completed"
    assert answer["result"]["structured"] == {"result": 2}, "one charge by each call"
    task, result = await shown(api, task_id)
    assert task["status_message"].startswith("Called again as task ")
    assert result["error"]["retryable"] is False


async def test_known_outcomes_and_other_callers_tasks_are_not_resolved(
    service: Service, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    task_id = await unknown(api, tmp_path)
    known = await completed(api, {"tool": "charge", "arguments": {"folder": str(tmp_path)}})
    refused = await resolve(api, known["task"]["id"], outcome="retry")
    assert (refused.status_code, "is known" in refused.text) == (409, True)
    async with service.http(BOB) as bob:
        assert (await resolve(bob, task_id, outcome="done")).status_code == 404
    for body in (
        {"outcome": "maybe"},
        {"outcome": "retry", "result": 1},
        {},
        {"outcome": "done", "result": "x" * 100_000},
    ):
        assert (await resolve(api, task_id, **body)).status_code == 422
    assert (await api.get(f"/v1/tasks/{task_id}")).json()["resolution"] is None


async def test_the_client_and_the_command_line_resolve(
    service: Service, api: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_TOKEN", ANN)
    task_id = await unknown(api, tmp_path)
    shell = Shell(service, tmp_path)
    assert "Give one of --done" in (await shell.outlast("tasks", "resolve", task_id)).said
    ended = await shell.outlast("tasks", "resolve", task_id, "--done", '{"charges": 1}', "--json")
    assert ended.code == 0, ended.out + ended.said
    assert json.loads(ended.out)["resolution"]["result"] == {"charges": 1}
    async with AsyncClient(service.api_url, token=ANN) as client:
        with pytest.raises(Conflict):
            await client.resolve(task_id, "retry")
        answer = await client.result(task_id)
    assert answer.result is not None
    assert answer.result.structured == {"charges": 1}
    assert answer.task.resolution is not None
