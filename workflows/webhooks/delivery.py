"""WebhookDeliveryWorkflow: one event for one webhook. It ends when the event is delivered, or nobody tries any more."""

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
    DELIVERY_END_MEMO,
    DELIVERY_WORKFLOW,
    DISABLE_SIGNAL,
    GONE,
    UNDELIVERED,
    Delivered,
    DeliveryEnd,
    DeliveryInput,
    DisableInput,
    subscriptions_id,
)
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE
from outlast.workflows.metrics import count_delivery


@workflow.defn(name=DELIVERY_WORKFLOW)
class WebhookDeliveryWorkflow:
    """Its id is the delivery's id. It fails when the event was not delivered: that is the list of the undelivered."""

    @workflow.run
    async def run(self, request: DeliveryInput) -> Delivered:
        """Deliver the event, for as long as it takes."""
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
            await self._give_up(request, error)
            raise ApplicationError(_reason(error), type=UNDELIVERED, non_retryable=True) from None
        count_delivery(request.event.type.value, delivered.outcome)
        if delivered.outcome == "dropped":
            workflow.upsert_memo({DELIVERY_END_MEMO: DeliveryEnd(outcome="dropped", message=_REMOVED)})
        return delivered

    async def _give_up(self, request: DeliveryInput, error: ActivityError) -> None:
        """Record why, and switch off a subscription whose receiver wants no more."""
        workflow.upsert_memo({DELIVERY_END_MEMO: DeliveryEnd(outcome="undelivered", message=_reason(error))})
        count_delivery(request.event.type.value, "undelivered")
        if not isinstance(error.cause, ApplicationError) or error.cause.type != GONE or request.listener.is_own:
            return
        subscriptions = workflow.get_external_workflow_handle(subscriptions_id(request.caller_id))
        try:
            await subscriptions.signal(DISABLE_SIGNAL, DisableInput(webhook_id=request.listener.id, reason=_GONE_WORDS))
        except ApplicationError as failed:
            workflow.logger.warning("The subscriptions of %s did not take a signal: %s", request.caller_id, failed)


_REMOVED = "The webhook was removed."
_GONE_WORDS = "Its receiver answered 410: it wants no more events."


def _reason(error: ActivityError) -> str:
    if isinstance(error.cause, ApplicationError):
        return error.cause.message
    return "Its time was over."
