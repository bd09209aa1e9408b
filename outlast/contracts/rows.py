"""Rows of a task, at every entry point."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from outlast.activities.runs.contracts import RunState
from outlast.workflows.contracts.tool_calls import TaskStatus


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
