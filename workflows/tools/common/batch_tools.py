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
        default=None, min_length=1, max_length=MAX_KEY_CHARS, description="Key of the item. Default: its number."
    )
    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="The item's own arguments of the tool.")


class StartBatchArguments(Arguments):
    """One tool, its inputs, and their limits."""

    tool: Id = Field(description="Name of the tool to call for each item, such as call-actor.")
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Arguments of all items; those of an item override them."
    )
    items: list[Item] | None = Field(
        default=None, min_length=1, max_length=MAX_ITEMS, description="The items. Give items, a locator or a dataset."
    )
    locator: Id | None = Field(default=None, description="A stored output whose rows are the items.")
    dataset_id: Id | None = Field(default=None, alias="datasetId", description="A dataset whose rows are the items.")
    mapping: dict[str, str] = Field(
        default_factory=dict,
        max_length=100,
        description="For rows: maps arguments (dot paths) to the fields (dot paths) that they take their values from, "
        "as in "
        '{"input.startUrls.0.url": "page"}.',
    )
    key: Id | None = Field(default=None, description="For rows: the field whose value is the item's key.")
    concurrency: int = Field(default=10, ge=1, le=MAX_CONCURRENCY, description="Maximum number of concurrent items.")
    budget_usd: Usd | None = Field(
        default=None, alias="budgetUsd", description="Maximum cost of all items together, in US dollars."
    )
    item_budget_usd: Usd | None = Field(
        default=None, alias="itemBudgetUsd", description="Maximum cost of the run of one item, in US dollars."
    )
    reuse_max_age: Age | None = Field(
        default=None,
        alias="reuseMaxAge",
        description="Reuse the answer of an identical call of yours that is running, or ended within this time, such "
        "as 6h. With budgetUsd, set itemBudgetUsd, too: runs are identical only with the same limit.",
    )
    stop_after_failures: PositiveCount | None = Field(
        default=None, alias="stopAfterFailures", description="Stop when this many items have failed."
    )
    enough: PositiveCount | None = Field(default=None, description="Stop when this many items are completed.")
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
    limit: int = Field(default=20, ge=1, le=MAX_ROWS, description="Maximum number of rows.")


BATCH_TOOLS: tuple[Tool, ...] = (
    front_door_tool(
        "start-batch",
        Category.BATCHES,
        ToolAnnotations(title="Start batch", open_world=True),
        "Call one tool for many inputs at once, as a durable batch with one budget. Every item is checked first; if "
        "one is invalid, nothing is started and the answer names it. The answer comes at once, with the batch's id; "
        "use get-batch to see its progress and get-batch-results for the results so far.",
        StartBatchArguments,
    ),
    front_door_tool(
        "get-batch",
        Category.BATCHES,
        reads("Get batch"),
        "Get the state of a batch: the numbers of completed, failed and remaining items, its cost, and the time "
        "left. Set `waitSecs` to wait for its end.",
        GetBatchArguments,
    ),
    front_door_tool(
        "get-batch-results",
        Category.BATCHES,
        reads("Get batch results"),
        "Get the results of a batch so far, even while it is running: a row for each item that has ended, with its "
        "key, status, cost, and its answer or error. Use `offset` to continue after the last answer, and `status` to "
        "get only the failed items.",
        GetBatchResultsArguments,
    ),
    front_door_tool(
        "cancel-batch",
        Category.BATCHES,
        ToolAnnotations(title="Cancel batch", destructive=True, idempotent=True, open_world=False),
        "Cancel the running items of a batch, and start no others, so that it costs nothing more. The results so far "
        "are kept.",
        BatchArguments,
    ),
)
