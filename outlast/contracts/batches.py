"""Batches, at every entry point."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, JsonValue, model_validator

from outlast.activities.batches.contracts import (
    MAX_CONCURRENCY,
    MAX_KEY_CHARS,
    BatchOptions,
    ItemRow,
    ItemStatus,
    StopReason,
    StopRule,
)
from outlast.activities.bounds import MAX_COUNT, Usd
from outlast.activities.contracts import ErrorCategory
from outlast.activities.webhooks.contracts import MAX_OWN_WEBHOOKS
from outlast.contracts.base import MadeOf, Open, Response, absent
from outlast.workflows.batches.contracts import BatchStatus
from outlast.workflows.contracts.tool_calls import CallOptions, OwnWebhook
from outlast.workflows.contracts.tool_masks import TOOL_MASK_DESCRIPTION, ToolMask
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly
from outlast.workflows.tools.framework.ids import Id

MAX_MAPPED = 100
MAX_PATH_PARTS = 50


def _nested(path: str) -> str:
    parts = path.count(".") + 1
    if parts > MAX_PATH_PARTS:
        raise ValueError(f"has {parts} parts; a path may have {MAX_PATH_PARTS}")
    return path


Path = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_nested)]
"""A dot path: `input.startUrls.0.url`; a number is a place in a list."""


class BatchSettings(KnownFieldsOnly, BatchOptions):
    """One tool, the part that all items share, and the options of the batch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str = Field(min_length=1, max_length=128, description="Name of the tool, see GET /v1/tools.")
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Arguments of every item. Those of an item override them, objects field by field.",
    )
    mode: Id | None = Field(default=None, description="Mode of every item, as for a task.")
    name: str | None = Field(default=None, min_length=1, max_length=200, description="A name for people; any text.")
    options: CallOptions = Field(
        default_factory=CallOptions, description="Deadline, budget and output of each item, as for a task."
    )
    tool_mask: ToolMask = Field(
        default=None, validation_alias=AliasChoices("toolMask", "tool_mask"), description=TOOL_MASK_DESCRIPTION
    )
    mapping: dict[Path, Path] = Field(
        default={},
        max_length=MAX_MAPPED,
        description="For rows: maps arguments (dot paths) to the fields of a row (dot paths) that they take their "
        "values from. Without it, a row is the arguments, or has them in `arguments`, beside its `key`.",
    )
    key: Path | None = Field(
        default=None,
        max_length=200,
        description="For rows: the field (dot path) whose value is the item's key. Default: the item's number.",
    )
    webhooks: tuple[OwnWebhook, ...] = Field(
        default=(),
        max_length=MAX_OWN_WEBHOOKS,
        description="Addresses that receive the events of the batch. Those in `options` receive the events of each "
        "item.",
    )
    delimiter: Literal[",", ";", "\t", "|"] | None = Field(
        default=None, description="The character that separates values in CSV. Default: detected."
    )

    @model_validator(mode="after")
    def _reuses_within_a_limit(self) -> Self:
        limited = self.options.budget.max_total_charge_usd is not None
        if self.options.reuse is not None and self.budget_usd is not None and not limited:
            raise ValueError(
                "with `options.reuse` and `budget_usd`, set `options.budget.max_total_charge_usd`, too: runs are "
                "identical only with the same limit"
            )
        return self

    @property
    def batch_options(self) -> BatchOptions:
        """Execution options of the batch."""
        return BatchOptions.model_validate(self.model_dump(include=set(BatchOptions.model_fields)))


class BatchItem(KnownFieldsOnly):
    """One item."""

    model_config = ConfigDict(extra="forbid")

    key: str | None = Field(
        default=None, min_length=1, max_length=MAX_KEY_CHARS, description="Names the item within the batch."
    )
    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="The item's own arguments.")


