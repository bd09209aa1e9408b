"""A task's events to the end of its workflow, across dropped connections and restarted servers."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from outlast.api.cli.errors import Unreachable
from outlast.api.cli.http.client import FOLLOW_PATIENCE_SECONDS, ApiClient, retry_after
from outlast.api.cli.http.sse import ServerSentEvent


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a task; `id` is None for one that is not repeated."""

    name: str
    id: str | None
    time: str | None
    data: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """As a JSON line."""
        return {"event": self.name, "id": self.id, "time": self.time, "data": self.data}


class _Payload(BaseModel):
    time: str | None = None
    data: dict[str, Any] = {}


async def follow(client: ApiClient, task_id: str, *, after: str | None = None) -> AsyncGenerator[Event]:
    """Events after the one with id `after`, each durable one once, until the workflow has ended.

    Raises `Unreachable` when the server stays away for `FOLLOW_PATIENCE_SECONDS`; the task goes on all the same.
    """
    patience = client.patience(FOLLOW_PATIENCE_SECONDS)
    while True:
        try:
            async with client.events(task_id, after=after) as stream:
                async for raw in stream:
                    patience.over()
                    event = event_of(raw)
                    after = event.id or after
                    yield event
            # A server that shuts down ends its streams too: only the task itself knows whether that was all.
            if (await client.get(task_id)).finished_at is not None:
                return
            raise Unreachable(f"{client.server.url} closed the event stream.", hint=client.server.hint)
        except Unreachable as trouble:
            await patience.wait(trouble, at_least_seconds=retry_after(trouble))


def event_of(raw: ServerSentEvent) -> Event:
    """The event that the API sent; without data when it is none of the API's."""
    try:
        payload = _Payload.model_validate_json(raw.data)
    except ValidationError:
        payload = _Payload()
    return Event(raw.name, raw.id, payload.time, payload.data)
