"""Activities that list and describe what a caller has: runs, datasets, key-value stores and their keys."""

from datetime import datetime
from typing import TypedDict

from apify_client._models import DatasetListItem, DatasetResource, KeyValueStoreResource
from apify_client.errors import NotFoundError
from temporalio import activity

from outlast.activities.apify_platform import ApifyPlatform
from outlast.activities.failures.not_found import explain_missing, not_found
from outlast.activities.heartbeat import reading
from outlast.activities.storages.contracts import (
    DatasetInfo,
    DatasetListPage,
    KeyPage,
    KeysInput,
    KeyValueStoreInfo,
    KeyValueStoreListPage,
    RecordKey,
    RunItem,
    RunListInput,
    RunPage,
    StorageListInput,
    StorageRef,
)


class ListingActivities:
    """Activities that list and describe, on behalf of the caller that each order names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Read through `platform`."""
        self._platform = platform

    @activity.defn
    async def list_runs(self, order: RunListInput) -> RunPage:
        """One page of the caller's runs, or of one Actor's. Fails with `not_found` when there is no such Actor."""
        async with reading():
            client = self._platform.client(order.caller)
            runs = client.runs() if order.actor is None else client.actor(order.actor).runs()
            try:
                page = await runs.list(offset=order.offset, limit=order.limit, desc=order.desc, status=order.status)
            except NotFoundError:
                raise not_found(
                    f"There is no Actor {order.actor!r}.", "Name it as `user/name`, or by its id."
                ) from None
            items = tuple(
                RunItem(
                    run_id=run.id,
                    actor_id=run.act_id,
                    status=run.status,
                    started_at=run.started_at,
                    finished_at=run.finished_at,
                    build_number=run.build_number,
                    usage_total_usd=run.usage_total_usd,
                    dataset_id=run.default_dataset_id,
                    key_value_store_id=run.default_key_value_store_id,
                )
                for run in page.items
            )
            return RunPage(runs=items, total=page.total, offset=order.offset)

    @activity.defn
    async def describe_dataset(self, order: StorageRef) -> DatasetInfo:
        """A dataset without its items. Fails with `not_found` when the caller has no such dataset."""
        async with reading():
            client = self._platform.client(order.caller)
            found = await client.dataset(order.storage_id).get()
            if found is None:
                raise await explain_missing(client, "dataset", order.storage_id)
            return _dataset(found)

    @activity.defn
    async def list_datasets(self, order: StorageListInput) -> DatasetListPage:
        """One page of the caller's datasets."""
        async with reading():
            client = self._platform.client(order.caller)
            page = await client.datasets().list(
                offset=order.offset, limit=order.limit, desc=order.desc, unnamed=order.unnamed
            )
            return DatasetListPage(datasets=tuple(map(_dataset, page.items)), total=page.total, offset=order.offset)

    @activity.defn
    async def describe_key_value_store(self, order: StorageRef) -> KeyValueStoreInfo:
        """A key-value store without its records. Fails with `not_found` when the caller has no such store."""
        async with reading():
            client = self._platform.client(order.caller)
            found = await client.key_value_store(order.storage_id).get()
            if found is None:
                raise await explain_missing(client, "key-value store", order.storage_id)
            return _store(found)

    @activity.defn
    async def list_key_value_stores(self, order: StorageListInput) -> KeyValueStoreListPage:
        """One page of the caller's key-value stores."""
        async with reading():
            client = self._platform.client(order.caller)
            page = await client.key_value_stores().list(
                offset=order.offset, limit=order.limit, desc=order.desc, unnamed=order.unnamed
            )
            return KeyValueStoreListPage(stores=tuple(map(_store, page.items)), total=page.total, offset=order.offset)

    @activity.defn
    async def list_keys(self, order: KeysInput) -> KeyPage:
        """One page of a store's keys. Fails with `not_found` when the caller has no such store."""
        async with reading():
            client = self._platform.client(order.caller)
            try:
                page = await client.key_value_store(order.storage_id).list_keys(
                    limit=order.limit, exclusive_start_key=order.exclusive_start_key, prefix=order.prefix
                )
            except NotFoundError:
                raise await explain_missing(client, "key-value store", order.storage_id) from None
            keys = tuple(RecordKey(key=item.key, size_bytes=item.size) for item in page.items)
            return KeyPage(keys=keys, next_start_key=page.next_exclusive_start_key if page.is_truncated else None)


def _dataset(found: DatasetResource | DatasetListItem) -> DatasetInfo:
    return DatasetInfo(
        **_common(found),
        item_count=found.item_count,
        clean_item_count=found.clean_item_count,
        fields=tuple(found.fields or ()) if isinstance(found, DatasetResource) else (),
    )


def _store(found: KeyValueStoreResource) -> KeyValueStoreInfo:
    return KeyValueStoreInfo(**_common(found))


class _Common(TypedDict):
    id: str
    name: str | None
    created_at: datetime
    modified_at: datetime
    accessed_at: datetime
    actor_id: str | None
    run_id: str | None
    size_bytes: int | None
    console_url: str | None


def _common(found: DatasetResource | DatasetListItem | KeyValueStoreResource) -> _Common:
    return _Common(
        id=found.id,
        name=found.name or None,  # lists give storages without a name an empty one
        created_at=found.created_at,
        modified_at=found.modified_at,
        accessed_at=found.accessed_at,
        actor_id=found.act_id,
        run_id=found.act_run_id,
        size_bytes=found.stats.storage_bytes if found.stats else None,
        console_url=None if isinstance(found, DatasetListItem) else _text(found.console_url),
    )


def _text(url: object) -> str | None:
    return None if url is None else str(url)
