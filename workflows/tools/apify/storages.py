"""Datasets and key-value stores."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.activities.json_values import NESTED_NOTE
from outlast.activities.storages.contracts import (
    DatasetItemsInput,
    DatasetPage,
    DatasetSchemaInput,
    Record,
    RecordInput,
)
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import Content, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.apify import schemas
from outlast.workflows.tools.apify.answers import failing_as, first_that_fit, is_missing, not_there, with_sentences
from outlast.workflows.tools.core.lists import entries_of
from outlast.workflows.tools.core.storages import file_block, mime_of, parents_of
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

_DEFAULT_ENTRIES = 10
LIST_ANSWER = schemas.whole_answer(
    {
        **schemas.members(schemas.number(), "total", "count", "offset", "limit"),
        "items": schemas.array({"type": "object"}),
        **schemas.SENTENCES,
    }
)


def list_arguments(*, most: int) -> JsonObject:
    """Describe the arguments that select a page of a list."""
    return schemas.arguments(
        {
            "offset": schemas.number("Number of entries to skip.", default=0),
            "limit": schemas.number("Maximum number of entries.", default=_DEFAULT_ENTRIES, maximum=most),
            "desc": schemas.flag("Whether the newest come first.", default=False),
            "unnamed": schemas.flag("Whether those without a name are listed, too.", default=False),
        }
    )


async def listed(ctx: HandlerContext, collection: str, given: dict[str, Any], *, tool: str, what: str) -> ToolResult:
    """Read the platform's page of a collection, and point to the next one."""
    page = await ctx.platform.get(
        collection,
        offset=int(given.get("offset", 0)),
        limit=int(given.get("limit") or _DEFAULT_ENTRIES),
        desc=bool(given.get("desc", False)),
        unnamed=bool(given.get("unnamed", False)),
    )
    items, total, offset = page.get("items"), page.get("total"), page.get("offset")
    count = len(items) if isinstance(items, list) else 0
    end = (offset if isinstance(offset, int) else 0) + count
    more = isinstance(total, int) and end < total and count > 0
    step = f"The next page: {tool} with offset={end}." if more else "This is the last page."
    return with_sentences({**page, "count": count, "summary": f"{count} of {total} {what}.", "nextStep": step})


_DATASET: JsonObject = {"datasetId": schemas.required_text("Id of the dataset, or `user~name`.")}
_DEFAULT_ROWS = 5
NO_DATASET = not_there("Dataset '{datasetId}' not found.")


