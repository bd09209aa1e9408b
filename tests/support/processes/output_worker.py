"""A worker for tests of its death. Arguments: Temporal address, queue, store, platform, token."""

import asyncio
import sys
from datetime import timedelta

from pydantic import SecretStr
from temporalio import workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.activities import STORE_ATTEMPT_TIMEOUT, STORE_RETRY_POLICY, OutputActivities
from outlast.activities.outputs.contracts import StoreDatasetInput, StoredDataset
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer


@workflow.defn
class StoreOneDataset:
    """One storing, retried until it is done."""

    @workflow.run
    async def run(self, order: StoreDatasetInput, heartbeat_seconds: int) -> StoredDataset:
        return await workflow.execute_activity_method(
            OutputActivities.store_dataset,
            order,
            start_to_close_timeout=STORE_ATTEMPT_TIMEOUT,
            heartbeat_timeout=timedelta(seconds=heartbeat_seconds),
            retry_policy=STORE_RETRY_POLICY,
        )


async def main(address: str, queue: str, store: str, platform_url: str, token: str) -> None:
    platform = ApifyPlatform(
        api_base_url=platform_url, operator_token=SecretStr(token), sealer=SecretSealer({"k": bytes(32)})
    )
    activities = OutputActivities(platform, OutputObjects.open(store))
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    await Worker(
        client,
        task_queue=queue,
        workflows=[StoreOneDataset],
        activities=[activities.store_dataset],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=0,  # or the workflow waits ten seconds for a worker that is dead
    ).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
