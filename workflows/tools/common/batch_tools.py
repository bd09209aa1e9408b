"""Tools that start and manage batches, which are calls of one tool for many inputs. Entry points answer them."""

from typing import Annotated, Any

from pydantic import Field, JsonValue

from outlast.activities.batches.contracts import MAX_CONCURRENCY, MAX_KEY_CHARS, ItemStatus
from outlast.activities.bounds import Offset, PositiveCount, Usd
from outlast.contracts.options import BatchOptions
from outlast.workflows.contracts.tool_calls import Age
from outlast.workflows.contracts.unknown_fields import DeclaredOptions
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolAnnotations, front_door_tool, reads

MAX_WAIT_SECONDS = 50
"""Many clients give up after 60 seconds."""
MAX_ITEMS = 1_000
"""Limit for items in the arguments. More items come from a stored output, a dataset, or a file by REST."""
MAX_ROWS = 100
BATCH_TOOL_OPTIONS = DeclaredOptions(
    BatchOptions,
    for_models=True,
    # These are arguments of the tool; and rows are never CSV.
    leave_out={"name", "mapping", "key", "concurrency", "budget_usd", "delimiter"},
)


class Item(Arguments):
    """One item of a batch."""

    key: str | None = Field(
        default=None, min_length=1, max_length=MAX_KEY_CHARS, description="Names the item; its number does without."
    )
    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="The item's own arguments of the tool.")


class StartBatchArguments(Arguments):
    """One tool, its inputs, and their limits."""

    tool: Id = Field(description="Name of the tool to call for each item, such as call-actor.")
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Arguments that all items have; an item's own go over them."
    )
    items: list[Item] | None = Field(
        default=None, min_length=1, max_length=MAX_ITEMS, description="The items. Give items, a locator or a dataset."
    )
    locator: Id | None = Field(default=None, description="A stored output whose rows are the items.")
    dataset_id: Id | None = Field(default=None, alias="datasetId", description="A dataset whose rows are the items.")
    mapping: dict[str, str] = Field(
        default_factory=dict,
        max_length=100,
        description="For rows: argument (dot path) by the field (dot path) that it takes its value from, as in "
        '{"input.startUrls.0.url": "page"}.',
    )
    key: Id | None = Field(default=None, description="For rows: the field whose value names the item.")
    concurrency: int = Field(default=10, ge=1, le=MAX_CONCURRENCY, description="Items under way at a time.")
    budget_usd: Usd | None = Field(
        default=None, alias="budgetUsd", description="Maximum cost of all items together, in US dollars."
    )
    item_budget_usd: Usd | None = Field(
        default=None, alias="itemBudgetUsd", description="Most that the run of one item may cost, in US dollars."
    )
    reuse_max_age: Age | None = Field(
        default=None,
        alias="reuseMaxAge",
        description="Do not run what an equal call of yours has answered within this time, such as 6h, or is running: "
        "the item takes that answer. With budgetUsd it needs itemBudgetUsd, since only runs of one limit are equal.",
    )
    stop_after_failures: PositiveCount | None = Field(
        default=None, alias="stopAfterFailures", description="Stop when so many items have failed."
    )
    enough: PositiveCount | None = Field(default=None, description="Stop when so many items are completed.")
    name: Id | None = Field(default=None, description="For people; any text.")
    options: Annotated[dict[str, Any], BATCH_TOOL_OPTIONS] = Field(
        default_factory=dict, description="Further options of the batch, and of each item: limits, reuse, output."
    )


class BatchArguments(Arguments):
    """A batch."""

    batch_id: Id = Field(alias="batchId", description="Id of the batch.")


class GetBatchArguments(BatchArguments):
    """A batch, and the wait for its end."""

    wait_secs: float = Field(
        default=0, ge=0, le=MAX_WAIT_SECONDS, alias="waitSecs", description="Seconds to wait for its end."
    )


class GetBatchResultsArguments(BatchArguments):
    """Results of a batch."""

    status: ItemStatus | None = Field(default=None, description="Only items of this status, such as failed.")
    offset: Offset = Field(default=0, description="First row, counted from 0.")
    limit: int = Field(default=20, ge=1, le=MAX_ROWS, description="Rows to return at most.")


BATCH_TOOLS: tuple[Tool, ...] = (
    front_door_tool(
        "start-batch",
        Category.BATCHES,
        ToolAnnotations(title="Start batch", open_world=True),
        "Call one tool for many inputs at once, as a durable batch with one budget. Every item is checked first; when "
        "one does not fit, nothing is started and the answer names it. The answer comes at once, with the batch's id; "
        "use get-batch to see how far it is and get-batch-results for the results so far.",
        StartBatchArguments,
    ),
    front_door_tool(
        "get-batch",
        Category.BATCHES,
        reads("Get batch"),
        "Get the state of a batch: how many items are completed, failed and left, what it has cost, and how long it "
        "will take. Set `waitSecs` to wait for its end.",
        GetBatchArguments,
    ),
    front_door_tool(
        "get-batch-results",
        Category.BATCHES,
        reads("Get batch results"),
        "Get the results of a batch so far, also while it goes on: a row for each item that has ended, with its key, "
        "status, cost, and its answer or error. Use `offset` to go on where the last answer ended, and `status` for "
        "the failed items only.",
        GetBatchResultsArguments,
    ),
    front_door_tool(
        "cancel-batch",
        Category.BATCHES,
        ToolAnnotations(title="Cancel batch", destructive=True, idempotent=True, open_world=False),
        "Start nothing more of a batch and cancel what is under way, so that it costs nothing more. The results so "
        "far stay.",
        BatchArguments,
    ),
)
