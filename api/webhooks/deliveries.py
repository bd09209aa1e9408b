"""`Deliveries`: which events are on their way, which were not delivered; sends them again, and tests."""

import asyncio
import logging
import secrets
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
from outlast.activities.webhooks.contracts import (
    DELIVERY_END_MEMO,
    DELIVERY_MEMO,
    DELIVERY_WAIT_MEMO,
    DELIVERY_WORKFLOW,
    TEST_EVENT_PREFIX,
    DeliveryEnd,
    DeliveryInput,
    DeliverySummary,
    DeliveryWait,
    WebhookEvent,
    WebhookEventType,
    WebhookListener,
    most_waiting_for,
)
from outlast.activities.webhooks.queues import WebhookQueues, delivery_input
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.errors import BadRequest, DeliveryRunning, TooManyRequests, WebhookNotFound
from outlast.api.metrics import LIMITED
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.history_details import error_of_stuck
from outlast.api.temporal.task_view import memo_model, owner_of
from outlast.api.temporal.visibility import deliveries_query, read_page_token, tests_query, write_page_token
from outlast.api.webhooks.client import WebhookClient
from outlast.contracts.webhooks import (
    MAX_REPLAYED,
    Delivery,
    DeliveryListing,
    DeliveryPage,
    DeliveryStatus,
    Replayed,
    ReplayRequest,
)
from outlast.worker.payloads.external_storage import UNREADABLE
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE

_OLD_PAGE = "The page token is no longer valid; list again from the first page."
_AT_ONCE = 10
_RETRY_SECONDS = 10
_LISTS_LAG_SECONDS = 5.0
_RECENT_TESTS = 10_000
log = logging.getLogger(__name__)


