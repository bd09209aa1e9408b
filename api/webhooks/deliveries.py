"""`Deliveries`: lists deliveries of events to webhooks, repeats them, and sends tests."""

import asyncio
import logging
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from cachetools import TTLCache
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.client import WorkflowExecution as FoundExecution
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.contracts import Caller
from outlast.activities.stuck_tasks.histories import readable
from outlast.activities.webhooks import contracts as events
from outlast.activities.webhooks.queues import WebhookQueues, delivery_input
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import DeliveryRunning, TooManyRequests, WebhookNotFound
from outlast.api.metrics import LIMITED
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.history_details import error_of_stuck
from outlast.api.temporal.task_view import memo_model, owner_of
from outlast.api.temporal.visibility import deliveries_query, owned, page_of, tests_query
from outlast.api.webhooks.client import WebhookClient
from outlast.contracts import webhooks as contracts
from outlast.worker.payloads import UNREADABLE
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE

_AT_ONCE = 10
_RETRY_SECONDS = 10
_LISTS_LAG_SECONDS = 5.0
_RECENT_TESTS = 10_000
log = logging.getLogger(__name__)


@dataclass(eq=False)
class Deliveries:
    """Client of deliveries, each of which is a workflow. Its methods raise `ApiError`s."""

    client: Client
    webhooks: WebhookClient
    queues: WebhookQueues
    policy: PolicySource
    audit: AuditLog
    limits: CallerLimits

    def __post_init__(self) -> None:
        self._recent_tests = TTLCache[str, str, float](_RECENT_TESTS, _LISTS_LAG_SECONDS)

    async def list(
        self, caller: Caller, listing: contracts.DeliveryListing, *, every: bool = False
    ) -> contracts.DeliveryPage:
        """A page of the deliveries of the caller, or with `every` of all. Raises `BadRequest` for a page token."""
        async with self.limits.awaited_slot(caller.id, "concurrent_lists"):
            whose = None if every else caller.id
            query = deliveries_query(whose, status=listing.status, webhook_id=listing.webhook_id)
            found, token = await page_of(self.client, query, size=listing.page_size, token=listing.page_token)
            shown = tuple([one for each in found if (one := await self._listed(each)) is not None])
            return contracts.DeliveryPage(deliveries=shown, next_page_token=token)

    async def get(self, caller: Caller, delivery: str) -> contracts.Delivery:
        """One delivery, with its attempts until it ends. Raises `WebhookNotFound`."""
        return await self._view(await self._described(caller, delivery))

    async def replay(self, caller: Caller, delivery: str) -> contracts.Delivery:
        """Send an event again, with its id. Raises `DeliveryRunning`, `TooManyRequests`, `WebhookNotFound`."""
        async with self.audit.action(AuditEvent.WEBHOOK_REPLAYED, caller, webhook=delivery):
            description = await self._described(caller, delivery)
            await self._room(caller, await self._webhook_of(description))
            if description.status is WorkflowExecutionStatus.RUNNING or not await self._again(description):
                raise DeliveryRunning(f"{delivery} is being delivered; get it to see its attempts.")
        return await self.get(caller, delivery)

    async def replay_all(self, caller: Caller, request: contracts.ReplayRequest) -> contracts.Replayed:
        """Send what was not delivered again, the latest first. Raises `TooManyRequests`."""
        async with self.audit.action(
            AuditEvent.WEBHOOK_REPLAYED, caller, webhook=request.webhook_id
        ) as action, self.limits.awaited_slot(caller.id, "concurrent_lists"):  # fmt: skip
            query = deliveries_query(caller.id, status="undelivered", webhook_id=request.webhook_id)
            with temporal_errors():
                listed = self.client.list_workflows(
                    query, limit=contracts.MAX_REPLAYED + 1, page_size=contracts.MAX_REPLAYED + 1
                )
                found = [(one.id, one.run_id) async for one in listed]
            places = asyncio.Semaphore(_AT_ONCE)
            most = min(contracts.MAX_REPLAYED, await self._room(caller, request.webhook_id)) if found else 0
            sent = await asyncio.gather(*(self._resend(*one, places) for one in found[:most]))
            action.note(detail=f"{sum(sent)} events")
            return contracts.Replayed(replayed=sum(sent), more=len(found) > most)

    async def test(self, caller: Caller, webhook_id: str) -> contracts.Delivery:
        """Send a `webhook.test` to a webhook. Raises `TooManyRequests`, `WebhookNotFound`."""
        async with self.audit.action(AuditEvent.WEBHOOK_TESTED, caller, webhook=webhook_id):
            await self.webhooks.subscription(caller, webhook_id)
            await self._room(caller, webhook_id)
            kind, limits = events.WebhookEventType.WEBHOOK_TEST, self.policy.of(caller.id).limits
            event = events.WebhookEvent(
                id=f"{events.TEST_EVENT_PREFIX}{secrets.token_hex(16)}",
                type=kind,
                timestamp=datetime.now(UTC),
                data={"webhook_id": webhook_id},
            )
            listener = events.WebhookListener(
                id=webhook_id, events=(kind,), most_waiting=limits.webhook_deliveries, most_tests=limits.webhook_tests
            )
            order = events.DeliveryInput(caller_id=caller.id, listener=listener, event=event)
            await self._count_test(caller, order.workflow_id, limits.webhook_tests)
            with temporal_errors():
                await self._start(order)
        return await self.get(caller, order.workflow_id)

    async def _room(self, caller: Caller, webhook_id: str | None) -> int:
        """The number of further events that may wait for a webhook. Raises `TooManyRequests` if it is zero."""
        limit = self.policy.of(caller.id).limits.webhook_deliveries
        with temporal_errors():
            queue = await self.queues.of(caller.id)
        waiting = queue.waiting
        most = events.most_waiting_for(limit, is_failing=webhook_id is None or queue.is_failing(webhook_id))
        if waiting >= most:
            LIMITED.labels("webhook_deliveries").inc()
            message = (
                f"{waiting} events wait for your receivers, and your limit is {most} (`webhook_deliveries` in the "
                "operator's policy). Nothing was sent: repeat the request when they accept events again."
            )
            raise TooManyRequests(message, retry_after_seconds=_RETRY_SECONDS)
        return most - waiting

    async def _webhook_of(self, description: WorkflowExecutionDescription) -> str | None:
        """The webhook of a delivery; None for an address in the options of a call."""
        with temporal_errors():
            summary = await memo_model(description, events.DELIVERY_MEMO, events.DeliverySummary)
        return None if summary is None else summary.webhook_id

    async def _count_test(self, caller: Caller, delivery: str, most: int) -> None:
        """Count a test that is about to start. Raises `TooManyRequests` when too many are being delivered."""
        with temporal_errors():
            query = tests_query(caller.id, await self.webhooks.ids(caller))
            listed = {one.id async for one in self.client.list_workflows(query, limit=most, page_size=most)}
        # Lists lag behind recent starts.
        recent = {test for test, caller_id in self._recent_tests.items() if caller_id == caller.id}
        if len(listed | recent) >= most:
            LIMITED.labels("webhook_tests").inc()
            message = (
                f"{most} of your tests are being delivered, which is your limit (`webhook_tests` in the operator's "
                "policy). Nothing was sent: see GET /v1/webhooks/deliveries?status=delivering, or try later."
            )
            raise TooManyRequests(message, retry_after_seconds=_RETRY_SECONDS)
        self._recent_tests[delivery] = caller.id

    async def _resend(self, delivery: str, run_id: str, places: asyncio.Semaphore) -> bool:
        """Send a listed event again, unless another request did so meanwhile: lists lag behind."""
        async with places:
            with temporal_errors(missing=_not_found(delivery)):
                latest = await self.client.get_workflow_handle(delivery).describe()
            return latest.run_id == run_id and await self._again(latest)

    async def _again(self, description: WorkflowExecutionDescription) -> bool:
        """Start an ended delivery again. Returns False if it is running already."""
        with temporal_errors(missing=_not_found(description.id)):
            order = await delivery_input(self.client, description.id, description.run_id)
            try:
                await self._start(order, is_replay=True)
            except WorkflowAlreadyStartedError:
                return False
            # The attempts before the replay would stay in the list of undelivered events.
            execution = WorkflowExecution(workflow_id=description.id, run_id=description.run_id)
            request = DeleteWorkflowExecutionRequest(namespace=self.client.namespace, workflow_execution=execution)
            await self.client.workflow_service.delete_workflow_execution(request)
        return True

    async def _start(self, order: events.DeliveryInput, *, is_replay: bool = False) -> None:
        policy = WorkflowIDReusePolicy
        await self.client.start_workflow(
            events.DELIVERY_WORKFLOW,
            order,
            id=order.workflow_id,
            task_queue=TOOLS_TASK_QUEUE,
            id_reuse_policy=policy.ALLOW_DUPLICATE if is_replay else policy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            memo={events.DELIVERY_MEMO: order.summary},
            search_attributes=search_attributes.of_delivery(order.caller_id),
            static_summary=f"{order.event.type.value} for {order.listener.id}",
        )

    async def _described(self, caller: Caller, delivery: str) -> WorkflowExecutionDescription:
        description = await owned(self.client, delivery, caller, _not_found(delivery))
        if description.workflow_type != events.DELIVERY_WORKFLOW:
            raise _not_found(delivery)
        return description

    async def _view(self, description: WorkflowExecutionDescription) -> contracts.Delivery:
        with temporal_errors():
            delivery = await delivery_from(description)
            wait = await memo_model(description, events.DELIVERY_WAIT_MEMO, events.DeliveryWait)
        if delivery is None:
            raise _not_found(description.id)
        delivery = await self._with_error(description, delivery)
        if wait is None or delivery.status != "delivering" or delivery.next_attempt_at is not None:
            return delivery
        with temporal_errors():
            receiver = (await self.queues.of(owner_of(description) or "")).of(wait.receiver)
        if receiver is None:
            return delivery
        why = f"Events wait for this receiver. {receiver.message or ''}".rstrip()
        known = {"message": delivery.message or why, "next_attempt_at": receiver.next_attempt_at}
        return delivery.model_copy(update=known)

    async def _listed(self, execution: FoundExecution) -> contracts.Delivery | None:
        """A delivery of a list; None for one that cannot be read, because its webhook is unknown then."""
        try:
            delivery = await delivery_from(execution)
        except UNREADABLE as error:
            log.warning("The delivery %s cannot be shown: %s", execution.id, error)
            return None
        return None if delivery is None else await self._with_error(execution, delivery)

    async def _with_error(self, execution: FoundExecution, delivery: contracts.Delivery) -> contracts.Delivery:
        """The delivery with the reason, if it was ended because it was stuck."""
        with temporal_errors(missing=_not_found(execution.id)):
            error = await error_of_stuck(self.client, execution)
        return delivery if error is None else delivery.model_copy(update={"message": error.message})


