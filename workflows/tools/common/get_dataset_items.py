"""`get-dataset-items`: rows of a dataset, in pages."""

from typing import Any

from pydantic import Field

from outlast.activities.bounds import Offset
from outlast.activities.storages.contracts import DatasetItemsInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import MAX_CONTENT_BYTES, Rows, rows_answer
from outlast.workflows.tools.core.storages import DatasetArguments, FieldNames, parents_of
from outlast.workflows.tools.framework.tool import Category, limited_tool, reads


class DatasetItemsArguments(DatasetArguments):
    """Rows of a dataset, and fields of the rows."""

    offset: Offset = Field(default=0, description="Number of items to skip at the start.")
    limit: int = Field(
        default=20, ge=1, le=1_000, description="Maximum number of items to return; fewer when they are large."
    )
    fields: FieldNames = Field(
        default_factory=list,
        description="Comma-separated list of fields to include. Use dot notation for nested objects "
        '(e.g. "metadata.url"); their parents are flattened.',
    )
    omit: FieldNames = Field(default_factory=list, description="Comma-separated list of fields to exclude.")
    flatten: FieldNames = Field(
        default_factory=list,
        description='Comma-separated list of object fields to flatten: "metadata" turns {"metadata": {"url": "x"}} '
        'into {"metadata.url": "x"}. Derived from dots in `fields` when absent.',
    )
    clean: bool = Field(default=False, description="If true, skips empty items and hidden fields (starting with #).")
    desc: bool = Field(default=False, description="If true, newest items first.")


async def get_dataset_items(ctx: HandlerContext, arguments: DatasetItemsArguments) -> ToolResult:
    """Read the page, with a hint on the next one."""
    given: dict[str, Any] = arguments.model_dump()
    given["flatten"] = arguments.flatten or parents_of(arguments.fields)
    request = DatasetItemsInput(
        caller=ctx.call.caller,
        **given,
        max_bytes=MAX_CONTENT_BYTES,
        shorten_large_row=True,
    )
    return rows_answer(await ctx.storages.items(request), tool="get-dataset-items")


GET_DATASET_ITEMS = limited_tool(
    "get-dataset-items",
    Category.STORAGE,
    reads("Get dataset items"),
    "Retrieve dataset items with pagination, sorting, and field selection. Every Actor run writes its results to a "
    "dataset; use the dataset id that the run's answer names. For nested fields use dot notation "
    '(e.g. fields="metadata.url"). Select `fields` when items are large. The answer has the number of items and the '
    "next offset.",
    get_dataset_items,
    DatasetItemsArguments,
    Rows,
).build()
