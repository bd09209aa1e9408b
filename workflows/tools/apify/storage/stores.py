"""`get-key-value-store`, `get-key-value-store-keys` and `get-key-value-store-list`: stores without their records."""

from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import with_sentences
from outlast.workflows.tools.apify.answers.failures import failing_as, not_there
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.schemas.build import answer, arguments, array, flag, number, required_text, text
from outlast.workflows.tools.apify.storage.lists import LIST_ANSWER, list_arguments, listed
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

_SENTENCES: JsonObject = {"summary": text(), "nextStep": text()}
_STORE: JsonObject = {"keyValueStoreId": required_text("Id of the key-value store, or `user~name`.")}
NO_STORE = not_there("Key-value store '{keyValueStoreId}' not found.")


@failing_as(NO_STORE)
async def get_key_value_store(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The platform's object."""
    store_id = unquoted(given["keyValueStoreId"])
    found = await ctx.platform.get("key-value-stores", store_id)
    stats = found.get("stats")
    size = stats.get("storageBytes") if isinstance(stats, dict) else None
    summary = f"It has {size} bytes." if size is not None else "Its size is not known."
    step = f"List its keys with get-key-value-store-keys, keyValueStoreId={store_id}."
    return with_sentences({**found, "summary": summary, "nextStep": step})


@failing_as(NO_STORE)
async def get_key_value_store_keys(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The platform's page of keys."""
    store_id = unquoted(given["keyValueStoreId"])
    limit = given.get("limit")
    page = await ctx.platform.get(
        "key-value-stores",
        store_id,
        "keys",
        exclusiveStartKey=given.get("exclusiveStartKey"),
        limit=int(limit) if limit is not None else None,
    )
    items = page.get("items")
    keys = [entry for entry in items if isinstance(entry, dict)] if isinstance(items, list) else []
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
async def get_key_value_store_list(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The platform's page."""
    return await listed(ctx, "key-value-stores", given, tool="get-key-value-store-list", what="key-value stores")


GET_KEY_VALUE_STORE = reading_tool(
    "get-key-value-store",
    "Get key-value store",
    Category.STORAGE,
    does="Describe a key-value store: its name, its size, when it was written.",
    arguments=arguments(_STORE, required=("keyValueStoreId",)),
    answer=answer(
        {"id": text(), "name": {"type": ["string", "null"]}, **_SENTENCES}, required=("id", "summary", "nextStep")
    ),
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
    answer=answer(
        {
            "keyValueStoreId": text(),
            "items": array(answer({"key": text(), "size": number()}, required=("key", "size"))),
            "count": number(),
            "isTruncated": flag(),
            "nextExclusiveStartKey": {"type": ["string", "null"]},
            **_SENTENCES,
        },
        required=(
            "keyValueStoreId",
            "items",
            "count",
            "isTruncated",
            "nextExclusiveStartKey",
            "summary",
            "nextStep",
        ),
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
