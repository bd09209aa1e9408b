"""Workflow that records how a person resolved a task whose outcome was unknown.

The record is in its memo, so that it is readable without a worker. One per task: its id is the task's, so the first
resolution holds.
"""

from temporalio import workflow

from outlast.workflows.contracts.tool_calls import TaskResolution


@workflow.defn
class TaskResolutionWorkflow:
    """Ends at once."""

    @workflow.run
    async def run(self, _resolution: TaskResolution) -> None:
        """Keep the record for as long as Temporal keeps ended workflows."""
