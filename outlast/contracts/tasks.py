"""Tasks and their events."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, SecretStr, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import to_json

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.runs.contracts import Budget, RunState
from outlast.activities.unicode_text import ValidText
from outlast.contracts.base import CallerName, MadeOf, Open, Response, absent
from outlast.workflows.contracts.questions import Audience, InputAnswer, InputRequest
from outlast.workflows.contracts.tool_calls import (
    MAX_DEADLINE_SECONDS,
    CallOptions,
    PermissionRuling,
    Progress,
    TaskResolution,
    TaskStatus,
    ToolResult,
)
from outlast.workflows.contracts.tool_masks import TOOL_MASK_DESCRIPTION, ToolMask
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly
from outlast.workflows.tools.framework.ids import Id

TaskEventName = Literal[
    "created",
    "run_started",
    "run_resurrected",
    "status_message",
    "input_required",
    "output_stored",
    "isomorphic_handoff",
    "input_answered",
    "handler_returned",
    "task_completed",
    "run_finished",
]

TurnEventName = Literal[
    "text-delta",
    "compaction",
    "tool-call-delta",
    "tool-call",
    "tool-result",
    "hand-off",
    "reminder",
    "retry",
    "step-finish",
    "finish",
    "error",
]

ConversationEventName = Literal["task_completed", "call_refused", "update", "reaction", "events_missed"]

BatchEventName = Literal["progress", "ended"]


class TaskEvent(BaseModel):
    """One event of a task. Durable events have an `id`; status messages have none and are not sent again."""

    name: TaskEventName
    id: str | None = None
    time: datetime | None = None
    data: dict[str, JsonValue]


class TurnStreamEvent(BaseModel):
    """One event of a turn. An event without an `id` is not sent again."""

    name: TurnEventName
    id: str | None
    time: datetime | None = None
    data: dict[str, JsonValue]


class ConversationEvent(BaseModel):
    """One event of a session. `events_missed` has no `id`; it says how many older events are no longer kept."""

    name: ConversationEventName
    id: str | None = None
    time: datetime | None = None
    data: dict[str, JsonValue]


class BatchEvent(BaseModel):
    """The whole state of a batch: no event needs the ones before, so none has an `id`, and none is sent again."""

    name: BatchEventName
    id: None = None
    time: datetime | None = None
    data: dict[str, JsonValue] = Field(description="The batch, as `GET /v1/batches/{batch_id}` shows it.")


class HandoffEvent(Response):
    """Data of `isomorphic_handoff`: a client has to act. It answers under `key`."""

    key: str
    kind: Annotated[Open[Literal["client", "approval"]], absent("client")]
    audience: Annotated[Open[Audience], absent("person")]
    tool: Annotated[str, absent("")]
    phase: Annotated[str, absent("")]
    message: Annotated[str, absent("")]
    parameters: Annotated[dict[str, JsonValue], absent({})]
    answer_schema: Annotated[dict[str, JsonValue], absent({})]
    deadline: Annotated[datetime | None, absent(None)]
    maker: str | None = Field(default=None, description="For an approval: id of the caller that made the call.")
    approvers: tuple[str, ...] = Field(
        default=(), description="Only another caller with all of these roles may answer. Empty: the caller itself."
    )


class AnswerEvent(BaseModel):
    """Data of `input_answered`. Of the content, only an approval's decision and note are shown.

    `message` is why there is no content: the client's own words, with an action other than `accept`.
    """

    key: str
    action: str
    message: str | None = None
    answered_by: str | None
    kind: Literal["question", "client", "approval"] = "question"
    tool: str | None = None
    phase: str | None = None
    decision: str | None = None
    note: str | None = None


class HandoffChange(BaseModel):
    """A hand-off opened, or closed: it was answered, it timed out, or its task was cancelled.

    The data of a closed one has `task_id`, `key` and `deadline`.
    """

    name: Literal["handoff", "handoff_closed"]
    id: None = None
    time: datetime | None = None
    data: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Event:
    """An event as a client reads it. `id` is absent for one that the server does not send again; `time` is ISO 8601."""

    name: str
    id: str | None = None
    time: str | None = None
    data: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def document(self) -> dict[str, JsonValue]:
        """The event as JSON."""
        return {"event": self.name, "id": self.id, "time": self.time, "data": self.data}


class RowsWanted(BaseModel):
    """Selection and format of the rows of a task."""

    model_config = ConfigDict(populate_by_name=True)

    after: str | None = Field(
        default=None,
        max_length=200,
        description="Id of the last row received, or the number of rows received so far.",
    )
    follow: bool = Field(default=True, description="If false, end after the rows that exist now.")
    form: Literal["sse", "jsonl"] | None = Field(
        default=None,
        alias="format",
        description="Instead of the Accept header: server-sent events, or lines of JSON.",
    )


class RowsEnd(BaseModel):
    """Data of `end`: no further row comes. `rows` counts those of the last dataset; the id is that of the last row."""

    status: TaskStatus = Field(description="State of the task.")
    is_complete: bool = Field(description="Whether no further row comes; false only without `follow`.")
    rows: int
    dataset_id: str | None = Field(default=None, description="Absent where the rows are those of a stored output.")
    run_id: str | None = None
    run_status: str | None = None

    @classmethod
    def of(cls, status: TaskStatus, rows: int, run: RunState | None, *, is_complete: bool = True) -> "RowsEnd":
        """The end of the rows of a task whose last run is `run`."""
        return cls(
            status=status,
            is_complete=is_complete,
            rows=rows,
            dataset_id=run.dataset_id if run else None,
            run_id=run.run_id if run else None,
            run_status=run.status if run else None,
        )


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One row of a task. Its id, with which a client continues after it, is valid for as long as the row is kept."""

    id: str
    data: dict[str, JsonValue]

    def document(self) -> dict[str, JsonValue]:
        """The row with its id, as JSON."""
        return {"id": self.id, "data": self.data}


