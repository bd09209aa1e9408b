"""`get-dataset`, `get-dataset-schema` and `get-dataset-list`: datasets without their items."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.storages.contracts import DatasetSchemaInput
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import first_that_fit, with_sentences
from outlast.workflows.tools.apify.answers.failures import failing_as, not_there
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.schemas.build import answer, arguments, array, flag, number, required_text, text
from outlast.workflows.tools.apify.storage.lists import LIST_ANSWER, list_arguments, listed
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

_SENTENCES: JsonObject = {"summary": text(), "nextStep": text()}
_DATASET: JsonObject = {"datasetId": required_text("Id of the dataset, or `user~name`.")}
_DEFAULT_ROWS = 5
NO_DATASET = not_there("Dataset '{datasetId}' not found.")


@failing_as(NO_DATASET)
async def get_dataset(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The platform's object, less the schema that its owner declared."""
    dataset_id = unquoted(given["datasetId"])
    found = await ctx.platform.get("datasets", dataset_id)
    shown = {name: value for name, value in found.items() if name != "schema"}
    given_fields, stats = found.get("fields"), found.get("stats")
    fields = given_fields if isinstance(given_fields, list) else []
    listed = first_that_fit(fields, ctx.call.output.inline_limit_bytes)
    size = stats.get("inflatedBytes") if isinstance(stats, dict) else None
    about = f", about {size} bytes in all" if size else ""
    summary = f"Items: {found.get('itemCount')}. Fields: {len(fields)}."
    if len(listed) < len(fields):
        shown["fields"] = listed
        summary += f" The first {len(listed)} are listed: more would make the answer too large."
    step = f"Read the items with get-dataset-items, datasetId={dataset_id}{about}."
    return with_sentences({**shown, "summary": summary, "nextStep": step})


@failing_as(NO_DATASET)
async def get_dataset_schema(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """A schema of the first items, as a list of them; an empty object when there are none."""
    dataset_id = unquoted(given["datasetId"])
    inferred = await ctx.storages.schema(
        DatasetSchemaInput(
            caller=ctx.call.caller,
            storage_id=dataset_id,
            limit=int(given.get("limit", _DEFAULT_ROWS)),
            clean=bool(given.get("clean", True)),
            max_schema_bytes=ctx.call.output.inline_limit_bytes,
        )
    )
    schema: JsonValue = {"type": "array", "items": _of_any_item(inferred.item_schema)} if inferred.rows_read else {}
    properties = inferred.item_schema.get("properties")
    fields = len(properties) if isinstance(properties, dict) else 0
    read = f"From {inferred.rows_read} items with {fields} fields."
    summary = read if inferred.rows_read else "The dataset has no items."
    structured: JsonObject = {
        "datasetId": dataset_id,
        "schema": schema,
        "summary": f"{summary} {NOTE}" if inferred.replaced_text else summary,
        "nextStep": f'Read the items with get-dataset-items, datasetId={dataset_id}, and fields="..." for some fields.',
    }
    return with_sentences(structured)


@failing_as(lambda _given, _envelope: None)
async def get_dataset_list(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The platform's page."""
    return await listed(ctx, "datasets", given, tool="get-dataset-list", what="datasets")


def _of_any_item(schema: JsonValue) -> JsonValue:
    """The schema without what is required: a few items say nothing of what all others have."""
    if isinstance(schema, list):
        return [_of_any_item(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _of_any_item(entry)
        for name, entry in schema.items()
        if not (name == "required" and isinstance(entry, list))
    }


GET_DATASET = reading_tool(
    "get-dataset",
    "Get dataset",
    Category.STORAGE,
    does="Describe a dataset: its name, how many items it has and with which fields, when it was written.",
    arguments=arguments(_DATASET, required=("datasetId",)),
    answer=answer(
        {
            "id": text(),
            "name": {"type": ["string", "null"]},
            "itemCount": number(),
            "fields": array(text()),
            **_SENTENCES,
        },
        required=("id", "summary", "nextStep"),
    ),
    handler=get_dataset,
)
GET_DATASET_SCHEMA = reading_tool(
    "get-dataset-schema",
    "Get dataset schema",
    Category.STORAGE,
    does="Get a JSON Schema that the first items of a dataset fit: which fields there are, and of which types.",
    arguments=arguments(
        {
            **_DATASET,
            "limit": number("How many items to look at.", default=_DEFAULT_ROWS),
            "clean": flag("Whether to pass over empty items and hidden fields.", default=True),
        },
        required=("datasetId",),
    ),
    answer=answer(
        {"datasetId": text(), "schema": {"type": "object"}, **_SENTENCES},
        required=("datasetId", "schema", "summary", "nextStep"),
    ),
    handler=get_dataset_schema,
)
GET_DATASET_LIST = reading_tool(
    "get-dataset-list",
    "Get user datasets list",
    Category.STORAGE,
    does="List your datasets, a page at a time. Those that runs make have no name: unnamed lists them too.",
    arguments=list_arguments(most=20),
    answer=LIST_ANSWER,
    handler=get_dataset_list,
)
