"""Activities that list and describe a caller's runs, datasets, key-value stores and their keys."""

from datetime import datetime
from typing import TypedDict

from temporalio import activity

from outlast.activities import apify
from outlast.activities.failures.classify import explain_not_found, not_found
from outlast.activities.heartbeat import activity_scope
from outlast.activities.platform.apify_platform import ApifyPlatform
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
    """Lists and describes, on behalf of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Read through `platform`."""
        self._platform = platform

    @activity.defn
    async def list_runs(self, request: RunListInput) -> RunPage:
        """One page of the caller's runs, or of one Actor's. Fails with `not_found` when there is no such Actor."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            runs = client.runs() if request.actor is None else client.actor(request.actor).runs()
            try:
                page = await runs.list(
                    offset=request.offset, limit=request.limit, desc=request.desc, status=request.status
                )
            except apify.NotFoundError:
                raise not_found(
                    f"There is no Actor {request.actor!r}.", "Name it as `user/name`, or by its id."
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
            return RunPage(runs=items, total=page.total, offset=request.offset)

    @activity.defn
    async def describe_dataset(self, request: StorageRef) -> DatasetInfo:
        """A dataset without its items. Fails with `not_found` when the caller has no such dataset."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            found = await client.dataset(request.storage_id).get()
            if found is None:
                raise await explain_not_found(client, "dataset", request.storage_id)
            return _dataset(found)

    @activity.defn
    async def list_datasets(self, request: StorageListInput) -> DatasetListPage:
        """One page of the caller's datasets."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            page = await client.datasets().list(
                offset=request.offset, limit=request.limit, desc=request.desc, unnamed=request.unnamed
            )
            return DatasetListPage(datasets=tuple(map(_dataset, page.items)), total=page.total, offset=request.offset)

    @activity.defn
    async def describe_key_value_store(self, request: StorageRef) -> KeyValueStoreInfo:
        """A key-value store without its records. Fails with `not_found` when the caller has no such store."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            found = await client.key_value_store(request.storage_id).get()
            if found is None:
                raise await explain_not_found(client, "key-value store", request.storage_id)
            return _store(found)

    @activity.defn
    async def list_key_value_stores(self, request: StorageListInput) -> KeyValueStoreListPage:
        """One page of the caller's key-value stores."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            page = await client.key_value_stores().list(
                offset=request.offset, limit=request.limit, desc=request.desc, unnamed=request.unnamed
            )
            return KeyValueStoreListPage(stores=tuple(map(_store, page.items)), total=page.total, offset=request.offset)

    @activity.defn
    async def list_keys(self, request: KeysInput) -> KeyPage:
        """One page of a store's keys. Fails with `not_found` when the caller has no such store."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            try:
                page = await client.key_value_store(request.storage_id).list_keys(
                    limit=request.limit, exclusive_start_key=request.exclusive_start_key, prefix=request.prefix
                )
            except apify.NotFoundError:
                raise await explain_not_found(client, "key-value store", request.storage_id) from None
            keys = tuple(RecordKey(key=item.key, size_bytes=item.size) for item in page.items)
            return KeyPage(keys=keys, next_start_key=page.next_exclusive_start_key if page.is_truncated else None)


def _dataset(found: "apify.DatasetResource | apify.DatasetListItem") -> DatasetInfo:
    return DatasetInfo(
        **_common(found),
        item_count=found.item_count,
        clean_item_count=found.clean_item_count,
        fields=tuple(found.fields or ()) if isinstance(found, apify.DatasetResource) else (),
    )


def _store(found: "apify.KeyValueStoreResource") -> KeyValueStoreInfo:
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


def _common(found: "apify.DatasetResource | apify.DatasetListItem | apify.KeyValueStoreResource") -> _Common:
    return _Common(
        id=found.id,
        name=found.name or None,  # in lists, storages without a name have an empty one
        created_at=found.created_at,
        modified_at=found.modified_at,
        accessed_at=found.accessed_at,
        actor_id=found.act_id,
        run_id=found.act_run_id,
        size_bytes=found.stats.storage_bytes if found.stats else None,
        console_url=None if isinstance(found, apify.DatasetListItem) else _text(found.console_url),
    )


def _text(url: object) -> str | None:
    return None if url is None else str(url)