class TaskRequest(KnownFieldsOnly):
    """A tool call to run as a task."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"tool": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 5}}}]
        },
    )

    tool: str = Field(min_length=1, max_length=128, description="Name of the tool, see GET /v1/tools.")
    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="Arguments that match the tool's schema.")
    mode: Id | None = Field(
        default=None, description="`default` waits for runs to end, `openai` answers when they have started."
    )
    session_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"^[\w.:@-]+$",
        description="Conversation the call belongs to.",
    )
    message_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="Message of the conversation that contains the call."
    )
    tool_call_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="The model's own id of the call."
    )
    options: CallOptions = Field(default_factory=CallOptions, description="Deadline and budget of the call.")
    tool_mask: ToolMask = Field(
        default=None, validation_alias=AliasChoices("toolMask", "tool_mask"), description=TOOL_MASK_DESCRIPTION
    )


class ProgramRequest(KnownFieldsOnly):
    """A program to run as a task: a call of `run-program`."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"code": "await hello_world(name=who)", "inputs": {"who": "Ann"}}]},
    )

    code: str = Field(min_length=1, max_length=100_000, description="The program, in Python.")
    inputs: dict[str, JsonValue] = Field(default_factory=dict, description="Variables of the program.")
    tools: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] | None = Field(
        default=None, max_length=1_000, description="Names of the tools that it may call, with `*`. Default: all."
    )
    session_id: str | None = Field(
        default=None, min_length=1, max_length=200, pattern=r"^[\w.:@-]+$", description="Conversation of the program."
    )
    options: CallOptions = Field(default_factory=CallOptions, description="Deadline and budget of the program.")

    @property
    def as_call(self) -> TaskRequest:
        """The call of `run-program`."""
        arguments: dict[str, JsonValue] = {"code": self.code, "inputs": self.inputs}
        if self.tools is not None:
            arguments["tools"] = list(self.tools)
        return TaskRequest(tool="run-program", arguments=arguments, session_id=self.session_id, options=self.options)


