"""`get-key-value-store`: a key-value store without its records."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import answered, describe_size, hint
from outlast.workflows.tools.core.storages import KeyValueStoreArguments, StorageView, store_view
from outlast.workflows.tools.framework.tool import Category, limited_tool, reads


async def get_key_value_store(ctx: HandlerContext, arguments: KeyValueStoreArguments) -> ToolResult:
    """Describe the store, with a hint on its keys."""
    store = await ctx.storages.key_value_store(arguments.key_value_store_id)
    name = f" ({store.name})" if store.name else ""
    made_by = f" Made by run {store.run_id}." if store.run_id else ""
    summary = (
        f"Key-value store {store.id}{name}, {describe_size(store.size_bytes)}. Created "
        f"{store.created_at:%Y-%m-%d %H:%M:%S}, modified {store.modified_at:%Y-%m-%d %H:%M:%S} (UTC).{made_by}"
    )
    next_step = f"See its keys with get-key-value-store-keys (keyValueStoreId {store.id})."
    return answered(store_view(store), summary, hint(ctx, "get-key-value-store-keys", next_step))


GET_KEY_VALUE_STORE = limited_tool(
    "get-key-value-store",
    Category.STORAGE,
    reads("Get key-value store"),
    "Get metadata of a key-value store (where an Actor run keeps its input, its state and its files): name, size "
    "and times.",
    get_key_value_store,
    KeyValueStoreArguments,
    StorageView,
).build()
