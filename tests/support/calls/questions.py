"""Tasks that wait for somebody, over REST."""

from typing import Any

import httpx

from tests.support.calls.tasks import completed, started
from tests.support.eventually import eventually


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """The body of a call."""
    return {"tool": tool, "arguments": arguments}


async def waiting(api: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """A task just started, when it asks something."""
    return await asks(api, await started(api, body))


async def asks(api: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    """The task, when it asks something."""

    async def asked() -> dict[str, Any] | None:
        task = (await api.get(f"/v1/tasks/{task_id}")).json()
        return task if task["status"] == "input_required" else None

    return await eventually(asked)


async def answered(
    api: httpx.AsyncClient,
    task: dict[str, Any],
    content: Any = None,
    *,
    action: str = "accept",
    key: str | None = None,
    **more: str,
) -> httpx.Response:
    """What the API says to an answer to the task's question; `more` are fields of the answer beside its content."""
    key = key or next(iter(task["input_requests"]))
    answers = {key: {"action": action, "content": content or {}, **more}}
    return await api.post(f"/v1/tasks/{task['id']}/input", json={"answers": answers})


async def taken(
    api: httpx.AsyncClient, task: dict[str, Any], content: Any = None, *, action: str = "accept", **more: str
) -> None:
    """Answer, and have it taken."""
    response = await answered(api, task, content, action=action, **more)
    assert response.status_code == 200, response.text


async def result(api: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    """The task's result, awaited."""
    response = await api.get(f"/v1/tasks/{task_id}/result", params={"wait": 60})
    assert response.status_code == 200, response.text
    return response.json()["result"]


async def result_of_call(api: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """The result of a call that asks nothing."""
    return (await completed(api, body))["result"]


def said(result: dict[str, Any]) -> str:
    """The text of a result."""
    return "\n".join(block["text"] for block in result["content"])