@failing_as(NO_DATASET)
async def get_dataset(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the platform's object without the schema that its owner declared."""
    dataset_id = unquoted(given["datasetId"])
    found = await ctx.platform.get("datasets", dataset_id)
    shown = {name: value for name, value in found.items() if name != "schema"}
    given_fields, stats = found.get("fields"), found.get("stats")
    fields = given_fields if isinstance(given_fields, list) else []
    named = first_that_fit(fields, ctx.call.output.inline_limit_bytes)
    size = stats.get("inflatedBytes") if isinstance(stats, dict) else None
    about = f", about {size} bytes in all" if size else ""
    summary = f"Items: {found.get('itemCount')}. Fields: {len(fields)}."
    if len(named) < len(fields):
        shown["fields"] = named
        summary += f" The first {len(named)} are listed: more would make the answer too large."
    step = f"Read the items with get-dataset-items, datasetId={dataset_id}{about}."
    return with_sentences({**shown, "summary": summary, "nextStep": step})


@failing_as(NO_DATASET)
async def get_dataset_schema(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the schema of a list of the first items; an empty object if there are none."""
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
async def get_dataset_list(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the platform's page."""
    return await listed(ctx, "datasets", given, tool="get-dataset-list", what="datasets")


def _of_any_item(schema: JsonValue) -> JsonValue:
    """Remove `required` from the schema, because a few items do not show what all others have."""
    if isinstance(schema, list):
        return [_of_any_item(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _of_any_item(entry)
        for name, entry in schema.items()
        if not (name == "required" and isinstance(entry, list))
    }


GET_DATASET = schemas.reading_tool(
    "get-dataset",
    "Get dataset",
    Category.STORAGE,
    does="Describe a dataset: its name, the number and the fields of its items, and its times.",
    arguments=schemas.arguments(_DATASET, required=("datasetId",)),
    answer=schemas.answer(
        {
            "id": schemas.text(),
            "name": {"type": ["string", "null"]},
            "itemCount": schemas.number(),
            "fields": schemas.array(schemas.text()),
            **schemas.SENTENCES,
        },
        required=("id", "summary", "nextStep"),
    ),
    handler=get_dataset,
)
GET_DATASET_SCHEMA = schemas.reading_tool(
    "get-dataset-schema",
    "Get dataset schema",
    Category.STORAGE,
    does="Infer a JSON Schema from the first items of a dataset: their fields and types.",
    arguments=schemas.arguments(
        {
            **_DATASET,
            "limit": schemas.number("Number of items to read.", default=_DEFAULT_ROWS),
            "clean": schemas.flag("Whether to skip empty items and hidden fields.", default=True),
        },
        required=("datasetId",),
    ),
    answer=schemas.whole_answer({"datasetId": schemas.text(), "schema": {"type": "object"}, **schemas.SENTENCES}),
    handler=get_dataset_schema,
)
GET_DATASET_LIST = schemas.reading_tool(
    "get-dataset-list",
    "Get user datasets list",
    Category.STORAGE,
    does="List your datasets, a page at a time. Those created by runs have no name: unnamed lists them, too.",
    arguments=list_arguments(most=20),
    answer=LIST_ANSWER,
    handler=get_dataset_list,
)


_GET_DATASET_ITEMS_DESCRIPTION = """
Read the items of a dataset, such as the output of an Actor run, a page at a time. `fields` names the fields that you
need, nested ones with dots; for large items, select few fields. The answer has the number of items and the next offset.
"""
_DEFAULT_ITEMS = 20


@failing_as(NO_DATASET)
async def get_dataset_items(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the page, and point to the next one."""
    fields = _names(given.get("fields"))
    page = await ctx.storages.items(
        DatasetItemsInput(
            caller=ctx.call.caller,
            dataset_id=unquoted(given["datasetId"]),
            offset=int(given.get("offset", 0)),
            limit=int(given.get("limit", _DEFAULT_ITEMS)),
            fields=fields,
            omit=_names(given.get("omit")),
            flatten=_names(given.get("flatten")) or parents_of(fields),
            clean=bool(given.get("clean", False)),
            desc=bool(given.get("desc", False)),
            max_bytes=ctx.call.output.inline_limit_bytes,
            shorten_large_row=True,
        )
    )
    return with_sentences(_described(page))


def _described(page: DatasetPage) -> JsonObject:
    count = len(page.items)
    summary = f"{count} of {page.total} items, from offset {page.offset}."
    if page.rows_cut:
        summary += f" {page.rows_cut} more of this page would make the answer too large."
    if page.large_row_note:
        summary += f' {page.large_row_note} Choose fewer fields with fields="...".'
    if page.replaced_text:
        summary += f" {NOTE}"
    if page.nested_rows:
        summary += f" {NESTED_NOTE}"
    if page.rows_cut and page.end == page.offset:
        step = 'Not one item fits: choose fewer with fields="...".'
    elif page.end < page.total:
        step = f"The next items: get-dataset-items with offset={page.end}."
    else:
        step = "These are the last items."
    return {
        "datasetId": page.dataset_id,
        "items": list(page.items),
        "itemCount": count,
        "totalItemCount": page.total,
        "offset": page.offset,
        "limit": page.limit,
        "summary": summary,
        "nextStep": step,
    }


def _names(value: object) -> tuple[str, ...]:
    return tuple(name.strip() for name in str(value).split(",") if name.strip()) if value else ()


GET_DATASET_ITEMS = schemas.reading_tool(
    "get-dataset-items",
    "Get dataset items",
    Category.STORAGE,
    does=_GET_DATASET_ITEMS_DESCRIPTION,
    arguments=schemas.arguments(
        {
            "datasetId": schemas.required_text("Id of the dataset, or `user~name`."),
            "clean": schemas.flag("Whether to skip empty items and hidden fields (those that begin with #)."),
            "offset": schemas.number("Number of items to skip."),
            "limit": schemas.integer(f"Maximum number of items. Default: {_DEFAULT_ITEMS}.", minimum=1),
            "fields": schemas.text("Fields to include, comma-separated, with dots for nested ones."),
            "omit": schemas.text("Fields to exclude, comma-separated."),
            "desc": schemas.flag("Whether the newest come first."),
            "flatten": schemas.text("Object fields to flatten into fields with dots, comma-separated."),
        },
        required=("datasetId",),
    ),
    answer=schemas.answer(
        {
            "datasetId": schemas.text(),
            "apifyConsoleUrl": schemas.text("Its page in Apify Console; only for sessions of the Console."),
            "items": schemas.array({"type": "object"}),
            "itemCount": schemas.number("Items in this answer."),
            "totalItemCount": schemas.number("Items in the dataset."),
            **schemas.members(schemas.number(), "offset", "limit"),
            **schemas.SENTENCES,
        },
        required=("datasetId", "items", "itemCount", "totalItemCount", "offset", "limit", "summary", "nextStep"),
    ),
    handler=get_dataset_items,
)
DATASET_TOOLS = (GET_DATASET, GET_DATASET_ITEMS, GET_DATASET_SCHEMA)


_STORE: JsonObject = {"keyValueStoreId": schemas.required_text("Id of the key-value store, or `user~name`.")}
NO_STORE = not_there("Key-value store '{keyValueStoreId}' not found.")


@failing_as(NO_STORE)
async def get_key_value_store(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the platform's object."""
    store_id = unquoted(given["keyValueStoreId"])
    found = await ctx.platform.get("key-value-stores", store_id)
    stats = found.get("stats")
    size = stats.get("storageBytes") if isinstance(stats, dict) else None
    summary = f"It has {size} bytes." if size is not None else "Its size is not known."
    step = f"List its keys with get-key-value-store-keys, keyValueStoreId={store_id}."
    return with_sentences({**found, "summary": summary, "nextStep": step})


@failing_as(NO_STORE)
async def get_key_value_store_keys(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the platform's page of keys."""
    store_id = unquoted(given["keyValueStoreId"])
    limit = given.get("limit")
    page = await ctx.platform.get(
        "key-value-stores",
        store_id,
        "keys",
        exclusiveStartKey=given.get("exclusiveStartKey"),
        limit=int(limit) if limit is not None else None,
    )
    keys = entries_of(page)
    following = page.get("nextExclusiveStartKey")
    if page.get("isTruncated") and following:
        step = f"The next keys: get-key-value-store-keys with exclusiveStartKey={following}."
    elif keys:
        key = keys[0].get("key")
        step = f"Read one with get-key-value-store-record, keyValueStoreId={store_id}, recordKey={key}."
    else:
        step = "The store has no records."
    return with_sentences(
        {
            "keyValueStoreId": store_id,
            **page,
            "count": len(keys),
            "isTruncated": bool(page.get("isTruncated")),
            "nextExclusiveStartKey": following,
            "summary": f"{len(keys)} keys.",
            "nextStep": step,
        }
    )


@failing_as(lambda _given, _envelope: None)
async def get_key_value_store_list(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the platform's page."""
    return await listed(ctx, "key-value-stores", given, tool="get-key-value-store-list", what="key-value stores")


GET_KEY_VALUE_STORE = schemas.reading_tool(
    "get-key-value-store",
    "Get key-value store",
    Category.STORAGE,
    does="Describe a key-value store: its name, its size and its times.",
    arguments=schemas.arguments(_STORE, required=("keyValueStoreId",)),
    answer=schemas.answer(
        {"id": schemas.text(), "name": schemas.nullable("string"), **schemas.SENTENCES},
        required=("id", "summary", "nextStep"),
    ),
    handler=get_key_value_store,
)
GET_KEY_VALUE_STORE_KEYS = schemas.reading_tool(
    "get-key-value-store-keys",
    "Get key-value store keys",
    Category.STORAGE,
    does="List the keys of a key-value store with the sizes of their records, a page at a time.",
    arguments=schemas.arguments(
        {
            **_STORE,
            "exclusiveStartKey": schemas.text("The last key of the previous page."),
            "limit": schemas.number("Maximum number of keys.", maximum=10),
        },
        required=("keyValueStoreId",),
    ),
    answer=schemas.whole_answer(
        {
            "keyValueStoreId": schemas.text(),
            "items": schemas.array(schemas.whole_answer({"key": schemas.text(), "size": schemas.number()})),
            "count": schemas.number(),
            "isTruncated": schemas.flag(),
            "nextExclusiveStartKey": schemas.nullable("string"),
            **schemas.SENTENCES,
        }
    ),
    handler=get_key_value_store_keys,
)
GET_KEY_VALUE_STORE_LIST = schemas.reading_tool(
    "get-key-value-store-list",
    "Get user key-value stores list",
    Category.STORAGE,
    does="List your key-value stores, a page at a time. Those created by runs have no name: unnamed lists them, too.",
    arguments=list_arguments(most=10),
    answer=LIST_ANSWER,
    handler=get_key_value_store_list,
)
_GET_KEY_VALUE_STORE_RECORD_DESCRIPTION = """
Read a record of a key-value store: JSON and text unchanged, images and audio as such, other files as a blob, large
records as a link. The key OUTPUT often has the result of a run, INPUT its input.
"""


def _wording(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    if not is_missing(envelope):
        return None
    store, key = unquoted(given["keyValueStoreId"]), unquoted(given["recordKey"])
    if "record" in envelope.message:
        return f"Record '{key}' not found in key-value store '{store}'."
    return f"Key-value store '{store}' not found."


@failing_as(_wording)
async def get_key_value_store_record(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the record, whole or as a link."""
    store, key = unquoted(given["keyValueStoreId"]), unquoted(given["recordKey"])
    limit = ctx.call.output.inline_limit_bytes
    record = await ctx.storages.record(RecordInput(caller=ctx.call.caller, storage_id=store, key=key, max_bytes=limit))
    value, blocks = _shown(record)
    structured: JsonObject = {
        "keyValueStoreId": store,
        "key": key,
        "value": value,
        "contentType": record.content_type,
        "summary": f"{key}: {record.content_type}, {_size(record)} bytes.{f' {NOTE}' if record.replaced_text else ''}",
    }
    if record.kind == "binary":
        return ToolResult(content=blocks, structured=structured)
    return with_sentences(structured, more=blocks)


def _shown(record: Record) -> tuple[JsonValue, tuple[Content, ...]]:
    """Return the record's value for the structured answer, and the blocks beside it."""
    if record.kind == "json":
        return record.value, ()
    if record.kind == "text" and record.next_offset is None:
        return record.text, ()
    described = f"<binary {mime_of(record)}, {_size(record)} bytes>"
    return (f"{record.text}…" if record.text and record.blob_base64 is None else described), (file_block(record),)


def _size(record: Record) -> int | str:
    return record.size_bytes if record.size_bytes is not None else "unknown"


GET_KEY_VALUE_STORE_RECORD = schemas.reading_tool(
    "get-key-value-store-record",
    "Get key-value store record",
    Category.STORAGE,
    does=_GET_KEY_VALUE_STORE_RECORD_DESCRIPTION,
    arguments=schemas.arguments(
        {
            "keyValueStoreId": schemas.required_text("Id of the key-value store, or `user~name`."),
            "recordKey": schemas.required_text("Key of the record."),
        },
        required=("keyValueStoreId", "recordKey"),
    ),
    answer=schemas.answer(
        {
            **schemas.members(schemas.text(), "keyValueStoreId", "key"),
            "value": schemas.anything("The JSON value or the text; for a file, its description."),
            **schemas.members(schemas.text(), "contentType", "summary"),
        },
        required=("keyValueStoreId", "key", "value", "summary"),
    ),
    handler=get_key_value_store_record,
)
KEY_VALUE_STORE_TOOLS = (GET_KEY_VALUE_STORE, GET_KEY_VALUE_STORE_KEYS, GET_KEY_VALUE_STORE_RECORD)
