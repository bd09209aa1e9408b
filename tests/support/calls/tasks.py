"""Tool calls as tests make them, and what comes back."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

WAIT = {"Prefer": "wait=60"}


def sleeper_call(seconds: float = 0.1, *, mode: str | None = None, **run_input: Any) -> dict[str, Any]:
    """The body of a `call-actor` for the sleeper."""
    body = {
        "tool": "call-actor",
        "arguments": {
            "actor": "outlast/sleeper",
            "input": {"seconds": seconds, "steps": 2, **run_input},
        },
    }
    return {**body, "mode": mode} if mode else body


async def completed(api: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The answer to a call that has ended, as `TaskAnswer`."""
    response = await api.post("/v1/tasks", json=body, headers={**WAIT, **headers})
    assert response.status_code == 200, response.text
    return response.json()


async def started(api: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> str:
    """The id of a task just started."""
    response = await api.post("/v1/tasks", json=body, headers=headers)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/v1/tasks/{response.json()['id']}"
    return response.json()["id"]


async def result_of(api: httpx.AsyncClient, task_id: str, **headers: str) -> dict[str, Any]:
    """The answer of a task, awaited."""
    response = await api.get(f"/v1/tasks/{task_id}/result", params={"wait": 60}, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    id: str | None
    data: dict[str, Any]


async def events(api: httpx.AsyncClient, task_id: str, *, after: str | None = None) -> AsyncIterator[Event]:
    """A task's events as they arrive, parsed as WHATWG HTML, section 9.2.6, says."""
    headers = {"Last-Event-ID": after} if after else {}
    async with api.stream("GET", f"/v1/tasks/{task_id}/events", headers=headers, timeout=60) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line == "" and "data" in fields:
                yield Event(fields["event"], fields.get("id"), json.loads(fields["data"])["data"])
            if line == "":
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
