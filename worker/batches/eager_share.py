"""Which of its items a worker carries out itself, beginning with the answer to their start (Temporal's eager start).

That spares Temporal a queue, and a transaction, for each. With all items, the other workers would have nothing to do: a
worker takes the part of them that is its own.
"""

import time

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE

_LOOK_SECONDS = 30.0


class EagerShare:
    """One in as many items as workers poll for workflows."""

    def __init__(self, client: Client) -> None:
        """Count the workers of `client`'s namespace."""
        self._client = client
        self._workers = 1
        self._looked_at = float("-inf")
        self._items = 0

    async def takes_next(self) -> bool:
        """Whether the next item is this worker's own. Raises `RPCError`."""
        if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._workers = max(1, await self._count())
        self._items += 1
        return self._items % self._workers == 0

    async def _count(self) -> int:
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=TOOLS_TASK_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        described = await self._client.workflow_service.describe_task_queue(request)
        return len({poller.identity for poller in described.pollers})