class Deliveries:
    """Deliveries of events to webhooks, which are workflows: one that failed is an event that was not delivered.

    Each method raises an `outlast.api.errors.ApiError` when it fails, for example `TemporalUnavailable`.
    """

    def __init__(
        self,
        client: Client,
        webhooks: WebhookClient,
        queues: WebhookQueues,
        policy: PolicySource,
        audit: AuditLog,
        limits: CallerLimits,
    ) -> None:
        """Record in `audit` what callers do. Lists take turns within the `limits` of their caller."""
        self._client = client
        self._webhooks = webhooks
        self._queues = queues
        self._policy = policy
        self._recent_tests = TTLCache[str, str, float](_RECENT_TESTS, _LISTS_LAG_SECONDS)
        self._audit = audit
        self._limits = limits

    async def list(self, caller: Caller, listing: DeliveryListing) -> DeliveryPage:
        """A page of the caller's deliveries. Raises `BadRequest` for a page token."""
        async with self._limits.awaited_slot(caller.id, "concurrent_lists"):
            query = deliveries_query(caller.id, status=listing.status, webhook_id=listing.webhook_id)
            token = read_page_token(listing.page_token, query) if listing.page_token else None
            pages = self._client.list_workflows(query, page_size=listing.page_size, next_page_token=token)
            with temporal_errors(invalid=BadRequest(_OLD_PAGE)):
                await pages.fetch_next_page(page_size=listing.page_size)
            found = [await self._listed(one) for one in pages.current_page or ()]
            next_token = write_page_token(pages.next_page_token, query) if pages.next_page_token else None
            return DeliveryPage(deliveries=tuple(one for one in found if one is not None), next_page_token=next_token)

    async def get(self, caller: Caller, delivery: str) -> Delivery:
        """One delivery, with its attempts while it goes on. Raises `WebhookNotFound`."""
        return await self._view(await self._described(caller, delivery))

    async def replay(self, caller: Caller, delivery: str) -> Delivery:
        """Send an event again, with its id. Raises `DeliveryRunning`, `TooManyRequests`, `WebhookNotFound`."""
        async with self._audit.action(AuditEvent.WEBHOOK_REPLAYED, caller, webhook=delivery):
            description = await self._described(caller, delivery)
            await self._room(caller, await self._webhook_of(description))
            if description.status is WorkflowExecutionStatus.RUNNING or not await self._again(description):
                raise DeliveryRunning(f"{delivery} is being delivered; look at it for its attempts.")
        return await self.get(caller, delivery)

    async def replay_all(self, caller: Caller, request: ReplayRequest) -> Replayed:
        """Send what was not delivered again, the latest first. Raises `TooManyRequests`."""
        async with self._audit.action(
            AuditEvent.WEBHOOK_REPLAYED, caller, webhook=request.webhook_id
        ) as action, self._limits.awaited_slot(caller.id, "concurrent_lists"):  # fmt: skip
            query = deliveries_query(caller.id, status="undelivered", webhook_id=request.webhook_id)
            with temporal_errors():
                listed = self._client.list_workflows(query, limit=MAX_REPLAYED + 1, page_size=MAX_REPLAYED + 1)
                found = [(one.id, one.run_id) async for one in listed]
            places = asyncio.Semaphore(_AT_ONCE)
            most = min(MAX_REPLAYED, await self._room(caller, request.webhook_id)) if found else 0
            sent = await asyncio.gather(*(self._resend(*one, places) for one in found[:most]))
            action.note(detail=f"{sum(sent)} events")
            return Replayed(replayed=sum(sent), more=len(found) > most)

    async def test(self, caller: Caller, webhook_id: str) -> Delivery:
        """Send a `webhook.test` to a webhook. Raises `TooManyRequests`, `WebhookNotFound`."""
        async with self._audit.action(AuditEvent.WEBHOOK_TESTED, caller, webhook=webhook_id):
            await self._webhooks.subscription(caller, webhook_id)
            await self._room(caller, webhook_id)
            kind, limits = WebhookEventType.WEBHOOK_TEST, self._policy.of(caller.id).limits
            event = WebhookEvent(
                id=f"{TEST_EVENT_PREFIX}{secrets.token_hex(16)}",
                type=kind,
                timestamp=datetime.now(UTC),
                data={"webhook_id": webhook_id},
            )
            listener = WebhookListener(
                id=webhook_id, events=(kind,), most_waiting=limits.webhook_deliveries, most_tests=limits.webhook_tests
            )
            order = DeliveryInput(caller_id=caller.id, listener=listener, event=event)
            await self._count_test(caller, order.workflow_id, limits.webhook_tests)
            with temporal_errors():
                await self._start(order)
        return await self.get(caller, order.workflow_id)

    async def _room(self, caller: Caller, webhook_id: str | None) -> int:
        """How many more events may wait, when they are for one webhook. Raises `TooManyRequests` when none may."""
        limit = self._policy.of(caller.id).limits.webhook_deliveries
        with temporal_errors():
            queue = await self._queues.of(caller.id)
        waiting = queue.waiting
        most = most_waiting_for(limit, is_failing=webhook_id is None or queue.is_failing(webhook_id))
        if waiting >= most:
            LIMITED.labels("webhook_deliveries").inc()
            raise TooManyRequests(
                f"{waiting} events wait for your receivers, and {most} may (`webhook_deliveries` in the operator's "
                "policy). Nothing was sent: repeat the request when they take events again.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        return most - waiting

    async def _webhook_of(self, description: WorkflowExecutionDescription) -> str | None:
        """The webhook of a delivery; None for an address that the call named itself."""
        with temporal_errors():
            summary = await memo_model(description, DELIVERY_MEMO, DeliverySummary)
        return None if summary is None else summary.webhook_id

    async def _count_test(self, caller: Caller, delivery: str, most: int) -> None:
        """Count a test that is about to start. Raises `TooManyRequests` when too many are being delivered."""
        with temporal_errors():
            query = tests_query(caller.id, await self._webhooks.ids(caller))
            listed = {one.id async for one in self._client.list_workflows(query, limit=most, page_size=most)}
        # Lists lag behind what was started a moment ago.
        recent = {test for test, caller_id in self._recent_tests.items() if caller_id == caller.id}
        if len(listed | recent) >= most:
            LIMITED.labels("webhook_tests").inc()
            raise TooManyRequests(
                f"{most} of your tests are being delivered, which is the most that may be (`webhook_tests` in the "
                "operator's policy). Nothing was sent: look at them (GET /v1/webhooks/deliveries?status=delivering), "
                "or repeat the request later.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._recent_tests[delivery] = caller.id

    async def _resend(self, delivery: str, run_id: str, places: asyncio.Semaphore) -> bool:
        """Send one of a list again, unless somebody did so meanwhile: lists lag behind."""
        async with places:
            with temporal_errors(missing=_not_found(delivery)):
                latest = await self._client.get_workflow_handle(delivery).describe()
            return latest.run_id == run_id and await self._again(latest)

    async def _again(self, description: WorkflowExecutionDescription) -> bool:
        """Start a delivery that has ended once more; False when it goes on already, since somebody else did so."""
        with temporal_errors(missing=_not_found(description.id)):
            order = await delivery_input(self._client, description.id, description.run_id)
            try:
                await self._start(order, is_replay=True)
            except WorkflowAlreadyStartedError:
                return False
            await self._forget(description)
        return True

    async def _forget(self, description: WorkflowExecutionDescription) -> None:
        """Take the attempts before a replay out of the lists: they are no undelivered event any more."""
        execution = WorkflowExecution(workflow_id=description.id, run_id=description.run_id)
        request = DeleteWorkflowExecutionRequest(namespace=self._client.namespace, workflow_execution=execution)
        await self._client.workflow_service.delete_workflow_execution(request)

    async def _start(self, order: DeliveryInput, *, is_replay: bool = False) -> None:
        policy = WorkflowIDReusePolicy
        await self._client.start_workflow(
            DELIVERY_WORKFLOW,
            order,
            id=order.workflow_id,
            task_queue=TOOLS_TASK_QUEUE,
            id_reuse_policy=policy.ALLOW_DUPLICATE if is_replay else policy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            memo={DELIVERY_MEMO: order.summary},
            search_attributes=search_attributes.of_delivery(order.caller_id),
            static_summary=f"{order.event.type.value} for {order.listener.id}",
        )

    async def _described(self, caller: Caller, delivery: str) -> WorkflowExecutionDescription:
        with temporal_errors(missing=_not_found(delivery)):
            description = await self._client.get_workflow_handle(delivery).describe()
        if description.workflow_type != DELIVERY_WORKFLOW or owner_of(description) != caller.id:
            raise _not_found(delivery)
        return description

    async def _view(self, description: WorkflowExecutionDescription) -> Delivery:
        with temporal_errors():
            delivery = await delivery_from(description)
            wait = await memo_model(description, DELIVERY_WAIT_MEMO, DeliveryWait)
        if delivery is None:
            raise _not_found(description.id)
        delivery = await self._with_error(description, delivery)
        if wait is None or delivery.status != "delivering" or delivery.next_attempt_at is not None:
            return delivery
        with temporal_errors():
            receiver = (await self._queues.of(owner_of(description) or "")).of(wait.receiver)
        if receiver is None:
            return delivery
        why = f"Events wait for this receiver. {receiver.message or ''}".rstrip()
        known = {"message": delivery.message or why, "next_attempt_at": receiver.next_attempt_at}
        return delivery.model_copy(update=known)

    async def _listed(self, execution: FoundExecution) -> Delivery | None:
        """A delivery in a list; None for one that cannot be read: nothing tells whose event it is."""
        try:
            delivery = await delivery_from(execution)
        except UNREADABLE as error:
            log.warning("The delivery %s cannot be shown: %s", execution.id, error)
            return None
        return None if delivery is None else await self._with_error(execution, delivery)

    async def _with_error(self, execution: FoundExecution, delivery: Delivery) -> Delivery:
        """The delivery with the reason, if it was ended because it was stuck."""
        with temporal_errors(missing=_not_found(execution.id)):
            error = await error_of_stuck(self._client, execution)
        return delivery if error is None else delivery.model_copy(update={"message": error.message})


def _not_found(delivery: str) -> WebhookNotFound:
    return WebhookNotFound(
        f"You have no delivery {delivery!r}. Deliveries are kept as long as Temporal keeps their history."
    )


async def delivery_from(execution: FoundExecution) -> Delivery | None:
    """Describe the delivery behind `execution`; None when the workflow is no delivery."""
    summary = await memo_model(execution, DELIVERY_MEMO, DeliverySummary)
    if summary is None:
        return None
    end = await memo_model(execution, DELIVERY_END_MEMO, DeliveryEnd)
    wait = await memo_model(execution, DELIVERY_WAIT_MEMO, DeliveryWait) if execution.close_time is None else None
    delivery = Delivery(
        id=execution.id,
        webhook_id=summary.webhook_id,
        event_id=summary.event_id,
        type=summary.type,
        subject=summary.subject,
        status=_status(execution, end),
        message=_message(execution, end, wait),
        attempts=None if wait is None else wait.attempts,
        created_at=summary.created_at,
        finished_at=execution.close_time,
    )
    if isinstance(execution, WorkflowExecutionDescription) and execution.close_time is None:
        return await _with_attempts(delivery, execution)
    return delivery


def _message(execution: FoundExecution, end: DeliveryEnd | None, wait: DeliveryWait | None) -> str | None:
    if execution.close_time is None:
        return None if wait is None else wait.message
    return None if end is None else end.message


def _status(execution: FoundExecution, end: DeliveryEnd | None) -> DeliveryStatus:
    if execution.status is WorkflowExecutionStatus.RUNNING:
        return "delivering"
    if execution.status is WorkflowExecutionStatus.COMPLETED:
        return "dropped" if end is not None and end.outcome == "dropped" else "delivered"
    return "undelivered"


async def _with_attempts(delivery: Delivery, description: WorkflowExecutionDescription) -> Delivery:
    """Add how often it was tried, what went wrong, and when it is tried next."""
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
