"""Tools for key-value stores: the store, its keys, the list of stores, and single records."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.activities.storages.contracts import Record, RecordInput
from outlast.activities.unicode_text import NOTE
from outlast.workflows.contracts.tool_calls import Content, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.apify.answers import failing_as, is_missing, not_there, with_sentences
from outlast.workflows.tools.apify.datasets import LIST_ANSWER, list_arguments, listed
from outlast.workflows.tools.apify.schemas import (
    SENTENCES,
    answer,
    anything,
    arguments,
    array,
    flag,
    members,
    nullable,
    number,
    reading_tool,
    required_text,
    text,
    whole_answer,
)
from outlast.workflows.tools.core.lists import entries_of
from outlast.workflows.tools.core.storages import file_block, mime_of
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

_STORE: JsonObject = {"keyValueStoreId": required_text("Id of the key-value store, or `user~name`.")}
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


GET_KEY_VALUE_STORE = reading_tool(
    "get-key-value-store",
    "Get key-value store",
    Category.STORAGE,
    does="Describe a key-value store: its name, its size, when it was written.",
    arguments=arguments(_STORE, required=("keyValueStoreId",)),
    answer=answer({"id": text(), "name": nullable("string"), **SENTENCES}, required=("id", "summary", "nextStep")),
    handler=get_key_value_store,
)
GET_KEY_VALUE_STORE_KEYS = reading_tool(
    "get-key-value-store-keys",
    "Get key-value store keys",
    Category.STORAGE,
    does="List the keys of a key-value store with the sizes of their records, a page at a time.",
    arguments=arguments(
        {
            **_STORE,
            "exclusiveStartKey": text("Where to go on: the last key of the page before."),
            "limit": number("Keys to list at most.", maximum=10),
        },
        required=("keyValueStoreId",),
    ),
    answer=whole_answer(
        {
            "keyValueStoreId": text(),
            "items": array(whole_answer({"key": text(), "size": number()})),
            "count": number(),
            "isTruncated": flag(),
            "nextExclusiveStartKey": nullable("string"),
            **SENTENCES,
        }
    ),
    handler=get_key_value_store_keys,
)
GET_KEY_VALUE_STORE_LIST = reading_tool(
    "get-key-value-store-list",
    "Get user key-value stores list",
    Category.STORAGE,
    does="List your key-value stores, a page at a time. Those that runs make have no name: unnamed lists them too.",
    arguments=list_arguments(most=10),
    answer=LIST_ANSWER,
    handler=get_key_value_store_list,
)
_GET_KEY_VALUE_STORE_RECORD_DESCRIPTION = """
Read a record of a key-value store: JSON or text as it is, pictures and sound as such, other files as a blob, and what
is large as a link. The key OUTPUT often has the result of a run, INPUT its input.
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


GET_KEY_VALUE_STORE_RECORD = reading_tool(
    "get-key-value-store-record",
    "Get key-value store record",
    Category.STORAGE,
    does=_GET_KEY_VALUE_STORE_RECORD_DESCRIPTION,
    arguments=arguments(
        {
            "keyValueStoreId": required_text("Id of the key-value store, or `user~name`."),
            "recordKey": required_text("Key of the record."),
        },
        required=("keyValueStoreId", "recordKey"),
    ),
    answer=answer(
        {
            **members(text(), "keyValueStoreId", "key"),
            "value": anything("The JSON value or the text; for a file, what it is."),
            **members(text(), "contentType", "summary"),
        },
        required=("keyValueStoreId", "key", "value", "summary"),
    ),
    handler=get_key_value_store_record,
)
TOOLS = (GET_KEY_VALUE_STORE, GET_KEY_VALUE_STORE_KEYS, GET_KEY_VALUE_STORE_RECORD)
