"""Time that passes: ended workflows are removed, and expired outputs are swept."""

import os
from datetime import timedelta
from pathlib import Path

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import SweepInput
from outlast.activities.outputs.output_format import manifest_text, parse_manifest
from outlast.activities.outputs.sweep import OutputSweepActivities, TemporalTasks
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


async def hours_pass(outputs: Path, client: Client, hours: float) -> None:
    """Make everything in the folder older by so much, as it is after that time, and sweep it as a worker would."""
    _age(outputs, timedelta(hours=hours))
    await _sweep(OutputObjects.open(str(outputs)), client)


def _age(outputs: Path, passed: timedelta) -> None:
    for path in (outputs / "manifests").rglob("*.json"):
        manifest = parse_manifest(path.read_bytes())
        times = {"created_at": manifest.created_at - passed, "expires_at": manifest.expires_at - passed}
        path.write_bytes(manifest_text(manifest.model_copy(update=times)))
    for path in outputs.rglob("*"):
        before = path.stat().st_mtime - passed.total_seconds()
        os.utime(path, (before, before))


async def _sweep(objects: OutputObjects, client: Client) -> None:
    activities = OutputSweepActivities(objects, TemporalTasks(client), grace=timedelta(hours=1))
    report = await ActivityEnvironment().run(activities.sweep_page, SweepInput())
    while report.cursor is not None:
        report = await ActivityEnvironment().run(activities.sweep_page, SweepInput(cursor=report.cursor))