class ConnectedTaskRequest(TaskRequest):
    """A `TaskRequest` as an entry point makes it for its client; no client can send these fields."""

    payment: SecretStr | None = Field(default=None, exclude=True, description="Pays for the call, not the account.")
    pays_with: str | None = Field(default=None, exclude=True, description="By what the client's connection pays.")
    names_payer: bool = Field(
        default=False, exclude=True, description="Whether the payment goes with all requests of the call."
    )
    unpaid: ErrorEnvelope | None = Field(
        default=None, exclude=True, description="What the call is refused with if nothing else is wrong with it."
    )
    terms: JsonObject | None = Field(default=None, exclude=True, description="How an unpaid call can be paid.")
    offered_tools: tuple[str, ...] = Field(
        default=(), exclude=True, description="Tools that the client is offered; empty when it is offered all."
    )
    schedule_id: str | None = Field(default=None, exclude=True, description="The schedule that makes the call.")
    again_of: str | None = Field(default=None, exclude=True, description="The task whose call is made again.")
    connection: str | None = Field(
        default=None, exclude=True, description="Session of the MCP client, to which sessions with MCP servers belong."
    )
    changes: tuple[str, ...] = Field(
        default=(), exclude=True, description="How the entry point read arguments that did not fit the schema."
    )


ToolError = ErrorEnvelope
FINAL_STATUSES = frozenset({"completed", "failed", "cancelled"})


class Run(RunState):
    """An Actor run as a client reads it."""

    actor_id: str = ""
    key_value_store_id: str = ""
    limit_usd: float | None = None  # pyright: ignore[reportIncompatibleVariableOverride]  # sent as text


if TYPE_CHECKING:
    _Run = Run
else:
    _Run = RunState  # FastAPI documents every model that annotations name


class Reused(Response):
    """Reuse of an earlier task's answer."""

    joined: Annotated[bool, absent(False)] = Field(
        description="Whether that task was still running, so that the call waits for its answer."
    )
    age_seconds: Annotated[float, absent(0.0)] = Field(description="Seconds since it was answered; 0 while it runs.")


class TaskFailure(Response):
    """Why a task failed. Its result has the whole error."""

    category: Open[ErrorCategory] = Field(description="Kind of failure.")
    message: str = Field(description="What failed, in at most 2,000 characters and without secrets.")

    @classmethod
    def of(cls, error: ErrorEnvelope) -> "TaskFailure":
        """The failure of a task that ended with `error`."""
        return cls(category=error.category, message=error.message)


class Task(Response):
    """A tool call and its state."""

    id: str
    tool: str
    caller: str | None = Field(default=None, description="Id of the caller whose task it is.")
    status: Open[TaskStatus]
    status_message: str | None = Field(default=None, description="What the task is doing, or how it ended.")
    mode: Annotated[str, absent("")]
    executor: Annotated[Open[Literal["none", "sync", "async"]], absent("")]
    actor: str | None = None
    session_id: str | None = None
    batch_id: str | None = Field(default=None, description="The batch whose item it is.")
    schedule_id: str | None = Field(default=None, description="The schedule that started it.")
    created_at: datetime
    finished_at: datetime | None = Field(
        default=None, description="When the workflow ended: the answer is available, and no run is running."
    )
    expires_at: datetime | None = Field(default=None, description="Time until which an ended task is kept.")
    answered: bool = Field(default=False, description="Whether the tool's handler has returned.")
    error: TaskFailure | None = Field(default=None, description="Why it failed, once its workflow has ended.")
    input_requests: dict[str, InputRequest] | None = Field(
        default=None, description="Questions that the task waits for, by key, when its status is input_required."
    )
    run: Annotated[_Run, MadeOf(RunState, read=Run)] | None = Field(
        default=None, description="The Actor run, as last seen."
    )
    cost_usd: float | None = Field(
        default=None, description="Cost of its runs so far, in US dollars; absent if it has started none."
    )
    progress: Progress | None = Field(default=None, description="The progress that the tool reports.")
    reused: Reused | None = Field(
        default=None,
        description="In the response to a call: this task already existed, for an identical call (`options.reuse`).",
    )
    resurrects: str | None = Field(default=None, description="Id of the ended task whose run this one resurrects.")
    again_of: str | None = Field(default=None, description="Id of the task whose call this one repeats.")
    resolution: TaskResolution | None = Field(
        default=None, description="What a person found out, if the call ended with `outcome_unknown`."
    )
    called_by: str | None = Field(default=None, description="Id of the task whose function made the call.")
    workflow_url: str | None = Field(default=None, description="The task's workflow in the Temporal UI.")
    is_cancelling: SkipJsonSchema[bool] = Field(default=False, exclude=True)
    """True if it only waits for work that it started; internal. Unknown for tasks in lists."""
    is_defect: SkipJsonSchema[bool] = Field(default=False, exclude=True)
    """True if it failed because of a defect of the tool, not with an expected error; internal."""

    @property
    def is_final(self) -> bool:
        """True if the status can no longer change."""
        return self.status in FINAL_STATUSES

    @property
    def asks_people(self) -> bool:
        """True if it has a question that a person or a model can answer."""
        return any(not question.is_for_program for question in (self.input_requests or {}).values())


