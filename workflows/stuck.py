"""EndStuckWorkflow: ends a task or turn that cannot go on, aborts what it had started, and informs its session.

A worker starts one for each stuck workflow (worker/stuck_tasks.py).
"""

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import (
        ABORT_ATTEMPT_TIMEOUT,
        ABORT_RETRY_POLICY,
        START_HEARTBEAT_TIMEOUT,
        RunActivities,
    )
    from outlast.activities.stuck_tasks.activities import END_ATTEMPT_TIMEOUT, END_RETRY_POLICY, StuckTaskActivities

from outlast.activities.stuck_tasks.contracts import EndStuckInput, StuckEnd
from outlast.workflows.contracts.sessions import TASK_COMPLETED_SIGNAL, session_workflow_id
from outlast.workflows.contracts.tool_calls import TaskCompleted, TaskStatus
from outlast.workflows.stubs.signatures import signature


@workflow.defn
class EndStuckWorkflow:
    """Its result says what was ended. It ends when the platform says that the runs have ended."""

    @workflow.run
    async def run(self, request: EndStuckInput) -> StuckEnd:
        """End the workflow, then abort its runs, for as long as it takes."""
        ended = await workflow.execute_activity_method(
            StuckTaskActivities.end_stuck_task,
            request,
            start_to_close_timeout=END_ATTEMPT_TIMEOUT,
            retry_policy=END_RETRY_POLICY,
            summary=f"end {request.workflow_id}",
        )
        await self._inform_session(request, ended)
        for run in ended.runs:
            await workflow.execute_activity_method(
                RunActivities.abort_run,
                run,
                start_to_close_timeout=ABORT_ATTEMPT_TIMEOUT,
                heartbeat_timeout=START_HEARTBEAT_TIMEOUT,
                retry_policy=ABORT_RETRY_POLICY,
                summary=f"abort {run.run_id or 'whatever was started'}",
            )
        return ended

    async def _inform_session(self, request: EndStuckInput, ended: StuckEnd) -> None:
        """Send the task-completed signal that the task can no longer send itself."""
        if ended.error is None or ended.session_id is None or ended.caller_id is None or not ended.tool:
            return
        event = TaskCompleted(
            task_id=request.workflow_id,
            tool=ended.tool,
            status=TaskStatus.FAILED,
            error_signature=signature(ended.error),
            error=ended.error,
            message=ended.error.message[:200],
        )
        session = workflow.get_external_workflow_handle(session_workflow_id(ended.caller_id, ended.session_id))
        try:
            await session.signal(TASK_COMPLETED_SIGNAL, event)
        except ApplicationError as error:
            workflow.logger.warning("The session of %s did not take the signal: %s", request.workflow_id, error)
