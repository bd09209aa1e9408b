"""A task is the same in every answer that has it: to its call, when it is read, in lists, and beside its result."""

from typing import Any

import httpx
import pytest

from outlast.contracts.tasks import Task
from tests.support.calls.tasks import WAIT, result_of, sleeper_call
from tests.support.stacks.sandbox import Sandbox

CHANGING = {
    "status",
    "status_message",
    "finished_at",
    "expires_at",
    "answered",
    "input_requests",
    "run",
    "cost_usd",
    "progress",
}
"""Fields that change while a task works."""
ANSWER_ONLY = {"reused"}
"""Fields that only the answer to a call has."""
FIXED = set(Task.model_fields) - CHANGING - ANSWER_ONLY


async def views_of(api: httpx.AsyncClient, task_id: str) -> dict[str, dict[str, Any]]:
    """The task as each way of reading it shows it."""
    listed = (await api.get("/v1/tasks", params={"page_size": 200})).json()["tasks"]
    return {
        "read": (await api.get(f"/v1/tasks/{task_id}")).json(),
        "listed": next(task for task in listed if task["id"] == task_id),
        "beside its result": (await result_of(api, task_id))["task"],
    }


def only(fields: set[str], task: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in task.items() if name in fields}


def different(one: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields of which the two have different values; null is the same as absent."""
    one, other = without_nulls(one), without_nulls(other)
    return {
        name: (one.get(name), other.get(name)) for name in one.keys() | other.keys() if one.get(name) != other.get(name)
    }


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


async def test_a_started_task_has_all_that_cannot_change(api: httpx.AsyncClient) -> None:
    started = (await api.post("/v1/tasks", json={**sleeper_call(0.1), "session_id": "views"})).json()
    assert started["session_id"] == "views"
    await result_of(api, started["id"])
    views = await views_of(api, started["id"])
    found = {name: different(only(FIXED, started), only(FIXED, task)) for name, task in views.items()}
    assert [name for name, fields in found.items() if fields] == [], found


async def test_a_resurrected_task_names_the_task_that_it_continues(api: httpx.AsyncClient) -> None:
    ended = (await api.post("/v1/tasks", json=sleeper_call(30), headers={"Prefer": "wait=1"})).json()["task"]
    await api.post(f"/v1/tasks/{ended['id']}/cancel")
    await result_of(api, ended["id"])
    response = await api.post(f"/v1/tasks/{ended['id']}/resurrect", json={"force": True})
    assert response.status_code == 201, response.text
    started = response.json()
    assert started["resurrects"] == ended["id"]
    read = (await api.get(f"/v1/tasks/{started['id']}")).json()
    await api.post(f"/v1/tasks/{started['id']}/cancel")
    assert only(FIXED, read) == only(FIXED, started)


@pytest.mark.parametrize("fails", [False, True])
async def test_an_ended_task_is_the_same_in_the_answer_to_its_call(
    api: httpx.AsyncClient, sandbox: Sandbox, fails: bool
) -> None:
    dataset_id = "no-such-dataset" if fails else sandbox.new_dataset([{"n": 1}])
    body = {"tool": "get-dataset-items", "arguments": {"datasetId": dataset_id}}
    answered = (await api.post("/v1/tasks", json=body, headers=WAIT)).json()["task"]
    assert answered["status"] == ("failed" if fails else "completed")
    assert answered["finished_at"] < answered["expires_at"]
    views = await views_of(api, answered["id"])
    # Lists do not read the answers of tasks without a run, which may be large, for their first lines.
    if views["listed"]["status_message"] is None:
        views["listed"]["status_message"] = answered["status_message"]
    found = {name: different(answered, task) for name, task in views.items()}
    assert [name for name, fields in found.items() if fields] == [], found


async def test_an_ended_run_is_the_same_in_the_answer_to_its_call(api: httpx.AsyncClient) -> None:
    answered = (await api.post("/v1/tasks", json=sleeper_call(0.1), headers=WAIT)).json()["task"]
    assert answered["run"]["status"] == "SUCCEEDED"
    views = await views_of(api, answered["id"])
    found = {name: different(answered, task) for name, task in views.items()}
    assert [name for name, fields in found.items() if fields] == [], found
