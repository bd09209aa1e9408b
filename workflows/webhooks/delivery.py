"""WebhookDeliveryWorkflow: one event for one webhook. It ends when the event is delivered, or is not sent again."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from outlast.activities.webhooks.activities import (
        DELIVERY_ATTEMPT_TIMEOUT,
        DELIVERY_HEARTBEAT_TIMEOUT,
        DELIVERY_RETRY_POLICY,
        DELIVERY_TIMEOUT,
        WebhookActivities,
    )

from outlast.activities.webhooks.contracts import (
    ATTEMPTED_SIGNAL,
    DELIVERY_END_MEMO,
    DELIVERY_WAIT_MEMO,
    DELIVERY_WORKFLOW,
    DISABLE_SIGNAL,
    GONE,
    SETTLE_SIGNAL,
    UNDELIVERED,
    Attempted,
    AttemptInput,
    Delivered,
    DeliveryEnd,
    DeliveryInput,
    DeliveryWait,
    DisableInput,
    Settled,
    subscriptions_id,
)
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE
from outlast.workflows.metrics import count_delivery


@workflow.defn(name=DELIVERY_WORKFLOW)
class WebhookDeliveryWorkflow:
    """Its id is the delivery's id. It fails when the event was not delivered: that is the list of the undelivered.

    The event is attempted once. If that fails, or its receiver is failing already, the delivery waits in the queue of
    its caller, which attempts it from then on and signals how it ended.
    """

    def __init__(self) -> None:
        """Begin with an attempt."""
        self._settled: Settled | None = None

    @workflow.signal(name=SETTLE_SIGNAL)
    def settle(self, settled: Settled) -> None:
        """End, as the queue says."""
        self._settled = self._settled or settled

    @workflow.signal(name=ATTEMPTED_SIGNAL)
    def note_attempt(self, wait: DeliveryWait) -> None:
        """Record an attempt of the queue that failed."""
        workflow.upsert_memo({DELIVERY_WAIT_MEMO: wait})

    @workflow.run
    async def run(self, request: DeliveryInput) -> Delivered:
        """Deliver the event, for as long as it takes."""
        if workflow.patched("webhook-queue"):
            return await self._ended(request, await self._attempt_or_wait(request))
        try:
            delivered = await workflow.execute_activity_method(
                WebhookActivities.deliver_webhook,
                request,
                task_queue=RUNS_TASK_QUEUE,
                start_to_close_timeout=DELIVERY_ATTEMPT_TIMEOUT,
                schedule_to_close_timeout=DELIVERY_TIMEOUT,
                heartbeat_timeout=DELIVERY_HEARTBEAT_TIMEOUT,
                retry_policy=DELIVERY_RETRY_POLICY,
                summary=f"{request.event.type.value} {request.event.subject or ''}".rstrip(),
            )
        except ActivityError as error:
            await self._give_up(request, _undelivered(error))
            raise ApplicationError(_reason(error), type=UNDELIVERED, non_retryable=True) from None
        count_delivery(request.event.type.value, delivered.outcome)
        if delivered.outcome == "dropped":
            workflow.upsert_memo({DELIVERY_END_MEMO: DeliveryEnd(outcome="dropped", message=_REMOVED)})
        return delivered

    async def _attempt_or_wait(self, request: DeliveryInput) -> Settled:
        """Attempt the event, and wait for the queue if it was added there. A queue that is lost is not waited for."""
        while self._settled is None:
            try:
                attempted = await self._attempt(request)
            except ActivityError as error:
                return self._settled or _undelivered(error)
            if attempted.outcome != "queued":
                return Settled(outcome=attempted.outcome, status=attempted.status, attempts=attempted.attempts)
            if attempted.receiver is not None and self._settled is None:
                self.note_attempt(
                    DeliveryWait(receiver=attempted.receiver, attempts=attempted.attempts, message=attempted.message)
                )
            patience = timedelta(seconds=attempted.attempt_again_seconds)
            try:
                await workflow.wait_condition(lambda: self._settled is not None, timeout=patience)
            except TimeoutError:
                workflow.logger.warning("The queue of %s did not end this delivery.", request.caller_id)
        return self._settled

    async def _attempt(self, request: DeliveryInput) -> Attempted:
        return await workflow.execute_activity_method(
            WebhookActivities.attempt_webhook,
            AttemptInput(delivery=request, since=workflow.info().start_time),
            task_queue=RUNS_TASK_QUEUE,
            start_to_close_timeout=DELIVERY_ATTEMPT_TIMEOUT,
            heartbeat_timeout=DELIVERY_HEARTBEAT_TIMEOUT,
            retry_policy=DELIVERY_RETRY_POLICY,
            summary=f"{request.event.type.value} {request.event.subject or ''}".rstrip(),
        )

    async def _ended(self, request: DeliveryInput, settled: Settled) -> Delivered:
        """Record how the delivery ended. Raises `WebhookUndelivered`."""
        if settled.outcome == "undelivered":
            await self._give_up(request, settled)
            raise ApplicationError(settled.message or _NO_TIME, type=UNDELIVERED, non_retryable=True)
        count_delivery(request.event.type.value, settled.outcome)
        if settled.outcome == "dropped":
            workflow.upsert_memo({DELIVERY_END_MEMO: DeliveryEnd(outcome="dropped", message=_REMOVED)})
        return Delivered(outcome=settled.outcome, status=settled.status, attempts=settled.attempts)

    async def _give_up(self, request: DeliveryInput, settled: Settled) -> None:
        """Record why, and switch off a subscription whose receiver wants no more."""
        message = settled.message or _NO_TIME
        workflow.upsert_memo({DELIVERY_END_MEMO: DeliveryEnd(outcome="undelivered", message=message)})
        count_delivery(request.event.type.value, "undelivered")
        if not settled.is_gone or request.listener.is_own:
            return
        subscriptions = workflow.get_external_workflow_handle(subscriptions_id(request.caller_id))
        try:
            await subscriptions.signal(DISABLE_SIGNAL, DisableInput(webhook_id=request.listener.id, reason=_GONE_WORDS))
        except ApplicationError as failed:
            workflow.logger.warning("The subscriptions of %s did not take a signal: %s", request.caller_id, failed)


_REMOVED = "The webhook was removed."
_NO_TIME = "Its time was over."
_GONE_WORDS = "Its receiver answered 410: it wants no more events."


def _undelivered(error: ActivityError) -> Settled:
    is_gone = isinstance(error.cause, ApplicationError) and error.cause.type == GONE
    return Settled(outcome="undelivered", message=_reason(error), is_gone=is_gone)


def _reason(error: ActivityError) -> str:
    if isinstance(error.cause, ApplicationError):
        return error.cause.message
    return _NO_TIME
