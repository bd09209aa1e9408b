"""`get-dataset-items`: rows of a dataset, in pages that a model can afford."""

from pydantic import Field

from outlast.activities.bounds import Offset
from outlast.activities.storages.contracts import DatasetItemsInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, MAX_CONTENT_BYTES, Rows, rows_answer
from outlast.workflows.tools.core.storages import DatasetArguments, FieldNames
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class DatasetItemsArguments(DatasetArguments):
    """Which rows, and which of their fields."""

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


async def get_dataset_items(ctx: ToolContext, arguments: DatasetItemsArguments) -> ToolResult:
    """Read the page and say how to go on."""
    page = await ctx.storages.items(
        DatasetItemsInput(
            caller=ctx.call.caller,
            dataset_id=arguments.dataset_id,
            offset=arguments.offset,
            limit=arguments.limit,
            fields=tuple(arguments.fields),
            omit=tuple(arguments.omit),
            flatten=tuple(arguments.flatten or parents_of(arguments.fields)),
            clean=arguments.clean,
            desc=arguments.desc,
            max_bytes=MAX_CONTENT_BYTES,
            shorten_large_row=True,
        )
    )
    return rows_answer(page, tool="get-dataset-items")


def parents_of(fields: list[str]) -> tuple[str, ...]:
    """The objects to flatten for dotted fields: `["metadata.url", "title"]` -> `("metadata",)`."""
    return tuple(dict.fromkeys(field.partition(".")[0] for field in fields if "." in field.lstrip(".")))


GET_DATASET_ITEMS = (
    tool("get-dataset-items")
    .category(Category.STORAGE)
    .describe(
        "Retrieve dataset items with pagination, sorting, and field selection. Every Actor run writes its results to a "
        "dataset; use the dataset id that the run's answer names. For nested fields use dot notation "
        '(e.g. fields="metadata.url"). Select `fields` when items are large. The answer says how many items there are '
        "and where to go on."
    )
    .annotate(ToolAnnotations(title="Get dataset items", read_only=True, idempotent=True, open_world=False))
    .args(DatasetItemsArguments)
    .output(Rows)
    .server(get_dataset_items)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
