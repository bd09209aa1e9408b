"""Activities that read the rows of datasets, as streams, so that memory use does not grow with the dataset."""

import asyncio

from temporalio import activity

from outlast.activities.heartbeat import activity_scope
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage, DatasetSchema, DatasetSchemaInput
from outlast.activities.storages.described_pages import fetch_described_page, fetch_known_page
from outlast.activities.storages.item_schema import schema_of_items, simplified_schema


class DatasetActivities:
    """Reads the datasets of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Read through `platform`."""
        self._platform = platform

    @activity.defn
    async def fetch_dataset_items(self, request: DatasetItemsInput) -> DatasetPage:
        """One page of a dataset, which ends before the row that would exceed `max_bytes`.

        With `describe_run_store` the page also has the keys of that store, where they can be listed, and the schema of
        its rows. Fails with `not_found` when the caller has no such dataset.
        """
        async with activity_scope():
            return await fetch_described_page(self._platform.client(request.caller), request)

    @activity.defn
    async def infer_dataset_schema(self, request: DatasetSchemaInput) -> DatasetSchema:
        """The schema of a dataset's first rows. Fails with `not_found` when the caller has no such dataset."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            page = await fetch_known_page(
                client,
                DatasetItemsInput(
                    caller=request.caller,
                    dataset_id=request.storage_id,
                    limit=request.limit,
                    clean=request.clean,
                    max_bytes=request.max_bytes,
                ),
            )
            schema = await asyncio.to_thread(schema_of_items, page.items)
            fitting = simplified_schema(schema, max_bytes=request.max_schema_bytes)
            return DatasetSchema(
                dataset_id=request.storage_id,
                item_schema=fitting,
                rows_read=len(page.items),
                total=page.total,
                simplified=fitting is not schema,
                replaced_text=page.replaced_text,
            )
