"""Telling webhooks of events, in workflow code: each subscribed webhook gets its own delivery.

Where nobody listens, nothing is asked of Temporal, so that calls without webhooks cost what they did before.
"""

import asyncio

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.contracts import JsonObject
from outlast.activities.webhooks import contracts as webhooks
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import TaskStatus, ToolCall

TASK_ENDS = {
    TaskStatus.COMPLETED: webhooks.WebhookEventType.TASK_COMPLETED,
    TaskStatus.FAILED: webhooks.WebhookEventType.TASK_FAILED,
    TaskStatus.CANCELLED: webhooks.WebhookEventType.TASK_CANCELLED,
}


def subject_of(call: ToolCall) -> webhooks.EventSubject:
    """The task that runs, as events tell of it."""
    info = workflow.info()
    actor = info.typed_search_attributes.get(search_attributes.ACTOR)
    return webhooks.EventSubject(
        task_id=info.workflow_id, tool=call.tool, actor=actor, session_id=call.session_id, batch_id=call.batch_id
    )


async def announce(
    listeners: tuple[webhooks.WebhookListener, ...],
    event_type: webhooks.WebhookEventType,
    data: JsonObject,
    *,
    caller_id: str,
    number: int = 0,
    awaits_end: bool = False,
    about: tuple[str, str] | None = None,
) -> None:
    """Have those of `listeners` that hear of such events told, by workflows that outlive this one.

    `number` distinguishes events of one type. With `awaits_end`, nobody is told before this workflow has ended.
    `about` is the ID and the first run of the workflow whose event it is, if not this one's.
    """
    hearing = webhooks.listening(listeners, event_type)
    if not hearing:
        return
    info = workflow.info()
    subject, first_run_id = about or (info.workflow_id, info.first_execution_run_id)
    event = webhooks.WebhookEvent(
        id=webhooks.event_id(event_type, subject, first_run_id, number),
        type=event_type,
        timestamp=workflow.now(),
        subject=subject,
        data=data,
    )
    orders = [
        webhooks.DeliveryInput(caller_id=caller_id, listener=listener, event=event, awaits_end=awaits_end)
        for listener in hearing
    ]
    await asyncio.gather(*map(_start, orders))


async def _start(order: webhooks.DeliveryInput) -> None:
    """Start one delivery. It is nobody's business here how it ends."""
    try:
        started = await workflow.start_child_workflow(
            webhooks.DELIVERY_WORKFLOW,
            order,
            id=order.workflow_id,
            task_queue=TOOLS_TASK_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            memo={webhooks.DELIVERY_MEMO: order.summary},
            search_attributes=search_attributes.of_delivery(order.caller_id),
            static_summary=f"{order.event.type.value} for {order.listener.id}",
        )
    except WorkflowAlreadyStartedError:
        return  # It was told before.
    started.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