class RowsOf(KnownFieldsOnly):
    """Rows of a stored output or of a dataset."""

    model_config = ConfigDict(extra="forbid")

    output: str | None = Field(default=None, max_length=200, description="Locator of a stored output with rows.")
    dataset: str | None = Field(default=None, max_length=200, description="Id or name of a dataset.")
    offset: int = Field(default=0, ge=0, le=MAX_COUNT, description="First row, counted from 0.")
    limit: int | None = Field(default=None, ge=1, le=MAX_COUNT, description="Maximum number of rows.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.output is None) == (self.dataset is None):
            raise ValueError("give either `output` or `dataset`")
        return self


class BatchRequest(BatchSettings):
    """A batch with its items, or with the rows that become its items."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "tool": "call-actor",
                    "arguments": {"actor": "outlast/sleeper"},
                    "items": [
                        {"key": "short", "arguments": {"input": {"seconds": 1}}},
                        {"key": "long", "arguments": {"input": {"seconds": 5}}},
                    ],
                    "concurrency": 2,
                }
            ]
        },
    )

    items: list[BatchItem] | None = Field(default=None, min_length=1, description="The items.")
    rows: RowsOf | None = Field(default=None, description="The rows that become items, instead of `items`.")

    @model_validator(mode="after")
    def _items_or_rows(self) -> Self:
        if (self.items is None) == (self.rows is None):
            raise ValueError("give either `items` or `rows`")
        return self


class BatchChanges(KnownFieldsOnly):
    """Changed settings; the others stay the same."""

    model_config = ConfigDict(extra="forbid")

    concurrency: int | None = Field(default=None, ge=1, le=MAX_CONCURRENCY)
    budget_usd: Usd | None = Field(
        default=None, description="The new budget of the whole batch, including its cost so far."
    )
    stop: StopRule | None = Field(default=None, description="The new stop rule. Counts and costs continue.")


class RetryRequest(BatchChanges):
    """Failed items to run again."""

    categories: tuple[ErrorCategory, ...] = Field(
        default=(),
        max_length=len(ErrorCategory),
        description="Only items that failed with one of these categories; by default, all but `outcome_unknown`.",
    )


BatchRow = ItemRow


class Batch(Response):
    """A batch and its state."""

    id: str
    caller: str | None = Field(default=None, description="Id of the caller whose batch it is.")
    name: str | None = None
    tool: str
    mode: Annotated[str, absent("default")]
    actor: str | None = None
    schedule_id: str | None = Field(default=None, description="The schedule that started it.")
    status: Open[BatchStatus]
    status_message: str | None = Field(default=None, description="What the batch is doing, or why it stopped.")
    stopped_by: Open[StopReason] | None = Field(
        default=None, description="Why the batch stopped before all items had run."
    )
    created_at: datetime
    finished_at: datetime | None = None
    total: int = Field(description="Number of items.")
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    under_way: int = Field(default=0, description="Items that have started and have no row yet.")
    waiting: Annotated[int, absent(0)] = Field(description="Items that have not started, or will run again.")
    rows: int = Field(default=0, description="Rows of the completed items' answers.")
    cost_usd: float = Field(default=0.0, description="Cost of the ended items.")
    budget_usd: float | None = None
    per_minute: float | None = Field(default=None, description="Recent rate, in ended items per minute.")
    seconds_left: float | None = Field(default=None, description="Time left at that rate; absent if unknown.")
    results: str = Field(description="Locator of the results: a stored output that grows, one row for each item.")
    options: Annotated[dict[str, JsonValue], MadeOf(BatchOptions, read=dict[str, JsonValue]), absent({})]
    workflow_url: str | None = Field(default=None, description="The batch's workflow in the Temporal UI.")

    @property
    def has_ended(self) -> bool:
        """True if no item runs. A stopped batch can be resumed, and failed items can be retried."""
        return self.status != "working"

    @property
    def ended(self) -> int:
        """Items with a row among the results."""
        return self.completed + self.failed + self.cancelled


Form = Literal["jsonl", "csv"]


class ResultsSelection(BaseModel):
    """Selection and format of result rows."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    form: Form = Field(default="jsonl", alias="format", description="`jsonl`, or `csv` with lists and objects as JSON.")
    csv_safe: bool = Field(
        default=False,
        description="For CSV: precede text that a spreadsheet would evaluate (it begins with `=`, `+`, `-` or `@`) "
        "with an apostrophe.",
    )
    status: ItemStatus | None = Field(default=None, description="Only items with this status, such as `failed`.")
    offset: int = Field(
        default=0, ge=0, le=MAX_COUNT, description="First row, counted from 0; with `status`, of that status."
    )
    limit: int | None = Field(default=None, ge=1, le=MAX_COUNT, description="Maximum number of rows.")
    columns: str | None = Field(
        default=None,
        max_length=4_000,
        description="Only these columns, in this order, comma-separated: columns of CSV, and paths such as "
        "`result.title` and `input.url`, which is a column of the row that the item was made from.",
    )
    with_input: bool = Field(
        default=False,
        description="Add the row that the item was made from: the field `input`, in CSV a column `input.NAME` for each "
        "column of the first item.",
    )

    @property
    def names(self) -> list[str]:
        """The chosen columns."""
        return [name.strip() for name in (self.columns or "").split(",") if name.strip()]

    @property
    def needs_input(self) -> bool:
        """True if rows that items were made from are read."""
        return self.with_input or any(name.partition(".")[0] == "input" for name in self.names)


class BatchPage(Response):
    """Batches: open ones first, then the most recently ended."""

    batches: tuple[Batch, ...]
    next_page_token: str | None = Field(
        default=None, description="Pass as page_token for the next page; absent on the last."
    )
