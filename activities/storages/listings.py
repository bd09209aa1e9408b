"""Activities that list and describe a caller's runs, datasets, key-value stores and their keys."""

from typing import Any

from temporalio import activity

from outlast.activities import apify
from outlast.activities.failures.classify import explain_not_found, not_found
from outlast.activities.heartbeat import activity_scope
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.storages import contracts as storages


class ListingActivities:
    """Lists and describes, on behalf of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @activity.defn
    async def list_runs(self, request: storages.RunListInput) -> storages.RunPage:
        """Return one page of the caller's runs, or of one Actor's. Fails with `not_found` for an unknown Actor."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            runs = client.runs() if request.actor is None else client.actor(request.actor).runs()
            try:
                page = await runs.list(
                    offset=request.offset, limit=request.limit, desc=request.desc, status=request.status
                )
            except apify.NotFoundError:
                hint = "Name it as `user/name`, or by its id."
                raise not_found(f"There is no Actor {request.actor!r}.", hint) from None
            items = tuple(
                storages.RunItem(
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
            return storages.RunPage(runs=items, total=page.total, offset=request.offset)

    @activity.defn
    async def describe_dataset(self, request: storages.StorageRef) -> storages.DatasetInfo:
        """Return a dataset without its items. Fails with `not_found` if the caller cannot see it."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            found = await client.dataset(request.storage_id).get()
            if found is None:
                raise await explain_not_found(client, "dataset", request.storage_id)
            return _dataset(found)

    @activity.defn
    async def list_datasets(self, request: storages.StorageListInput) -> storages.DatasetListPage:
        """Return one page of the caller's datasets."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            page = await client.datasets().list(
                offset=request.offset, limit=request.limit, desc=request.desc, unnamed=request.unnamed
            )
            found = tuple(map(_dataset, page.items))
            return storages.DatasetListPage(datasets=found, total=page.total, offset=request.offset)

    @activity.defn
    async def describe_key_value_store(self, request: storages.StorageRef) -> storages.KeyValueStoreInfo:
        """Return a key-value store without its records. Fails with `not_found` if the caller cannot see it."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            found = await client.key_value_store(request.storage_id).get()
            if found is None:
                raise await explain_not_found(client, "key-value store", request.storage_id)
            return storages.KeyValueStoreInfo(**_common(found))

    @activity.defn
    async def list_key_value_stores(self, request: storages.StorageListInput) -> storages.KeyValueStoreListPage:
        """Return one page of the caller's key-value stores."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            page = await client.key_value_stores().list(
                offset=request.offset, limit=request.limit, desc=request.desc, unnamed=request.unnamed
            )
            found = tuple(storages.KeyValueStoreInfo(**_common(store)) for store in page.items)
            return storages.KeyValueStoreListPage(stores=found, total=page.total, offset=request.offset)

    @activity.defn
    async def list_keys(self, request: storages.KeysInput) -> storages.KeyPage:
        """Return one page of a store's keys. Fails with `not_found` if the caller cannot see the store."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            try:
                page = await client.key_value_store(request.storage_id).list_keys(
                    limit=request.limit, exclusive_start_key=request.exclusive_start_key, prefix=request.prefix
                )
            except apify.NotFoundError:
                raise await explain_not_found(client, "key-value store", request.storage_id) from None
            keys = tuple(storages.RecordKey(key=item.key, size_bytes=item.size) for item in page.items)
            following = page.next_exclusive_start_key if page.is_truncated else None
            return storages.KeyPage(keys=keys, next_start_key=following)


def _dataset(found: "apify.DatasetResource | apify.DatasetListItem") -> storages.DatasetInfo:
    return storages.DatasetInfo(
        **_common(found),
        item_count=found.item_count,
        clean_item_count=found.clean_item_count,
        fields=tuple(found.fields or ()) if isinstance(found, apify.DatasetResource) else (),
    )


def _common(found: "apify.DatasetResource | apify.DatasetListItem | apify.KeyValueStoreResource") -> dict[str, Any]:
    url = None if isinstance(found, apify.DatasetListItem) else found.console_url
    return {
        "id": found.id,
        "name": found.name or None,  # in lists, storages without a name have an empty one
        "created_at": found.created_at,
        "modified_at": found.modified_at,
        "accessed_at": found.accessed_at,
        "actor_id": found.act_id,
        "run_id": found.act_run_id,
        "size_bytes": found.stats.storage_bytes if found.stats else None,
        "console_url": None if url is None else str(url),
    }