def _not_found(delivery: str) -> WebhookNotFound:
    return WebhookNotFound(
        f"You have no delivery {delivery!r}. Deliveries are kept as long as Temporal keeps their history."
    )


async def delivery_from(execution: FoundExecution) -> contracts.Delivery | None:
    """Describe the delivery behind `execution`; None for a workflow of another kind."""
    summary = await memo_model(execution, events.DELIVERY_MEMO, events.DeliverySummary)
    if summary is None:
        return None
    end = await memo_model(execution, events.DELIVERY_END_MEMO, events.DeliveryEnd)
    wait = (
        await memo_model(execution, events.DELIVERY_WAIT_MEMO, events.DeliveryWait)
        if execution.close_time is None
        else None
    )
    outcome = wait if execution.close_time is None else end
    delivery = contracts.Delivery(
        id=execution.id,
        caller=owner_of(execution),
        webhook_id=summary.webhook_id,
        event_id=summary.event_id,
        type=summary.type,
        subject=summary.subject,
        status=_status(execution, end),
        message=None if outcome is None else outcome.message,
        attempts=None if wait is None else wait.attempts,
        created_at=summary.created_at,
        finished_at=execution.close_time,
    )
    if isinstance(execution, WorkflowExecutionDescription) and execution.close_time is None:
        return await _with_attempts(delivery, execution)
    return delivery


def _status(execution: FoundExecution, end: events.DeliveryEnd | None) -> contracts.DeliveryStatus:
    if execution.status is WorkflowExecutionStatus.RUNNING:
        return "delivering"
    if execution.status is WorkflowExecutionStatus.COMPLETED:
        return "dropped" if end is not None and end.outcome == "dropped" else "delivered"
    return "undelivered"


async def _with_attempts(delivery: contracts.Delivery, description: WorkflowExecutionDescription) -> contracts.Delivery:
    """Add the number of attempts, the last error, and the time of the next attempt."""
    for pending in description.raw_description.pending_activities:
        known: dict[str, object] = {"attempts": pending.attempt}
        if pending.HasField("last_failure"):
            known["message"] = (await readable(pending.last_failure, description.data_converter)).message
        if pending.HasField("scheduled_time") and not pending.HasField("last_started_time"):
            known["next_attempt_at"] = pending.scheduled_time.ToDatetime(tzinfo=UTC)
        if pending.HasField("next_attempt_schedule_time"):
            known["next_attempt_at"] = pending.next_attempt_schedule_time.ToDatetime(tzinfo=UTC)
            known["attempts"] = max(1, pending.attempt - 1)
        return delivery.model_copy(update=known)
    return delivery
