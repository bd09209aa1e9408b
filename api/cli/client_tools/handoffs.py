"""The caller's open hand-offs as they come and go, across dropped connections and restarted servers."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

from pydantic import Field, ValidationError

from outlast.api.cli.client_tools.devtools import JsonObject
from outlast.api.cli.errors import Unreachable
from outlast.api.cli.http.client import ApiClient, retry_after
from outlast.api.cli.http.models import View
from outlast.api.cli.http.patience import Notice, Patience
from outlast.api.cli.http.sse import ServerSentEvent


class HandoffNews(View):
    """A hand-off that is open, or that waits no more."""

    is_open: bool = True
    task_id: str
    key: str
    kind: str = "client"
    tool: str = ""
    phase: str = ""
    parameters: JsonObject = Field(default_factory=dict)
    deadline: datetime | None = None

    @property
    def identity(self) -> tuple[str, str, datetime | None]:
        """What tells it from all others."""
        return (self.task_id, self.key, self.deadline)


class _Payload(View):
    data: HandoffNews


class Connected:
    """The connection stands (again): what is open is told from the beginning."""


async def follow_handoffs(
    client: ApiClient, tools: Sequence[str], notice: Notice
) -> AsyncGenerator[HandoffNews | Connected]:
    """What opens and closes, without an end. Raises `Unreachable` when the server was never there; else it waits."""
    patience = Patience(None, notice)
    was_there = False
    while True:
        try:
            async with client.handoffs(tools) as stream:
                patience.over()
                was_there = True
                yield Connected()
                async for event in stream:
                    if (news := _news_of(event)) is not None:
                        yield news
            raise Unreachable(f"{client.server.url} closed the stream of hand-offs.", hint=client.server.hint)
        except Unreachable as trouble:
            if not was_there:
                raise
            await patience.wait(trouble, at_least_seconds=retry_after(trouble))


def _news_of(event: ServerSentEvent) -> HandoffNews | None:
    """None for events of a newer server."""
    if event.name not in ("handoff", "handoff_closed"):
        return None
    try:
        news = _Payload.model_validate_json(event.data).data
    except ValidationError:
        return None
    return news.model_copy(update={"is_open": event.name == "handoff"})
