"""Tools that an entry point answers locally, without a workflow: those that manage tasks, batches and schedules."""

from collections.abc import Mapping
from dataclasses import replace

from outlast.activities.json_schema.coercion import coerced
from outlast.api.access.policy.contracts import Scope
from outlast.api.batches.tools import BATCH_TOOL_SCOPES, BatchTools
from outlast.api.local_calls import LocalCall
from outlast.api.schedules.tools import SCHEDULE_TOOL_SCOPES, ScheduleTools
from outlast.api.services import Services
from outlast.api.tasks.tools import TASK_TOOL_SCOPES, TaskTools
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.framework.results import with_changes

LOCAL_TOOL_SCOPES: Mapping[str, tuple[Scope, ...]] = {
    **TASK_TOOL_SCOPES,
    **BATCH_TOOL_SCOPES,
    **SCHEDULE_TOOL_SCOPES,
}
"""For each tool, the scopes of which a key needs one."""


class LocalTools:
    """The tools that manage tasks, those that manage batches, and those that manage schedules."""

    def __init__(self, services: Services) -> None:
        self._tasks = TaskTools(services.tasks)
        self._batches = BatchTools(services.batches, services.stored_rows, services.outputs, services.tasks)
        self._schedules = ScheduleTools(services.schedules, services.tasks)

    async def call(self, call: LocalCall) -> ToolResult:
        """The tool's answer. Errors are answers too."""
        read = coerced(call.definition.input_schema, dict(call.arguments))
        return with_changes(await self._answer(replace(call, arguments=read.arguments)), read.changes)

    async def _answer(self, call: LocalCall) -> ToolResult:
        if call.definition.name in BATCH_TOOL_SCOPES:
            return await self._batches.call(call)
        if call.definition.name in SCHEDULE_TOOL_SCOPES:
            return await self._schedules.call(call)
        return await self._tasks.call(call.principal, call.definition, call.arguments)
