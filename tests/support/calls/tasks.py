"""Tool calls that tests make over HTTP, their tasks, rows and stuck workflows."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
from temporalio.client import Client

from tests.support.eventually import eventually

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
    if response.status_code == 202:  # it takes longer, on a busy machine
        return await result_of(api, response.headers["location"].rpartition("/")[2], **headers)
    assert response.status_code == 200, response.text
    return response.json()


async def started(api: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> str:
    """The id of a task just started."""
    response = await api.post("/v1/tasks", json=body, headers=headers)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/v1/tasks/{response.json()['id']}"
    return response.json()["id"]


async def result_of(api: httpx.AsyncClient, task_id: str, **headers: str) -> dict[str, Any]:
    """The answer of a task, awaited for at most three minutes."""
    response = await _result(api, task_id, headers)
    for _ in range(2):
        if response.status_code == 202:
            response = await _result(api, task_id, headers)
    assert response.status_code == 200, response.text
    return response.json()


async def _result(api: httpx.AsyncClient, task_id: str, headers: dict[str, str]) -> httpx.Response:
    return await api.get(f"/v1/tasks/{task_id}/result", params={"wait": 60}, headers=headers)


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    id: str | None
    data: dict[str, Any]


async def events(api: httpx.AsyncClient, task_id: str, *, after: str | None = None) -> AsyncIterator[Event]:
    """A task's events as they arrive, parsed as WHATWG HTML, section 9.2.6, says."""
    headers = {"Last-Event-ID": after} if after else {}
    async with api.stream("GET", f"/v1/tasks/{task_id}/events", headers=headers, timeout=180) as response:
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


@dataclass(frozen=True)
class RowEvent:
    """A server-sent event of `GET /v1/tasks/{id}/rows`."""

    name: str
    id: str | None
    data: Any


async def row_events(
    api: httpx.AsyncClient, task_id: str, *, last_event_id: str | None = None, **params: Any
) -> AsyncIterator[RowEvent]:
    """The events until the stream ends or breaks."""
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_event_id} if last_event_id else {})}
    async with api.stream("GET", f"/v1/tasks/{task_id}/rows", headers=headers, params=params) as response:
        assert response.status_code == 200, (response.status_code, await response.aread())
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield RowEvent(fields["event"], fields.get("id"), json.loads(fields["data"])["data"])
                fields = {}


async def all_rows(
    api: httpx.AsyncClient, task_id: str, *, last_event_id: str | None = None, **params: Any
) -> tuple[list[RowEvent], Any]:
    """The rows, and the data of `end`."""
    events = [event async for event in row_events(api, task_id, last_event_id=last_event_id, **params)]
    assert [event.name for event in events[-1:]] == ["end"], events[-1:]
    assert {event.name for event in events[:-1]} <= {"row"}
    return events[:-1], events[-1].data


OF_ANOTHER_VERSION = "of another version"


async def poison(temporal: Client, workflow_id: str, activity_type: str) -> None:
    """Complete a pending activity of a workflow with a result that its workflow cannot read."""

    async def is_pending() -> tuple[str, str] | None:
        description = await temporal.get_workflow_handle(workflow_id).describe()
        for one in description.raw_description.pending_activities:
            if one.activity_type.name == activity_type:
                return description.run_id or "", one.activity_id
        return None

    run_id, activity_id = await eventually(is_pending)
    pending = temporal.get_async_activity_handle(workflow_id=workflow_id, run_id=run_id, activity_id=activity_id)
    await pending.complete(OF_ANOTHER_VERSION)
