"""What Temporal does when the namespace's retention is over, now: it removes workflows that have ended."""

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.workflows.contracts.search_attributes import SESSION
from tests.support.eventually import eventually


async def removed(temporal: Client, workflow_id: str, run_id: str = "") -> None:
    """Remove an ended workflow, and return when it is gone."""
    execution = WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
    request = DeleteWorkflowExecutionRequest(namespace=temporal.namespace, workflow_execution=execution)
    await temporal.workflow_service.delete_workflow_execution(request)

    async def is_gone() -> bool:
        try:
            await temporal.get_workflow_handle(workflow_id, run_id=run_id or None).describe()
        except RPCError as error:
            return error.status is RPCStatusCode.NOT_FOUND
        return False

    await eventually(is_gone)


async def all_ended_removed(temporal: Client, session: str, count: int) -> None:
    """Remove the `count` turns and tasks of a session that have ended. They are awaited: visibility lags behind."""
    query = f'{SESSION.name} = "{session}" AND ExecutionStatus != "Running"'

    async def are_listed() -> list[tuple[str, str]]:
        found = [(one.id, one.run_id) async for one in temporal.list_workflows(query)]
        return found if len(found) == count else []

    ended: list[tuple[str, str]] = await eventually(are_listed)
    for workflow_id, run_id in ended:
        await removed(temporal, workflow_id, run_id)
