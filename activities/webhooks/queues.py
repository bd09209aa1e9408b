"""Workflows of webhooks: queues of deliveries, and subscriptions of callers. A caller has a queue while deliveries
wait. It is read from the workflow's memo, which needs no worker.
"""

import asyncio
from typing import Any

from cachetools import TTLCache
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)

from outlast.activities.contracts import Contract
from outlast.activities.webhooks import contracts as webhooks
from outlast.activities.webhooks.waiting import QueueState
from outlast.activities.workflow_requests import Combiner, described, ignore_missing, update_with_start

_KNOWN_SECONDS = 2.0
"""The time that a worker uses a queue's summary. New events may overtake waiting ones for that long."""
_MAX_CALLERS = 10_000
_CALLER = SearchAttributeKey.for_keyword("OutlastCaller")


class WebhookQueues:
    """Reads queues, and adds to them. Every method raises `RPCError` when Temporal does not answer."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._waiting = Combiner[webhooks.EnqueueInput](self._enqueue)
        self._known = TTLCache[str, asyncio.Task[webhooks.QueueSummary], float](_MAX_CALLERS, _KNOWN_SECONDS)

    async def of(self, caller_id: str) -> webhooks.QueueSummary:
        """Return the deliveries that wait for a caller's receivers."""
        description = await described(self._client, webhooks.queue_id(caller_id))
        if description is None or description.close_time is not None:
            return webhooks.QueueSummary()
        kept = await description.memo_value(webhooks.QUEUE_MEMO, None, type_hint=webhooks.QueueSummary)
        return kept or webhooks.QueueSummary()

    async def known(self, caller_id: str) -> webhooks.QueueSummary:
        """Return the same, up to a moment old: concurrent calls share one query of Temporal."""
        reading = self._known.get(caller_id)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception() is not None)):
            reading = self._known[caller_id] = asyncio.ensure_future(self.of(caller_id))
        return await asyncio.shield(reading)

    async def enqueue(self, caller_id: str, request: webhooks.EnqueueInput) -> None:
        """Add a delivery to its caller's queue, which begins with the first one."""
        await self._waiting.add(caller_id, request)

    async def _enqueue(self, caller_id: str, entries: tuple[webhooks.EnqueueInput, ...]) -> None:
        await self._client.start_workflow(
            webhooks.QUEUE_WORKFLOW,
            QueueState(caller_id=caller_id),
            id=webhooks.queue_id(caller_id),
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=webhooks.ENQUEUE_SIGNAL,
            start_signal_args=[webhooks.EnqueuedTogether(entries=entries)],
            search_attributes=TypedSearchAttributes([SearchAttributePair(_CALLER, caller_id)]),
            static_summary=f"webhook events of {caller_id} that wait",
        )

    async def recheck(self, caller_id: str, request: webhooks.RecheckInput) -> None:
        """Try a receiver at once, if anything waits for it."""
        await self.signal_workflow(webhooks.queue_id(caller_id), webhooks.RECHECK_SIGNAL, request)

    async def signal_workflow(self, workflow_id: str, signal: str, content: Contract) -> None:
        """Signal a queue or a waiting delivery, unless it has ended."""
        with ignore_missing():
            await self._client.get_workflow_handle(workflow_id).signal(signal, content)

    async def waiting_delivery(self, delivery_id: str) -> webhooks.DeliveryInput | None:
        """Return the input of a delivery; None for one that has ended."""
        with ignore_missing():
            description = await self._client.get_workflow_handle(delivery_id).describe()
            if description.close_time is None:
                return await delivery_input(self._client, delivery_id, description.run_id)
        return None


async def delivery_input(client: Client, delivery_id: str, run_id: str | None) -> webhooks.DeliveryInput:
    """Return the input with which a delivery was started, from its history. Raises `RPCError`."""
    handle: Any = client.get_workflow_handle(delivery_id, run_id=run_id)
    first = await anext(aiter(handle.fetch_history_events(page_size=1)))
    payloads = first.workflow_execution_started_event_attributes.input.payloads
    return (await client.data_converter.decode(payloads, [webhooks.DeliveryInput]))[0]


class Subscriptions:
    """Reads and changes what callers have subscribed. Every method raises `RPCError` when Temporal does not answer."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    async def of(self, caller_id: str) -> webhooks.SubscriptionsState:
        """Return the caller's subscriptions; empty for a caller who never had one."""
        description = await described(self._client, webhooks.subscriptions_id(caller_id))
        memo, state = webhooks.SUBSCRIPTIONS_MEMO, webhooks.SubscriptionsState
        kept = None if description is None else await description.memo_value(memo, None, type_hint=state)
        return kept or state(caller_id=caller_id)

    async def change(self, caller_id: str, update: str, request: Contract) -> webhooks.SubscriptionAnswer:
        """Execute one of the updates. Needs a worker."""
        return await update_with_start(
            self._client,
            update,
            request,
            webhooks.SubscriptionAnswer,
            webhooks.SUBSCRIPTIONS_WORKFLOW,
            webhooks.SubscriptionsState(caller_id=caller_id),
            id=webhooks.subscriptions_id(caller_id),
            task_queue=self._task_queue,
            static_summary=f"webhooks of {caller_id}",
        )
