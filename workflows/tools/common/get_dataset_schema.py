"""`get-dataset-schema`: what the items of a dataset look like, inferred from some of them."""

import json

from pydantic import Field, JsonValue

from outlast.activities.storages.contracts import DatasetSchema, DatasetSchemaInput
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, Answer, answered, hint
from outlast.workflows.tools.core.storages import DatasetArguments
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class DatasetSchemaArguments(DatasetArguments):
    """Of which dataset, from how many items."""

    limit: int = Field(default=5, ge=1, le=1_000, description="Maximum number of items to infer the schema from.")
    clean: bool = Field(default=True, description="If true, skips empty items and hidden fields (starting with #).")


class DatasetSchemaAnswer(Answer):
    """The schema that every item read fits."""

    dataset_id: str
    item_schema: dict[str, JsonValue] = Field(description="JSON Schema (2020-12) of one item.")
    item_count: int = Field(description="Items that the schema was inferred from.")
    total_item_count: int
    simplified: bool = Field(description="Whether the deepest levels were left out, for want of room.")


async def get_dataset_schema(ctx: ToolContext, arguments: DatasetSchemaArguments) -> ToolResult:
    """Infer the schema, and say what it rests on."""
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
    if found.rows_read == 0:
        return answered(answer, _nothing_to_read(found))
    next_step = f"Read items with get-dataset-items (datasetId {found.dataset_id}); name the fields you need."
    return answered(
        answer,
        f"Schema of {found.rows_read} of {found.total} items in dataset {found.dataset_id}; others may differ.",
        "It was too large: its deepest levels are left out." if found.simplified else None,
        NOTE if found.replaced_text else None,
        json.dumps(found.item_schema, ensure_ascii=False, separators=(",", ":")),
        hint(ctx, "get-dataset-items", next_step),
    )


def _nothing_to_read(found: DatasetSchema) -> str:
    if found.total == 0:
        return f"Dataset {found.dataset_id} is empty: there is nothing to infer a schema from."
    return f"None of the first items of dataset {found.dataset_id} could be read: they are empty or larger than 1 MB."


GET_DATASET_SCHEMA = (
    tool("get-dataset-schema")
    .category(Category.STORAGE)
    .describe(
        "Generate a JSON schema from a sample of dataset items: nested objects, lists, optional fields and fields of "
        "several types. Use it to understand a dataset before you fetch many items."
    )
    .annotate(ToolAnnotations(title="Get dataset schema", read_only=True, idempotent=True, open_world=False))
    .args(DatasetSchemaArguments)
    .output(DatasetSchemaAnswer)
    .server(get_dataset_schema)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
