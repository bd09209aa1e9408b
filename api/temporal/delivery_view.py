"""Converts Temporal's description of a delivery's workflow to a `Delivery`. Needs no worker."""

from datetime import UTC

from temporalio.client import WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus

from outlast.activities.stuck_tasks.histories import readable
from outlast.activities.webhooks.contracts import (
    DELIVERY_END_MEMO,
    DELIVERY_MEMO,
    DELIVERY_WAIT_MEMO,
    DeliveryEnd,
    DeliverySummary,
    DeliveryWait,
)
from outlast.api.temporal.task_view import memo_model
from outlast.contracts.webhooks import Delivery, DeliveryStatus


async def delivery_from(execution: WorkflowExecution) -> Delivery | None:
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


def _message(execution: WorkflowExecution, end: DeliveryEnd | None, wait: DeliveryWait | None) -> str | None:
    if execution.close_time is None:
        return None if wait is None else wait.message
    return None if end is None else end.message


def _status(execution: WorkflowExecution, end: DeliveryEnd | None) -> DeliveryStatus:
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
