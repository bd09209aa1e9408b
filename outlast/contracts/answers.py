"""Answers and messages as clients read them: one class for blocks of content of every kind, also of later ones.

The server makes them of `ToolResult` and `ModelMessage`, whose blocks have one class for each kind.
"""

from pydantic import Field, JsonValue

from outlast.activities.llm.contracts import Usage
from outlast.contracts.base import Open, Response
from outlast.contracts.tasks import Task, ToolError
from outlast.workflows.contracts.sessions import FinishReason, TurnStatus


class Content(Response):
    """One block of a tool's answer (MCP `ContentBlock`)."""

    type: str = ""
    text: str | None = None
    name: str | None = None
    uri: str | None = None
    mime_type: str | None = Field(default=None, alias="mimeType")
    data: str | None = Field(default=None, repr=False)

    def words(self) -> str:
        """The text; for a block without text, what it is, in brackets."""
        if self.text is not None:
            return self.text
        return f"[{' '.join(part for part in (self.type, self.mime_type, self.name, self.uri) if part)}]"


class ToolResult(Response):
    """A tool's answer. A failing tool answers too: `is_error` is set, and `error` says why."""

    content: tuple[Content, ...] = ()
    raw_content: tuple[Content, ...] | None = None
    structured: dict[str, JsonValue] | None = None
    is_error: bool = False
    error: ToolError | None = None
    locator: str | None = None

    @property
    def text(self) -> str:
        """The answer as a person reads it."""
        return "\n".join(block.words() for block in self.raw_content or self.content)


class TaskAnswer(Response):
    """A task and its result; `result` is absent while the handler has not returned."""

    task: Task
    result: ToolResult | None = None

    @property
    def text(self) -> str:
        """The result as a person reads it; empty while there is none."""
        return self.result.text if self.result else ""

    @property
    def structured(self) -> dict[str, JsonValue] | None:
        """The result as data, where the tool gives any."""
        return self.result.structured if self.result else None

    @property
    def locator(self) -> str | None:
        """Locator of the whole output, if it was stored."""
        return self.result.locator if self.result else None

    @property
    def is_failure(self) -> bool:
        """True if the tool answered with an error, or the task ended without an answer."""
        if self.result is not None:
            return self.result.is_error
        return self.task.status in ("failed", "cancelled")


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
    status: Open[TurnStatus]
    reason: Open[FinishReason] | None = None
    text: str | None = None
    messages: tuple[Message, ...] = ()
    steps: int = 0
    usage: Usage = Field(default_factory=Usage)
    cost_usd: float = 0.0
    error: ToolError | None = None

    @property
    def is_running(self) -> bool:
        """True if it has not ended."""
        return self.status == "running"
