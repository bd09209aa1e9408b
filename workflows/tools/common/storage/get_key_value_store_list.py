"""`get-key-value-store-list`: the caller's key-value stores."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES, answered, hint
from outlast.workflows.tools.answers.wording import describe_list, next_list_hint
from outlast.workflows.tools.core.storage_arguments import StorageListArguments
from outlast.workflows.tools.core.storages import (
    ListPage,
    StorageView,
    list_input,
    next_offset,
    storage_line,
    store_view,
    unnamed_hint,
)
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class KeyValueStoreList(ListPage):
    """A page of key-value stores."""

    key_value_stores: list[StorageView]


async def get_key_value_store_list(ctx: ToolContext, arguments: StorageListArguments) -> ToolResult:
    """Read the page, a store to a line."""
    page = await ctx.storages.key_value_stores(list_input(ctx, arguments))
    count, total, offset = len(page.stores), page.total, page.offset
    answer = KeyValueStoreList(
        key_value_stores=[store_view(store) for store in page.stores],
        count=count,
        total=total,
        offset=offset,
        next_offset=next_offset(page.stores, total=total, offset=offset),
    )
    return answered(
        answer,
        describe_list("key-value stores", count=count, total=total, offset=offset),
        *map(storage_line, page.stores),
        next_list_hint("get-key-value-store-list", count=count, total=total, offset=offset),
        hint(ctx, "get-key-value-store-keys", "See the keys of one with get-key-value-store-keys.") if count else None,
        unnamed_hint(arguments, total=total),
    )


GET_KEY_VALUE_STORE_LIST = (
    tool("get-key-value-store-list")
    .category(Category.STORAGE)
    .describe(
        "List key-value stores of the authenticated user, newest first. Actor runs make stores without a name: set "
        "unnamed=true to include them."
    )
    .annotate(ToolAnnotations(title="Get key-value store list", read_only=True, idempotent=True, open_world=False))
    .args(StorageListArguments)
    .output(KeyValueStoreList)
    .server(get_key_value_store_list)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
