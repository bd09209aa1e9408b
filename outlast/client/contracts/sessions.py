"""Sessions (conversations), their turns and messages."""

from datetime import datetime

from pydantic import Field, JsonValue

from outlast.client.contracts.base import Response
from outlast.client.contracts.tasks import ToolError

RUNNING = "running"


class Budgets(Response):
    """Limits of a turn, or of all turns of a session together. A limit that is absent does not apply."""

    steps: int | None = None
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None


class Usage(Response):
    """Tokens of model calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class Spent(Response):
    """Usage of a session so far."""

    steps: int = 0
    usage: Usage = Field(default_factory=Usage)
    usd: float = 0.0
    seconds: float = 0.0


class TurnSummary(Response):
    """A turn of a session, in short. `parent` is the turn whose conversation it goes on from."""

    id: str
    message_id: str
    parent: str | None = None
    retry_of: str | None = None
    began: datetime
    ended: bool


class Session(Response):
    """A conversation. `head` is the turn that the next message goes on from, `running` the one that runs now."""

    id: str
    title: str | None = None
    began: datetime | None = None
    provider_id: str | None = None
    model_id: str | None = None
    tools: tuple[str, ...] = ()
    max_steps: int = 0
    max_output_tokens: int | None = None
    controls: dict[str, JsonValue] = Field(default_factory=dict)
    budgets: Budgets = Field(default_factory=Budgets)
    spent: Spent = Field(default_factory=Spent)
    turns: tuple[TurnSummary, ...] = ()
    head: str | None = None
    running: str | None = None


class SessionEntry(Response):
    """A session in a list."""

    id: str
    title: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    began: datetime | None = None
    updated: datetime | None = None
    turns: int = 0
    damaged: str | None = None
    """Why its record cannot be read."""


class SessionPage(Response):
    """A page of a list of sessions."""

    sessions: tuple[SessionEntry, ...] = ()
    next_page_token: str | None = None


class MessageMedia(Response):
    """A picture, a sound or a file of a tool's answer; `data` is base64."""

    type: str
    media_type: str
    name: str = ""
    data: str = Field(default="", repr=False)


class MessagePart(Response):
    """A part of a message: `text`, `image`, `reasoning`, `tool_call` or `tool_result`, as `type` says."""

    type: str
    text: str | None = None
    media_type: str | None = None
    data: str | None = Field(default=None, repr=False)
    url: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: dict[str, JsonValue] | None = None
    call_id: str | None = None
    media: tuple[MessageMedia, ...] = ()
    is_error: bool | None = None
    locator: str | None = None


class Message(Response):
    """One message of a conversation; `role` is `user`, `assistant` or `tool`."""

    role: str
    parts: tuple[MessagePart, ...] = ()
    turn_id: str | None = None

    @property
    def text(self) -> str:
        """The text parts, put together."""
        return "".join(part.text or "" for part in self.parts if part.type == "text")


class MessagePage(Response):
    """A page of a conversation, in the order in which it was said; the next page has what was said before."""

    messages: tuple[Message, ...] = ()
    next_page_token: str | None = None


class Turn(Response):
    """A turn: a message of the user, and what the assistant made of it."""

    id: str
    session_id: str
    message_id: str | None = None
    assistant_message_id: str
    status: str
    reason: str | None = None
    text: str | None = None
    messages: tuple[Message, ...] = ()
    steps: int = 0
    usage: Usage = Field(default_factory=Usage)
    cost_usd: float = 0.0
    error: ToolError | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.status == RUNNING
