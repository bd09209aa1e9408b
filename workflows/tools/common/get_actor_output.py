"""`get-actor-output`: the rows of a run, reduced to some fields."""

from typing import Self

from pydantic import Field, model_validator

from outlast.activities.bounds import Offset
from outlast.activities.storages.contracts import DatasetItemsInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import MAX_CONTENT_BYTES, Rows, rows_answer
from outlast.workflows.tools.core.storages import FieldNames, StorageId
from outlast.workflows.tools.framework.tool import Arguments, Category, limited_tool, reads


class OutputArguments(Arguments):
    """A part of the output of a run."""

    dataset_id: StorageId | None = Field(
        default=None, alias="datasetId", description="Dataset with the output. Either this or runId."
    )
    run_id: StorageId | None = Field(
        default=None, alias="runId", description="Run whose default dataset is read. Either this or datasetId."
    )
    fields: FieldNames = Field(
        default_factory=list,
        description='Comma-separated list of fields to include, with dot paths into nested values: "crawl.statusCode", '
        '"images.0.url"; "reviews.rating" of a list of reviews gives the list of ratings.',
    )
    offset: Offset = Field(default=0, description="Number of items to skip.")
    limit: int = Field(default=100, ge=1, le=1_000, description="Maximum number of items; fewer when they are large.")

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.dataset_id is None) == (self.run_id is None):
            raise ValueError("Give either datasetId or runId.")
        return self


async def get_actor_output(ctx: HandlerContext, arguments: OutputArguments) -> ToolResult:
    """Read the page of the run's or the named dataset, with a hint on the next one."""
    dataset_id = arguments.dataset_id or (await ctx.runs.look_up(arguments.run_id or "")).dataset_id
    page = await ctx.storages.items(
        DatasetItemsInput(
            caller=ctx.call.caller,
            dataset_id=dataset_id,
            offset=arguments.offset,
            limit=arguments.limit,
            paths=tuple(arguments.fields),
            clean=True,
            max_bytes=MAX_CONTENT_BYTES,
            shorten_large_row=True,
        )
    )
    return rows_answer(page, tool="get-actor-output")


GET_ACTOR_OUTPUT = limited_tool(
    "get-actor-output",
    Category.STORAGE,
    reads("Get Actor output"),
    "Retrieve the output of an Actor run: the items of its dataset, by runId or datasetId. Select the fields you "
    'need with dot paths (fields="url,crawl.statusCode") and page with offset and limit. Empty items and hidden '
    "fields are left out.",
    get_actor_output,
    OutputArguments,
    Rows,
).build()
