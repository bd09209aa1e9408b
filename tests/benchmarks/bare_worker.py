"""`python -m tests.benchmarks.bare_worker ADDRESS TASK_QUEUE`: the yardstick's worker, a process of its own like ours.

Reads APIFY_TOKEN and APIFY_API_BASE_URL, as the worker of Outlast does. Prints `ready` once it polls.
"""

import asyncio
import os
import signal
import sys

from apify_client import ApifyClientAsync
from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from tests.benchmarks.bare_call import BareActivities, BareLocalReadWorkflow, BareReadWorkflow

PASSED_THROUGH = ("apify_client", "impit", "pydantic", "tests")
"""Its own workflow module included: Outlast passes its own through, and a user who measures does so too."""


async def serve(address: str, task_queue: str) -> None:
    """Poll until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    platform = ApifyClientAsync(
        token=os.environ["APIFY_TOKEN"], api_url=os.environ["APIFY_API_BASE_URL"], max_retries=0
    )
    activities = BareActivities(platform)
    worker = Worker(
        await Client.connect(address),
        task_queue=task_queue,
        workflows=[BareReadWorkflow, BareLocalReadWorkflow],
        activities=[activities.read_items],
        workflow_runner=SandboxedWorkflowRunner(
            restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
        ),
    )
    async with worker:
        print("ready", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
    # The SDK's runtime threads may abort at interpreter exit (a known race).
    os._exit(0)
