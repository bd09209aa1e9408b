"""A workflow that calls a model once and streams it, and a worker for it. Arguments: Temporal address, queue.

The providers come from the environment.
"""

import asyncio
import sys
from datetime import timedelta

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.contrib.workflow_streams import WorkflowStream
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.workflow import ActivityCancellationType

from outlast.activities.llm.activities import ModelActivities
from outlast.activities.llm.contracts import CallModelInput, ModelStep
from outlast.worker.payloads import lean_data_converter
from outlast.worker.settings import WorkerSettings
from outlast.worker.shared_tools import model_activities


@workflow.defn
class SpeakOnce:
    """One step, on the stream of this workflow."""

    @workflow.init
    def __init__(self, order: CallModelInput) -> None:
        self.stream = WorkflowStream()

    @workflow.run
    async def run(self, order: CallModelInput) -> ModelStep:
        return await workflow.execute_activity_method(
            ModelActivities.call_model,
            order,
            start_to_close_timeout=timedelta(minutes=2),
            heartbeat_timeout=timedelta(seconds=2),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=50), maximum_attempts=6),
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


def speaking_worker(client: Client, queue: str, activities: ModelActivities) -> Worker:
    """Serves `SpeakOnce`."""
    throttle = timedelta(milliseconds=200)
    return Worker(
        client,
        task_queue=queue,
        workflows=[SpeakOnce],
        activities=[activities.call_model],
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        max_heartbeat_throttle_interval=throttle,
        default_heartbeat_throttle_interval=throttle,
    )


async def connected(address: str) -> Client:
    """A client with Outlast's converter."""
    return await Client.connect(address, data_converter=lean_data_converter)


async def main(address: str, queue: str) -> None:
    await speaking_worker(await connected(address), queue, model_activities(WorkerSettings())).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
