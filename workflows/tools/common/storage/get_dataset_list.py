"""`get-dataset-list`: the caller's datasets."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES, answered, hint
from outlast.workflows.tools.answers.wording import describe_list, next_list_hint
from outlast.workflows.tools.core.storage_arguments import StorageListArguments
from outlast.workflows.tools.core.storages import (
    DatasetView,
    ListPage,
    dataset_view,
    list_input,
    next_offset,
    storage_line,
    unnamed_hint,
)
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class DatasetList(ListPage):
    """A page of datasets."""

    datasets: list[DatasetView]


async def get_dataset_list(ctx: ToolContext, arguments: StorageListArguments) -> ToolResult:
    """Read the page, a dataset to a line."""
    page = await ctx.storages.datasets(list_input(ctx, arguments))
    count, total, offset = len(page.datasets), page.total, page.offset
    answer = DatasetList(
        datasets=[dataset_view(dataset) for dataset in page.datasets],
        count=count,
        total=total,
        offset=offset,
        next_offset=next_offset(page.datasets, total=total, offset=offset),
    )
    return answered(
        answer,
        describe_list("datasets", count=count, total=total, offset=offset),
        *map(storage_line, page.datasets),
        next_list_hint("get-dataset-list", count=count, total=total, offset=offset),
        hint(ctx, "get-dataset-items", "Read one with get-dataset-items.") if count else None,
        unnamed_hint(arguments, total=total),
    )


GET_DATASET_LIST = (
    tool("get-dataset-list")
    .category(Category.STORAGE)
    .describe(
        "List datasets (collections of Actor run data) of the authenticated user, newest first. Actor runs make "
        "datasets without a name: set unnamed=true to include them. Use it to browse datasets and to find one."
    )
    .annotate(ToolAnnotations(title="Get dataset list", read_only=True, idempotent=True, open_world=False))
    .args(StorageListArguments)
    .output(DatasetList)
    .server(get_dataset_list)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
