"""`get-dataset`: what a dataset is, without its items."""

from outlast.activities.storages.contracts import DatasetInfo
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, answered, describe_size, hint
from outlast.workflows.tools.core.storages import DatasetArguments, DatasetView, dataset_view
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


async def get_dataset(ctx: ToolContext, arguments: DatasetArguments) -> ToolResult:
    """Describe it, and say how to read it."""
    dataset = await ctx.storages.dataset(arguments.dataset_id)
    return answered(
        dataset_view(dataset),
        _summary(dataset),
        f"Fields: {', '.join(dataset.fields)}." if dataset.fields else None,
        hint(ctx, "get-dataset-items", f"Read its items with get-dataset-items (datasetId {dataset.id})."),
        None
        if dataset.fields
        else hint(ctx, "get-dataset-schema", "See what its items look like with get-dataset-schema."),
    )


def _summary(dataset: DatasetInfo) -> str:
    name = f" ({dataset.name})" if dataset.name else ""
    made_by = f" Made by run {dataset.run_id}." if dataset.run_id else ""
    return (
        f"Dataset {dataset.id}{name} has {dataset.item_count} items, {describe_size(dataset.size_bytes)}. "
        f"Created {dataset.created_at:%Y-%m-%d %H:%M:%S}, modified {dataset.modified_at:%Y-%m-%d %H:%M:%S} (UTC)."
        f"{made_by}"
    )


GET_DATASET = (
    tool("get-dataset")
    .category(Category.STORAGE)
    .describe(
        "Get metadata of a dataset (a collection of structured items that an Actor run made): its name, number of "
        "items, fields, size and times. Use it to see how much there is before you fetch items."
    )
    .annotate(ToolAnnotations(title="Get dataset", read_only=True, idempotent=True, open_world=False))
    .args(DatasetArguments)
    .output(DatasetView)
    .server(get_dataset)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
