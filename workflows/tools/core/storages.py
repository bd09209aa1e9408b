"""How datasets and key-value stores are shown: the part that both share."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from outlast.activities.storages.contracts import DatasetInfo, KeyValueStoreInfo, StorageInfo, StorageListInput
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import Answer
from outlast.workflows.tools.answers.wording import describe_size
from outlast.workflows.tools.core.storage_arguments import StorageListArguments


class StorageView(Answer):
    """A storage without its content."""

    id: str
    name: str | None = Field(default=None, description="Absent for the storages that runs make.")
    created_at: datetime
    modified_at: datetime
    accessed_at: datetime | None = None
    actor_id: str | None = None
    run_id: str | None = Field(default=None, description="Run that made the storage.")
    size_bytes: int | None = None
    console_url: str | None = None


class DatasetView(StorageView):
    """A dataset without its items."""

    item_count: int = Field(description="May lag a few seconds behind the items.")
    clean_item_count: int | None = None
    fields: list[str] = Field(description="Names of top-level fields, as far as the platform knows them.")


class ListPage(Answer):
    """Position of a page in its list."""

    count: int = Field(description="Entries on this page.")
    total: int = Field(description="Entries on all pages.")
    offset: int
    next_offset: int | None = Field(default=None, description="Where to go on; absent on the last page.")


def dataset_view(dataset: DatasetInfo) -> DatasetView:
    """The structured form of a dataset."""
    return DatasetView.model_validate(dataset.model_dump())


def store_view(store: KeyValueStoreInfo) -> StorageView:
    """The structured form of a key-value store."""
    return StorageView.model_validate(store.model_dump())


def list_input(ctx: ToolContext, arguments: StorageListArguments) -> StorageListInput:
    """The input of the activity that lists storages."""
    return StorageListInput(
        caller=ctx.call.caller,
        offset=arguments.offset,
        limit=arguments.limit,
        desc=arguments.desc,
        unnamed=arguments.unnamed,
    )


def next_offset(shown: Sequence[object], *, total: int, offset: int) -> int | None:
    """Where the next page begins; None on the last page."""
    end = offset + len(shown)
    return end if shown and end < total else None


def storage_line(storage: StorageInfo) -> str:
    """One line about a storage in a list."""
    label = f"{storage.id} ({storage.name})" if storage.name else storage.id
    items = f"{storage.item_count} items, " if isinstance(storage, DatasetInfo) else ""
    size = f"{describe_size(storage.size_bytes)}, " if storage.size_bytes is not None else ""
    made_by = f", from run {storage.run_id}" if storage.run_id else ""
    return f"- {label}: {items}{size}modified {storage.modified_at:%Y-%m-%d %H:%M:%S}{made_by}"


def unnamed_hint(arguments: StorageListArguments, *, total: int) -> str | None:
    """What an empty list may have left out."""
    if total or arguments.unnamed:
        return None
    return "Only storages with a name were looked for: set unnamed to true for those that runs made."
