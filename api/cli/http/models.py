"""What the API answers, as far as the commands read it.

Models of their own, since those of the server bring the Temporal SDK with them. Fields that are not read here are kept,
so that `--json` prints what the server said; statuses are plain text, so that a newer server's are shown, not refused.
"""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_FINAL = frozenset({"completed", "failed", "cancelled"})


class View(BaseModel):
    """Base of all of them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    def document(self) -> dict[str, Any]:
        """As JSON, without the fields that say nothing."""
        return self.model_dump(mode="json", exclude_none=True)


class Run(View):
    """A run as last seen."""

    run_id: str
    status: str
    status_message: str | None = None
    dataset_id: str
    usage_total_usd: float | None = None
    console_url: str | None = None
    adopted: bool = False


class StoredOutput(View):
    """A stored output."""

    locator: str
    kind: str
    content_type: str
    size_bytes: int
    stored_bytes: int
    count: int | None = None
    digest: str
    created_at: datetime
    expires_at: datetime
    summary: str = ""


class Handoff(View):
    """What is handed over with a question."""

    kind: str = "client"
    audience: str = "person"
    phase: str = ""
    parameters: dict[str, Any] = {}
    deadline: datetime | None = None


class InputRequest(View):
    """A question that a task waits for."""

    message: str = ""
    requested_schema: dict[str, Any] = {}
    handoff: Handoff | None = None


class Task(View):
    """A tool call and how far it is."""

    id: str
    tool: str
    status: str
    status_message: str | None = None
    mode: str = ""
    executor: str = ""
    actor: str | None = None
    session_id: str | None = None
    created_at: datetime
    finished_at: datetime | None = None
    input_requests: dict[str, InputRequest] | None = None
    run: Run | None = None
    workflow_url: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether the status can no longer change."""
        return self.status in _FINAL


class ToolError(View):
    """Why a call failed."""

    message: str
    hint: str | None = None


class Content(View):
    """One block of an answer (MCP `ContentBlock`)."""

    type: str = ""
    text: str | None = None
    name: str | None = None
    uri: str | None = None
    mime_type: str | None = Field(default=None, alias="mimeType")

    def words(self) -> str:
        """The text, or what the block is when it is none."""
        if self.text is not None:
            return self.text
        return f"[{' '.join(part for part in (self.type, self.mime_type, self.name, self.uri) if part)}]"


class ToolResult(View):
    """A tool's answer."""

    content: tuple[Content, ...] = ()
    raw_content: tuple[Content, ...] | None = None
    structured: dict[str, Any] | None = None
    is_error: bool = False
    error: ToolError | None = None
    locator: str | None = None

    @property
    def text(self) -> str:
        """What a person reads of it."""
        return "\n".join(block.words() for block in self.raw_content or self.content)


class TaskAnswer(View):
    """What a task has come to; no result while the handler has not returned."""

    task: Task
    result: ToolResult | None = None


class TaskPage(View):
    """Tasks: open ones first, then those that ended last."""

    tasks: list[Task]
    next_page_token: str | None = None


class Tool(View):
    """A tool as it is offered."""

    name: str
    title: str = ""
    category: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}
    actor: str | None = None


class ToolList(View):
    """The tools that are offered."""

    tools: list[Tool]
