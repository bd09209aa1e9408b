"""The way to the subscriptions of callers, which are workflows; the first subscription of a caller starts one.

They are read from the workflow's memo, which needs no worker. Changes are updates, one after the other.
"""

import asyncio
from typing import Any

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.cancelled_updates import raise_cancellation
from outlast.activities.contracts import Contract
from outlast.activities.webhooks.contracts import (
    SUBSCRIPTIONS_MEMO,
    SUBSCRIPTIONS_WORKFLOW,
    SubscriptionAnswer,
    SubscriptionsState,
    subscriptions_id,
)


class Subscriptions:
    """Reads and changes what callers have subscribed. Every method raises `RPCError` when Temporal does not answer."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        """Their workflows are on `task_queue`."""
        self._client = client
        self._task_queue = task_queue

    async def of(self, caller_id: str) -> SubscriptionsState:
        """What the caller has subscribed; empty for one who never has."""
        try:
            description = await self._client.get_workflow_handle(subscriptions_id(caller_id)).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return SubscriptionsState(caller_id=caller_id)
        kept = await description.memo_value(SUBSCRIPTIONS_MEMO, None, type_hint=SubscriptionsState)
        return kept or SubscriptionsState(caller_id=caller_id)

    async def change(self, caller_id: str, update: str, request: Contract) -> SubscriptionAnswer:
        """Have one of the updates carried out. Needs a worker."""
        start: WithStartWorkflowOperation[Any, None] = WithStartWorkflowOperation(
            SUBSCRIPTIONS_WORKFLOW,
            SubscriptionsState(caller_id=caller_id),
            id=subscriptions_id(caller_id),
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=f"webhooks of {caller_id}",
        )
        # The SDK keeps the start's error for users of the handle, and asyncio reports an error that has none.
        handle = asyncio.ensure_future(start.workflow_handle())
        handle.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            return await self._client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
                update, request, start_workflow_operation=start, result_type=SubscriptionAnswer
            )
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise_cancellation(error)
            raise
