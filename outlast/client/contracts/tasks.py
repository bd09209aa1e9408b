"""Tasks, their questions and their answers."""

from datetime import datetime

from pydantic import Field, JsonValue

from outlast.client.contracts.base import Response

FINAL_STATUSES = frozenset({"completed", "failed", "cancelled"})


class Violation(Response):
    """One place of a request that breaks a schema. `path` is a JSON Pointer (RFC 6901)."""

    path: str = ""
    message: str = ""


class ToolError(Response):
    """The error envelope: why a call failed, in the same form everywhere."""

    tool: str = ""
    message: str
    category: str = "unknown"
    retryable: bool = False
    attempt: int = 1
    hint: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    violations: tuple[Violation, ...] | None = None


class UntilMet(Response):
    """Which condition of `until` a run has met, and how it stood then."""

    condition: str
    """`rows`, `expression` or `usd`."""
    rows: int | None = None
    """Rows that it had written by then, at least."""
    matches: int | None = None
    usd: float | None = None


class Run(Response):
    """An Actor run as it was last seen."""

    run_id: str
    actor_id: str = ""
    actor_name: str | None = None
    status: str
    status_message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    dataset_id: str
    key_value_store_id: str | None = None
    build_number: str | None = None
    exit_code: int | None = None
    usage_total_usd: float | None = None
    limit_usd: float | None = None
    limit_basis: str | None = None
    """Why its limit is so high: `call`, `actor`, `history` or `caps`."""
    console_url: str | None = None
    adopted: bool = False
    over_budget: str | None = None
    """Which limit of its budget the run has exceeded while it is still running: `money` or `time`."""
    until_met: UntilMet | None = None
    """Why the run was stopped, when it had produced enough."""
    stats: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue], repr=False)
    """The platform's statistics of the run, under its own names."""

    @property
    def resurrections(self) -> int:
        """How often the run was resurrected."""
        count = self.stats.get("resurrectCount")
        return count if isinstance(count, int) else 0


class Handoff(Response):
    """The request in a question: the client's part of a tool, or a call that somebody must approve."""

    kind: str = "client"
    audience: str = "person"
    tool: str = ""
    phase: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    deadline: datetime | None = None
    maker: str | None = None
    """For an approval: id of the caller whose call it is."""
    approvers: tuple[str, ...] = ()
    """Roles: only another caller who has all of them may answer; empty: the caller itself."""


class InputRequest(Response):
    """A question that a task waits for."""

    method: str = "elicitation/create"
    message: str = ""
    requested_schema: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    params: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    handoff: Handoff | None = None

    @property
    def is_approval(self) -> bool:
        """Whether it asks for the approval of a call."""
        return self.handoff is not None and self.handoff.kind == "approval"

    @property
    def is_for_program(self) -> bool:
        """Whether only a program that knows the tool can answer."""
        return self.handoff is not None and self.handoff.audience == "program"

    @property
    def approvers(self) -> tuple[str, ...]:
        """The roles that another caller needs to answer; empty for a question to the caller itself."""
        return self.handoff.approvers if self.handoff is not None else ()


class Progress(Response):
    """How far the tool says it is, in its own unit."""

    done: float
    total: float | None = None
    message: str = ""


class Reused(Response):
    """How an earlier task came to answer a call."""

    joined: bool = False
    """Whether it was under way, and the call waits for the same answer."""
    age_seconds: float = 0
    """How long ago it was answered; 0 while it runs."""


class Task(Response):
    """A tool call and its state."""

    id: str
    tool: str
    status: str
    status_message: str | None = None
    mode: str = ""
    executor: str = ""
    actor: str | None = None
    session_id: str | None = None
    batch_id: str | None = None
    schedule_id: str | None = None
    created_at: datetime
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    answered: bool = False
    input_requests: dict[str, InputRequest] | None = None
    run: Run | None = None
    cost_usd: float | None = None
    """Cost of its runs so far, in US dollars."""
    progress: Progress | None = None
    reused: Reused | None = None
    """In the answer to a call: that this task was there already, for an equal call."""
    resurrects: str | None = None
    """Id of the ended task whose run this one goes on with."""
    workflow_url: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether the status can no longer change."""
        return self.status in FINAL_STATUSES


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
        """Where the whole output is, when it was stored."""
        return self.result.locator if self.result else None

    @property
    def is_failure(self) -> bool:
        """Whether the tool answered with an error, or the task ended without an answer."""
        if self.result is not None:
            return self.result.is_error
        return self.task.status in ("failed", "cancelled")


class TaskPage(Response):
    """A page of tasks: open ones first, then those that ended last."""

    tasks: tuple[Task, ...]
    next_page_token: str | None = None
