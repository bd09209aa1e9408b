"""A reader of the rows of tasks over HTTP, as a client of its own would be."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx


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
