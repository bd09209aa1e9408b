"""`Deliveries`: which events are on their way, which were not delivered; sends them again, and tests."""

import asyncio
import secrets
from datetime import UTC, datetime

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.contracts import Caller
from outlast.activities.webhooks.contracts import (
    DELIVERY_MEMO,
    DELIVERY_WORKFLOW,
    DeliveryInput,
    WebhookEvent,
    WebhookEventType,
    WebhookListener,
    event_id,
)
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.contracts.webhooks import (
    MAX_REPLAYED,
    Delivery,
    DeliveryListing,
    DeliveryPage,
    Replayed,
    ReplayRequest,
)
from outlast.api.errors import BadRequest
from outlast.api.temporal.delivery_view import delivery_from
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.task_view import owner_of
from outlast.api.temporal.visibility import deliveries_query, read_page_token, write_page_token
from outlast.api.webhooks.client import WebhookClient
from outlast.api.webhooks.errors import DeliveryRunning, WebhookNotFound
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE

_OLD_PAGE = "The page token is no longer valid; list again from the first page."
_AT_ONCE = 10


class Deliveries:
    """Deliveries of events to webhooks, which are workflows: one that failed is an event that was not delivered.

    Each method raises an `outlast.api.errors.ApiError` when it fails, for example `TemporalUnavailable`.
    """

    def __init__(self, client: Client, webhooks: WebhookClient, audit: AuditLog, limits: CallerLimits) -> None:
        """Record in `audit` what callers do. Lists take turns within the `limits` of their caller."""
        self._client = client
        self._webhooks = webhooks
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
            found = [await delivery_from(one) for one in pages.current_page or ()]
            next_token = write_page_token(pages.next_page_token, query) if pages.next_page_token else None
            return DeliveryPage(deliveries=[one for one in found if one is not None], next_page_token=next_token)

    async def get(self, caller: Caller, delivery: str) -> Delivery:
        """One delivery, with its attempts while it goes on. Raises `WebhookNotFound`."""
        return await self._view(await self._described(caller, delivery))

    async def replay(self, caller: Caller, delivery: str) -> Delivery:
        """Send an event again, with its id. Raises `DeliveryRunning`, `WebhookNotFound`."""
        async with self._audit.action(AuditEvent.WEBHOOK_REPLAYED, caller, webhook=delivery):
            description = await self._described(caller, delivery)
            if description.status is WorkflowExecutionStatus.RUNNING or not await self._again(description):
                raise DeliveryRunning(f"{delivery} is being delivered; look at it for its attempts.")
        return await self.get(caller, delivery)

    async def replay_all(self, caller: Caller, request: ReplayRequest) -> Replayed:
        """Send what was not delivered again, the latest first."""
        async with self._audit.action(
            AuditEvent.WEBHOOK_REPLAYED, caller, webhook=request.webhook_id
        ) as action, self._limits.awaited_slot(caller.id, "concurrent_lists"):  # fmt: skip
            query = deliveries_query(caller.id, status="undelivered", webhook_id=request.webhook_id)
            with temporal_errors():
                listed = self._client.list_workflows(query, limit=MAX_REPLAYED + 1, page_size=MAX_REPLAYED + 1)
                found = [(one.id, one.run_id) async for one in listed]
            places = asyncio.Semaphore(_AT_ONCE)
            sent = await asyncio.gather(*(self._resend(*one, places) for one in found[:MAX_REPLAYED]))
            action.note(detail=f"{sum(sent)} events")
            return Replayed(replayed=sum(sent), more=len(found) > MAX_REPLAYED)

    async def test(self, caller: Caller, webhook_id: str) -> Delivery:
        """Send a `webhook.test` to a webhook. Raises `WebhookNotFound`."""
        async with self._audit.action(AuditEvent.WEBHOOK_TESTED, caller, webhook=webhook_id):
            await self._webhooks.subscription(caller, webhook_id)
            kind = WebhookEventType.WEBHOOK_TEST
            event = WebhookEvent(
                id=event_id(kind, caller.id, webhook_id, secrets.token_hex(16)),
                type=kind,
                timestamp=datetime.now(UTC),
                data={"webhook_id": webhook_id},
            )
            listener = WebhookListener(id=webhook_id, events=(kind,))
            order = DeliveryInput(caller_id=caller.id, listener=listener, event=event)
            with temporal_errors():
                await self._start(order)
        return await self.get(caller, order.workflow_id)

    async def _resend(self, delivery: str, run_id: str, places: asyncio.Semaphore) -> bool:
        """Send one of a list again, unless somebody did so meanwhile: lists lag behind."""
        async with places:
            with temporal_errors(missing=_not_found(delivery)):
                latest = await self._client.get_workflow_handle(delivery).describe()
            return latest.run_id == run_id and await self._again(latest)

    async def _again(self, description: WorkflowExecutionDescription) -> bool:
        """Start a delivery that has ended once more; False when it goes on already, since somebody else did so."""
        handle = self._client.get_workflow_handle(description.id, run_id=description.run_id)
        with temporal_errors(missing=_not_found(description.id)):
            first = await anext(aiter(handle.fetch_history_events(page_size=1)))
            payloads = first.workflow_execution_started_event_attributes.input.payloads
            order: DeliveryInput = (await self._client.data_converter.decode(payloads, [DeliveryInput]))[0]
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
        delivery = await delivery_from(description)
        if delivery is None:
            raise _not_found(description.id)
        return delivery


def _not_found(delivery: str) -> WebhookNotFound:
    return WebhookNotFound(
        f"You have no delivery {delivery!r}. Deliveries are kept as long as Temporal keeps their history."
    )
