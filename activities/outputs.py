"""Skeleton, so that imports work while the real one is written; overwrite this file."""

from datetime import timedelta

from temporalio import activity
from temporalio.common import RetryPolicy

from activities.output_models import (
    RestoredOutput,
    RestoreOutputInput,
    StoreContentInput,
    StoredDataset,
    StoreDatasetInput,
    StoredOutput,
    StoreRecordInput,
)
from activities.output_store.store import OutputObjects
from activities.platform import ApifyPlatform

STORE_ATTEMPT_TIMEOUT = timedelta(hours=6)
STORE_HEARTBEAT_TIMEOUT = timedelta(seconds=30)
STORE_RETRY_POLICY = RetryPolicy()
RESTORE_ATTEMPT_TIMEOUT = timedelta(seconds=60)
RESTORE_RETRY_POLICY = RetryPolicy()


class OutputActivities:
    def __init__(self, platform: ApifyPlatform, objects: OutputObjects) -> None: ...

    @activity.defn
    async def store_dataset(self, order: StoreDatasetInput) -> StoredDataset:
        raise NotImplementedError

    @activity.defn
    async def store_record(self, order: StoreRecordInput) -> StoredOutput:
        raise NotImplementedError

    @activity.defn
    async def store_content(self, order: StoreContentInput) -> StoredOutput:
        raise NotImplementedError

    @activity.defn
    async def restore_output(self, order: RestoreOutputInput) -> RestoredOutput:
        raise NotImplementedError
