"""Sessions and turns as tests ask for them."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx

from tests.support.calls.tasks import Event

Json = dict[str, Any]


async def new_session(api: httpx.AsyncClient, **options: Any) -> str:
    """A session; of the model `m` of the generic provider unless it says otherwise."""
    body = {"providerId": "generic", "modelId": "m", **options}
    response = await api.post("/v1/sessions", json=body)
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def sent(api: httpx.AsyncClient, session: str, message: Any, **options: Any) -> Json:
    """The turn that answers a message, when it has ended."""
    response = await api.post(f"/v1/sessions/{session}/messages", json={"message": message, "stream": False, **options})
    assert response.status_code == 200, response.text
    return response.json()


async def streamed(api: httpx.AsyncClient, session: str, message: Any, **options: Any) -> AsyncIterator[Event]:
    """The events of the turn that answers a message, as they come."""
    body = {"message": message, **options}
    async with api.stream("POST", f"/v1/sessions/{session}/messages", json=body) as response:
        assert response.status_code == 200, await response.aread()
        async for event in _events(response):
            yield event


async def turn_events(
    api: httpx.AsyncClient, session: str, turn: str, *, after: str | None = None
) -> AsyncIterator[Event]:
    """The events of a turn after one of them."""
    headers = {"Last-Event-ID": after} if after else {}
    path = f"/v1/sessions/{session}/turns/{turn}/events"
    async with api.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        async for event in _events(response):
            yield event


async def session_events(api: httpx.AsyncClient, session: str, count: int) -> list[Event]:
    """The first events of a session, as soon as there are so many."""
    found: list[Event] = []
    async with api.stream("GET", f"/v1/sessions/{session}/events") as response:
        assert response.status_code == 200, await response.aread()
        async for event in _events(response):
            found.append(event)
            if len(found) == count:
                return found
    raise AssertionError(f"the session has ended after {len(found)} events")


def named(events: Sequence[Event], name: str) -> list[Json]:
    """What the events of one name say."""
    return [event.data for event in events if event.name == name]


def text_of(events: Sequence[Event], step: int | None = None) -> str:
    """The text that a reader has, who knows nothing of attempts but to drop what it is told to drop."""
    texts: dict[int, str] = {}
    for event in events:
        if event.name == "text-delta":
            texts[event.data["step"]] = texts.get(event.data["step"], "") + event.data["text"]
        if event.name == "retry" and event.data.get("discard_text"):
            texts[event.data["step"]] = ""
    return "".join(text for number, text in sorted(texts.items()) if step in (None, number))


async def _events(response: httpx.Response) -> AsyncIterator[Event]:
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line == "" and "data" in fields:
            yield Event(fields["event"], fields.get("id"), json.loads(fields["data"])["data"])
        if line == "":
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
