"""Tools that an entry point answers locally, without a workflow: those that manage tasks, batches and schedules."""

from collections.abc import Mapping
from dataclasses import replace

from outlast.activities.json_schema.coercion import coerced
from outlast.api.access.policy.contracts import Scope
from outlast.api.batches.tools import BATCH_TOOL_SCOPES, BatchTools
from outlast.api.errors import ApiError, tool_error
from outlast.api.local_calls import LocalCall
from outlast.api.schedules.tools import SCHEDULE_TOOL_SCOPES, ScheduleTools
from outlast.api.services import Services
from outlast.api.tasks.tools import TASK_TOOL_SCOPES, TaskTools
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.framework.results import with_changes

LOCAL_TOOL_SCOPES: Mapping[str, tuple[Scope, ...]] = {**TASK_TOOL_SCOPES, **BATCH_TOOL_SCOPES, **SCHEDULE_TOOL_SCOPES}
"""For each tool, the scopes of which a key needs one."""


class LocalTools:
    """Runs the tools that manage tasks, batches and schedules. A caller sees only its own."""

    def __init__(self, services: Services) -> None:
        self._tasks = services.tasks
        self._handlers = {
            **TaskTools(services.tasks).handlers,
            **BatchTools(services.batches, services.stored_rows, services.outputs).handlers,
            **ScheduleTools(services.schedules).handlers,
        }

    async def call(self, call: LocalCall) -> ToolResult:
        """Run the tool. Errors are results, too."""
        read = coerced(call.definition.input_schema, dict(call.arguments))
        return with_changes(await self._answer(replace(call, arguments=read.arguments)), read.changes)

    async def _answer(self, call: LocalCall) -> ToolResult:
        definition = call.definition
        try:
            call.principal.require(*LOCAL_TOOL_SCOPES[definition.name])
            self._tasks.check_front_door_tool(call.principal.caller, definition)
            return await self._handlers[definition.name](call, definition.parse(call.arguments))
        except ToolError as error:
            return ToolResult.failed(error.envelope)
        except ApiError as error:
            return ToolResult.failed(tool_error(error, definition.name))