class TaskListing(BaseModel):
    """Filter of a list of tasks."""

    status: tuple[TaskStatus, ...] = Field(
        default=(), max_length=len(TaskStatus), description="Only tasks in this state; repeat it for several."
    )
    tool: str | None = Field(default=None, max_length=128, description="Only calls of this tool.")
    actor: str | None = Field(default=None, max_length=200, description="Only calls of this Actor, as `user/name`.")
    run_id: str | None = Field(default=None, max_length=200, description="Only the task with this Actor run.")
    caller: CallerName = None
    since: AwareDatetime | None = Field(
        default=None, description="Without tasks that ended before this time, such as `2026-11-28T18:00:00Z`."
    )
    until: AwareDatetime | None = Field(
        default=None, description="Without tasks that ended after this time, and open ones that started after it."
    )
    session_id: str | None = Field(default=None, max_length=200, description="Only calls of this session.")
    batch_id: str | None = Field(default=None, max_length=200, description="Only items of this batch.")
    schedule_id: str | None = Field(
        default=None,
        max_length=200,
        description="Only tasks that this schedule started, including items of its batches.",
    )
    page_size: int = Field(default=50, ge=1, le=200, description="Tasks per page.")
    page_token: str | None = Field(default=None, max_length=4096, description="`next_page_token` of the previous page.")


class TaskPage(Response):
    """Tasks: open ones first, then the most recently ended."""

    tasks: tuple[Task, ...]
    next_page_token: str | None = Field(
        default=None, description="Pass as page_token for the next page; absent on the last."
    )


class TaskAnswer(BaseModel):
    """A task and its result. `result` is absent until the handler has returned."""

    task: Task
    result: ToolResult | None = None


class TaskCall(Response):
    """The call behind a task. Secrets are masked; large parts are references (`$kept`) with their beginning."""

    task_id: str
    caller: str
    tool: str
    mode: str
    actor: str | None = None
    server: str | None = Field(default=None, description="The MCP server in the operator's file that has the tool.")
    arguments: dict[str, JsonValue]
    changes: Annotated[tuple[str, ...], absent(())] = Field(
        description="Conversions of arguments that did not fit the schema."
    )
    options: CallOptions
    session_id: str | None = None
    message_id: str | None = None
    tool_call_id: str | None = None
    batch_id: str | None = None
    schedule_id: str | None = None
    again_of: str | None = Field(default=None, description="Id of the task whose call this one repeats.")
    permission: PermissionRuling | None = Field(
        default=None, description="The operator's rule that decided; absent if none is about the call."
    )


class AgainRequest(KnownFieldsOnly):
    """Changes of a call that is made again. Without any, it is the same call."""

    model_config = ConfigDict(extra="forbid")

    arguments: dict[str, JsonValue] | None = Field(
        default=None, description="Arguments in place of those with the same names. Others stay, also secret ones."
    )
    mode: Id | None = Field(default=None, description="Another mode.")
    options: CallOptions | None = Field(
        default=None,
        description="Options in place of those of the call; others stay, except `reuse` and `webhooks`.",
    )
    tool_mask: ToolMask = Field(
        default=None, validation_alias=AliasChoices("toolMask", "tool_mask"), description=TOOL_MASK_DESCRIPTION
    )


