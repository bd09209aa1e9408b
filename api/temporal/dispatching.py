"""Dispatchers of queued tasks: started, and told that there is something to release."""

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy

from outlast.activities.dispatch.contracts import LOOK_SIGNAL, DispatchOrder, dispatch_workflow_id
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.dispatch import DispatchWorkflow


async def tell_dispatcher(client: Client, order: DispatchOrder) -> None:
    """Have the caller's dispatcher look for queued tasks; it is started if it does not run. Raises `RPCError`."""
    await client.start_workflow(
        DispatchWorkflow.run,
        order,
        id=dispatch_workflow_id(order.caller_id),
        task_queue=TOOLS_TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=search_attributes.of_dispatcher(order.caller_id),
        static_summary=f"dispatcher of {order.caller_id}",
        start_signal=LOOK_SIGNAL,
        start_signal_args=[order],
    )
