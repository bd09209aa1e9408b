"""`get-dataset`: a dataset without its items."""

from outlast.activities.storages.contracts import DatasetInfo
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import answered, describe_size, hint
from outlast.workflows.tools.core.storages import DatasetArguments, DatasetView, dataset_view
from outlast.workflows.tools.framework.tool import Category, limited_tool, reads


async def get_dataset(ctx: HandlerContext, arguments: DatasetArguments) -> ToolResult:
    """Describe the dataset, with a hint on reading it."""
    dataset = await ctx.storages.dataset(arguments.dataset_id)
    fields = hint(ctx, "get-dataset-schema", "See what its items look like with get-dataset-schema.")
    return answered(
        dataset_view(dataset),
        _summary(dataset),
        f"Fields: {', '.join(dataset.fields)}." if dataset.fields else None,
        hint(ctx, "get-dataset-items", f"Read its items with get-dataset-items (datasetId {dataset.id})."),
        None if dataset.fields else fields,
    )


def _summary(dataset: DatasetInfo) -> str:
    name = f" ({dataset.name})" if dataset.name else ""
    made_by = f" Made by run {dataset.run_id}." if dataset.run_id else ""
    return (
        f"Dataset {dataset.id}{name} has {dataset.item_count} items, {describe_size(dataset.size_bytes)}. "
        f"Created {dataset.created_at:%Y-%m-%d %H:%M:%S}, modified {dataset.modified_at:%Y-%m-%d %H:%M:%S} (UTC)."
        f"{made_by}"
    )


GET_DATASET = limited_tool(
    "get-dataset",
    Category.STORAGE,
    reads("Get dataset"),
    "Get metadata of a dataset (a collection of structured items that an Actor run made): its name, number of "
    "items, fields, size and times. Use it to see how much there is before you fetch items.",
    get_dataset,
    DatasetArguments,
    DatasetView,
).build()
