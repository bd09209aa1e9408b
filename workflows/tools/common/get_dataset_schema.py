"""`get-dataset-schema`: the schema of a dataset's items, inferred from some of them."""

from pydantic import Field, JsonValue

from outlast.activities.storages.contracts import DatasetSchemaInput
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, as_json, hint
from outlast.workflows.tools.core.storages import DatasetArguments
from outlast.workflows.tools.framework.tool import Category, limited_tool, reads


class DatasetSchemaArguments(DatasetArguments):
    """A dataset, and the items to read."""

    limit: int = Field(default=5, ge=1, le=1_000, description="Maximum number of items to infer the schema from.")
    clean: bool = Field(default=True, description="If true, skips empty items and hidden fields (starting with #).")


class DatasetSchemaAnswer(Answer):
    """Schema that all read items match."""

    dataset_id: str
    item_schema: dict[str, JsonValue] = Field(description="JSON Schema (2020-12) of one item.")
    item_count: int = Field(description="Items that the schema was inferred from.")
    total_item_count: int
    simplified: bool = Field(description="Whether the deepest levels were left out, to limit the size.")


async def get_dataset_schema(ctx: HandlerContext, arguments: DatasetSchemaArguments) -> ToolResult:
    """Infer the schema."""
    found = await ctx.storages.schema(
        DatasetSchemaInput(
            caller=ctx.call.caller, storage_id=arguments.dataset_id, limit=arguments.limit, clean=arguments.clean
        )
    )
    answer = DatasetSchemaAnswer(
        dataset_id=found.dataset_id,
        item_schema=found.item_schema,
        item_count=found.rows_read,
        total_item_count=found.total,
        simplified=found.simplified,
    )
    if found.total == 0:
        return answered(answer, f"Dataset {found.dataset_id} is empty: there is nothing to infer a schema from.")
    if found.rows_read == 0:
        none = (
            f"None of the first items of dataset {found.dataset_id} could be read: they are empty or larger than 1 MB."
        )
        return answered(answer, none)
    next_step = f"Read items with get-dataset-items (datasetId {found.dataset_id}); name the fields you need."
    return answered(
        answer,
        f"Schema of {found.rows_read} of {found.total} items in dataset {found.dataset_id}; others may differ.",
        "It was too large: its deepest levels are left out." if found.simplified else None,
        NOTE if found.replaced_text else None,
        as_json(found.item_schema),
        hint(ctx, "get-dataset-items", next_step),
    )


GET_DATASET_SCHEMA = limited_tool(
    "get-dataset-schema",
    Category.STORAGE,
    reads("Get dataset schema"),
    "Generate a JSON schema from a sample of dataset items: nested objects, lists, optional fields and fields of "
    "several types. Use it to understand a dataset before you fetch many items.",
    get_dataset_schema,
    DatasetSchemaArguments,
    DatasetSchemaAnswer,
).build()
