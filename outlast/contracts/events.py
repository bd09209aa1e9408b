"""Events of tasks, turns, sessions and batches, and rows of tasks, at every entry point."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from outlast.activities.runs.contracts import RunState
from outlast.contracts.base import Open, Response, absent
from outlast.workflows.contracts.questions import Audience
from outlast.workflows.contracts.tool_calls import TaskStatus

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
    maker: str | None = Field(default=None, description="For an approval: id of the caller whose call it is.")
    approvers: tuple[str, ...] = Field(
        default=(), description="Roles: only another caller who has all of them may answer; empty: the caller itself."
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
    follow: bool = Field(default=True, description="False: end with the rows that there are now.")
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
