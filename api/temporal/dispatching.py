"""Starts the dispatchers of queued tasks, and signals them when there is something to release."""

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy

from outlast.activities.dispatch.contracts import LOOK_SIGNAL, DispatchInput, dispatch_workflow_id
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.dispatch import DispatchWorkflow


async def signal_dispatcher(client: Client, request: DispatchInput) -> None:
    """Have the caller's dispatcher look for queued tasks; it is started if it does not run. Raises `RPCError`."""
    await client.start_workflow(
        DispatchWorkflow.run,
        request,
        id=dispatch_workflow_id(request.caller_id),
        task_queue=TOOLS_TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=search_attributes.of_dispatcher(request.caller_id),
        static_summary=f"dispatcher of {request.caller_id}",
        start_signal=LOOK_SIGNAL,
        start_signal_args=[request],
    )
