"""The error with which a stuck workflow was ended: it is in the last event of its history."""

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHistoryEventFilterType

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.worker.payloads.external_storage import UNREADABLE


async def error_of_stuck(client: Client, execution: WorkflowExecution) -> ErrorEnvelope | None:
    """Why a workflow was ended that was stuck; None for any other. Raises `RPCError`."""
    if execution.status is not WorkflowExecutionStatus.TERMINATED:
        return None
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    close = WorkflowHistoryEventFilterType.CLOSE_EVENT
    async for event in handle.fetch_history_events(event_filter_type=close):
        details = event.workflow_execution_terminated_event_attributes.details.payloads
        try:
            return error_of_end(await client.data_converter.decode(details))
        except UNREADABLE:
            return None
    return None


def was_cancelled(error: ErrorEnvelope) -> bool:
    """Whether it was ended after a cancellation that it could not carry out."""
    return error.category is ErrorCategory.CANCELLED
