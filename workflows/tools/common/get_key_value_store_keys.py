"""`get-key-value-store-keys`: the keys of a key-value store, and the sizes of its records."""

from pydantic import Field

from outlast.activities.storages.contracts import KeyPage, KeysInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, describe_size, hint
from outlast.workflows.tools.core.storages import KeyValueStoreArguments
from outlast.workflows.tools.framework.tool import Category, limited_tool, reads


class KeysArguments(KeyValueStoreArguments):
    """Keys to list."""

    exclusive_start_key: str | None = Field(
        default=None,
        alias="exclusiveStartKey",
        min_length=1,
        max_length=256,
        description="All keys up to this one (including) are skipped from the result.",
    )
    prefix: str | None = Field(
        default=None, min_length=1, max_length=256, description="Only keys that begin with this text."
    )
    limit: int = Field(default=100, ge=1, le=500, description="Maximum number of keys to return.")


class StoredKey(Answer):
    """A key and the size of its record."""

    key: str
    size_bytes: int


class Keys(Answer):
    """A page of keys."""

    key_value_store_id: str
    keys: list[StoredKey]
    count: int = Field(description="Keys on this page.")
    next_exclusive_start_key: str | None = Field(
        default=None, description="exclusiveStartKey of the next page; absent on the last one."
    )


async def get_key_value_store_keys(ctx: HandlerContext, arguments: KeysArguments) -> ToolResult:
    """Read the page, with a key per line."""
    store_id = arguments.key_value_store_id
    wanted = arguments.model_dump(include={"exclusive_start_key", "prefix", "limit"})
    page = await ctx.storages.keys(KeysInput(caller=ctx.call.caller, storage_id=store_id, **wanted))
    answer = Keys(
        key_value_store_id=store_id,
        keys=[StoredKey.model_validate(entry.model_dump()) for entry in page.keys],
        count=len(page.keys),
        next_exclusive_start_key=page.next_start_key,
    )
    read_one = f"Read one with get-key-value-store-record (keyValueStoreId {store_id})."
    return answered(
        answer,
        _summary(store_id, arguments, page),
        *(f"- {entry.key}: {describe_size(entry.size_bytes)}" for entry in page.keys),
        f"More keys: call get-key-value-store-keys with exclusiveStartKey {page.next_start_key!r}."
        if page.next_start_key is not None
        else None,
        hint(ctx, "get-key-value-store-record", read_one) if page.keys else None,
    )


def _summary(store_id: str, arguments: KeysArguments, page: KeyPage) -> str:
    which = f" that begin with {arguments.prefix!r}" if arguments.prefix else ""
    after = f" after {arguments.exclusive_start_key!r}" if arguments.exclusive_start_key else ""
    if not page.keys:
        return f"Key-value store {store_id} has no keys{which}{after}."
    many = "The first" if page.next_start_key is not None and not after else "The"
    return f"{many} {len(page.keys)} keys{which}{after} in key-value store {store_id}:"


GET_KEY_VALUE_STORE_KEYS = limited_tool(
    "get-key-value-store-keys",
    Category.STORAGE,
    reads("Get key-value store keys"),
    "List keys in a key-value store with the sizes of their records. Use exclusiveStartKey and limit to paginate, "
    "prefix to narrow down.",
    get_key_value_store_keys,
    KeysArguments,
    Keys,
).build()