class ResurrectRequest(KnownFieldsOnly):
    """Options for resurrecting the run of an ended task. Absent fields stay the same."""

    model_config = ConfigDict(extra="forbid")

    budget: Budget = Field(
        default_factory=Budget,
        description="Limits that replace those of the call. The cost of the run so far counts, its time does not.",
    )
    deadline_seconds: int | None = Field(
        default=None,
        gt=0,
        le=MAX_DEADLINE_SECONDS,
        description="Seconds after which the new task fails and the run is aborted.",
    )
    build: Id | None = Field(default=None, description="Another build of the Actor, such as one with a fix.")
    memory_mbytes: int | None = Field(
        default=None, ge=128, le=32_768, description="Memory in megabytes: a power of two from 128 to 32768."
    )
    force: bool = Field(
        default=False,
        description="Resurrect the run even if it failed by itself, or produced nothing to continue from.",
    )


_MAX_RESULT_BYTES = 100_000
"""A resolution is in the memo of a workflow, which Temporal shows with it."""


class ResolveRequest(KnownFieldsOnly):
    """What a person found out about a call that ended with `outcome_unknown`."""

    model_config = ConfigDict(extra="forbid")

    outcome: Literal["done", "not_done", "retry"] = Field(
        description="`done`: it was executed. `not_done`: it was not, and may be made again. `retry`: call the tool "
        "again, with the same arguments, in a new task."
    )
    result: JsonValue = Field(default=None, description="With `done`: the result, which becomes the task's.")
    note: ValidText | None = Field(default=None, max_length=1_000, description="The reason, for readers of the task.")

    @model_validator(mode="after")
    def _has_a_result_only_if_done(self) -> Self:
        if self.result is not None and self.outcome != "done":
            raise ValueError("only a call that was `done` has a `result`")
        if len(to_json(self.result)) > _MAX_RESULT_BYTES:
            raise ValueError(f"a `result` has at most {_MAX_RESULT_BYTES:,} bytes of JSON")
        return self


class SubmittedInput(KnownFieldsOnly):
    """Answers to a task's questions."""

    model_config = ConfigDict(extra="forbid")

    answers: dict[str, InputAnswer] = Field(
        min_length=1, description="The answers, with the keys of the task's `input_requests`."
    )


class ToolView(Response):
    """A tool that can be called."""

    name: str
    title: Annotated[str, absent("")]
    category: Annotated[str, absent("")]
    tags: Annotated[tuple[str, ...], absent(())] = Field(
        default=(), description="Further groups by which connections select it, as `tag:billing`."
    )
    description: Annotated[str, absent("")]
    input_schema: Annotated[dict[str, JsonValue], absent({})]
    output_schema: dict[str, JsonValue] | None = None
    annotations: Annotated[dict[str, bool | str], absent({})]
    actor: str | None = Field(default=None, description="The Actor behind a direct Actor tool.")
    server: str | None = Field(default=None, description="The MCP server in the operator's file that has the tool.")


Tool = ToolView


class ToolList(Response):
    """The tools that can be called."""

    tools: tuple[ToolView, ...]


class CallBody(KnownFieldsOnly):
    """Arguments of one call."""

    model_config = ConfigDict(extra="forbid")

    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="Arguments that match the tool's schema.")
    mode: Id | None = Field(default=None, description="How the tool is presented; by default, the server's mode.")
    session_id: str | None = Field(default=None, min_length=1, max_length=200, pattern=r"^[\w.:@-]+$")
    options: CallOptions = Field(default_factory=CallOptions)
    tool_mask: ToolMask = Field(
        default=None, validation_alias=AliasChoices("toolMask", "tool_mask"), description=TOOL_MASK_DESCRIPTION
    )
