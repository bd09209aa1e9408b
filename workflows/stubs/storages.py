"""Datasets, key-value stores, lists of runs and logs, from workflow code."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.reads import RunLogActivities
    from outlast.activities.storages.datasets import DatasetActivities
    from outlast.activities.storages.listings import ListingActivities
    from outlast.activities.storages.records import RecordActivities

from outlast.activities.runs.contracts import DEFAULT_LOG_BYTES, RunLog, RunLogInput
from outlast.activities.storages.contracts import (
    DatasetInfo,
    DatasetItemsInput,
    DatasetListPage,
    DatasetPage,
    DatasetSchema,
    DatasetSchemaInput,
    KeyPage,
    KeysInput,
    KeyValueStoreInfo,
    KeyValueStoreListPage,
    Record,
    RecordInput,
    RunListInput,
    RunPage,
    StorageListInput,
    StorageRef,
)
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.quick_reads import QuickReader, read_quickly


class Storages:
    """Reads the caller's storages. Every method raises `ToolError` when the platform refuses."""

    def __init__(self, call: ToolCall, *, read: QuickReader = read_quickly) -> None:
        """Act for the caller of `call`. Each read is made with `read`."""
        self._call = call
        self._read = read

    async def items(self, request: DatasetItemsInput) -> DatasetPage:
        """One page of a dataset."""
        method = DatasetActivities.fetch_dataset_items
        return await self._read(self._call, method, request, summary=f"read dataset {request.dataset_id}")

    async def schema(self, request: DatasetSchemaInput) -> DatasetSchema:
        """The schema of a dataset's first rows."""
        method = DatasetActivities.infer_dataset_schema
        return await self._read(
            self._call, method, request, summary=f"infer the schema of dataset {request.storage_id}"
        )

    async def log(self, run_id: str, *, lines: int, max_bytes: int = DEFAULT_LOG_BYTES) -> RunLog:
        """The last lines of a run's log, `max_bytes` of them at most."""
        request = RunLogInput(caller=self._call.caller, run_id=run_id, lines=lines, max_bytes=max_bytes)
        return await self._read(
            self._call, RunLogActivities.fetch_run_log, request, summary=f"read the log of run {run_id}"
        )

    async def runs(self, request: RunListInput) -> RunPage:
        """One page of the caller's runs."""
        return await self._read(self._call, ListingActivities.list_runs, request, summary="list runs")

    async def dataset(self, dataset_id: str) -> DatasetInfo:
        """A dataset without its items."""
        request = StorageRef(caller=self._call.caller, storage_id=dataset_id)
        return await self._read(
            self._call, ListingActivities.describe_dataset, request, summary=f"describe dataset {dataset_id}"
        )

    async def datasets(self, request: StorageListInput) -> DatasetListPage:
        """One page of the caller's datasets."""
        return await self._read(self._call, ListingActivities.list_datasets, request, summary="list datasets")

    async def key_value_store(self, store_id: str) -> KeyValueStoreInfo:
        """A key-value store without its records."""
        request = StorageRef(caller=self._call.caller, storage_id=store_id)
        method = ListingActivities.describe_key_value_store
        return await self._read(self._call, method, request, summary=f"describe key-value store {store_id}")

    async def key_value_stores(self, request: StorageListInput) -> KeyValueStoreListPage:
        """One page of the caller's key-value stores."""
        return await self._read(
            self._call, ListingActivities.list_key_value_stores, request, summary="list key-value stores"
        )

    async def keys(self, request: KeysInput) -> KeyPage:
        """One page of a store's keys."""
        return await self._read(
            self._call, ListingActivities.list_keys, request, summary=f"list keys of store {request.storage_id}"
        )

    async def record(self, request: RecordInput) -> Record:
        """One record, up to the size that may be shown."""
        return await self._read(
            self._call, RecordActivities.fetch_record, request, summary=f"read a record of store {request.storage_id}"
        )
