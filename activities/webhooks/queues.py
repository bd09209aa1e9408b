"""Workflows of webhooks: queues of deliveries, and subscriptions of callers.

A caller has a queue while deliveries wait. It is read from the workflow's memo, which needs no worker.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from cachetools import TTLCache
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import Contract
from outlast.activities.heartbeat import raise_cancellation
from outlast.activities.webhooks.contracts import (
    ENQUEUE_SIGNAL,
    QUEUE_MEMO,
    QUEUE_WORKFLOW,
    RECHECK_SIGNAL,
    SUBSCRIPTIONS_MEMO,
    SUBSCRIPTIONS_WORKFLOW,
    DeliveryInput,
    EnqueuedTogether,
    EnqueueInput,
    QueueSummary,
    RecheckInput,
    SubscriptionAnswer,
    SubscriptionsState,
    queue_id,
    subscriptions_id,
)
from outlast.activities.webhooks.waiting import QueueState

_KNOWN_SECONDS = 2.0
"""How long a worker goes by what it read of a queue. New events may overtake waiting ones for that long."""
_MAX_CALLERS = 10_000
_TOGETHER = 200
_CALLER = SearchAttributeKey.for_keyword("OutlastCaller")


@dataclass
class _Batch:
    """Deliveries of one caller that are added together."""

    entries: list[EnqueueInput] = field(default_factory=list[EnqueueInput])
    sending: "asyncio.Future[None] | None" = None


class WebhookQueues:
    """Reads queues, and adds to them. Every method raises `RPCError` when Temporal does not answer."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        """Their workflows are on `task_queue`."""
        self._client = client
        self._task_queue = task_queue
        self._batches: dict[str, _Batch] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._known = TTLCache[str, asyncio.Task[QueueSummary], float](_MAX_CALLERS, _KNOWN_SECONDS)

    async def of(self, caller_id: str) -> QueueSummary:
        """What waits for a caller's receivers."""
        try:
            description = await self._client.get_workflow_handle(queue_id(caller_id)).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return QueueSummary()
        if description.close_time is not None:
            return QueueSummary()
        return await description.memo_value(QUEUE_MEMO, None, type_hint=QueueSummary) or QueueSummary()

    async def known(self, caller_id: str) -> QueueSummary:
        """What waited for a caller's receivers a moment ago. Temporal is queried once for all who want to know."""
        reading = self._known.get(caller_id)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception() is not None)):
            reading = self._known[caller_id] = asyncio.ensure_future(self.of(caller_id))
        return await asyncio.shield(reading)

    async def enqueue(self, caller_id: str, request: EnqueueInput) -> None:
        """Add a delivery to its caller's queue, which begins with the first one.

        What comes while a signal is on its way goes with the next one: Temporal takes few signals at a time for one
        workflow, and refuses others ("Workflow is busy").
        """
        batch = self._batches.get(caller_id)
        if batch is None or len(batch.entries) >= _TOGETHER:
            batch = self._batches[caller_id] = _Batch()
        batch.entries.append(request)
        turn = self._turns.setdefault(caller_id, asyncio.Lock())
        async with turn:
            if batch.sending is None:
                if self._batches.get(caller_id) is batch:
                    del self._batches[caller_id]
                together = EnqueuedTogether(entries=tuple(batch.entries))
                batch.sending = asyncio.ensure_future(self._enqueue(caller_id, together))
            await asyncio.shield(batch.sending)

    async def _enqueue(self, caller_id: str, together: EnqueuedTogether) -> None:
        await self._client.start_workflow(
            QUEUE_WORKFLOW,
            QueueState(caller_id=caller_id),
            id=queue_id(caller_id),
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=ENQUEUE_SIGNAL,
            start_signal_args=[together],
            search_attributes=TypedSearchAttributes([SearchAttributePair(_CALLER, caller_id)]),
            static_summary=f"webhook events of {caller_id} that wait",
        )

    async def recheck(self, caller_id: str, request: RecheckInput) -> None:
        """Try a receiver at once, if anything waits for it."""
        await self._signal(queue_id(caller_id), RECHECK_SIGNAL, request)

    async def signal_delivery(self, delivery_id: str, signal: str, content: Contract) -> None:
        """Signal a waiting delivery, unless it has ended."""
        await self._signal(delivery_id, signal, content)

    async def _signal(self, workflow_id: str, signal: str, content: Contract) -> None:
        try:
            await self._client.get_workflow_handle(workflow_id).signal(signal, content)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def waiting_delivery(self, delivery_id: str) -> DeliveryInput | None:
        """The input of a delivery; None for one that has ended."""
        try:
            description = await self._client.get_workflow_handle(delivery_id).describe()
            if description.close_time is not None:
                return None
            return await delivery_input(self._client, delivery_id, description.run_id)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None


async def delivery_input(client: Client, delivery_id: str, run_id: str | None) -> DeliveryInput:
    """The input with which a delivery was started, from its history. Raises `RPCError`."""
    handle: Any = client.get_workflow_handle(delivery_id, run_id=run_id)
    first = await anext(aiter(handle.fetch_history_events(page_size=1)))
    payloads = first.workflow_execution_started_event_attributes.input.payloads
    return (await client.data_converter.decode(payloads, [DeliveryInput]))[0]


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
