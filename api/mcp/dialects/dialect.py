"""`Dialect`: differences in MCP between the clients of modes. This class is the default.

It determines the form of a call; its effect is the same in every mode.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND
from pydantic import JsonValue

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.api.catalog.portable_schemas import PortableTool, repaired
from outlast.api.errors import InvalidCall
from outlast.api.mcp.protocol.request_meta import ProgressFacts, ProgressNote
from outlast.api.mcp.resource_definitions import PlatformAddress, Resource
from outlast.api.tasks.task_text import still_working
from outlast.contracts.tasks import Task
from outlast.suggestions import suggested
from outlast.workflows.contracts.tool_calls import TaskStatus, ToolResult
from outlast.workflows.tools.framework.tool import TaskUse, Tool
from outlast.workflows.tools.registry import ToolSet

LEGACY_NOT_FOUND = -32002
"""MCP 2025-11-25, resources, error handling; 2026-07-28 uses -32602."""


class Dialect:
    """MCP as documented. A mode's own dialect overrides its differences."""

    state_tool: str | None = None
    """The tool that describes a run, when a call that outlasts its wait is answered by that; it takes `runId`."""

    addresses: tuple[PlatformAddress, ...] = ()
    """Addresses of the platform's API that are resources."""

    resources: tuple[Resource, ...] = ()
    """Resources of the mode: pages that its clients show, guides."""

    signs_links: bool = False
    """True to sign links to large records: anyone who has such a link can read the record."""

    def unknown_resource(self, uri: str, *, is_modern: bool) -> MCPError:
        """Return the error for a URI that does not exist or belongs to another caller: the two look the same."""
        code = INVALID_PARAMS if is_modern else LEGACY_NOT_FOUND
        return MCPError(code, f"There is no resource {uri}.", data={"uri": uri})

    def absent_page(self, uri: str) -> str | None:
        """Return the text at the address of a page that does not exist, where clients show pages; None: an error."""
        del uri
        return None

    def unknown_prompt(self, name: str, known: Sequence[str]) -> MCPError:
        """Return the error for a prompt that does not exist; `known` are those that do."""
        return MCPError(INVALID_PARAMS, f"There is no prompt {name!r}. Available prompts: {suggested(known, name)}.")

    def tool_name(self, called: str) -> str:
        """Return the name of the tool that a client means; other names are as they were written."""
        return called

    def shown(self, definition: Tool) -> PortableTool | None:
        """The tool in the form in which it is listed, if that is not its own: clients hand schemas on to providers."""
        return repaired(definition)

    def task_support(self, definition: Tool) -> str | None:
        """Return `optional` or `required` if clients of 2025-11-25 may call the tool as a task, else None."""
        if definition.in_front:
            return None
        return "required" if definition.task_use is TaskUse.REQUIRED else "optional"

    def no_task(self, definition: Tool) -> MCPError:
        """Return the error for a tool that was called as a task and cannot be."""
        return MCPError(METHOD_NOT_FOUND, f"{definition.name} manages tasks and cannot be called as one.")

    def arguments(self, definition: Tool, schema: JsonObject, given: dict[str, Any] | None) -> dict[str, JsonValue]:
        """Return the arguments to check and run; `schema` is the listed one. Raises `MCPError`."""
        del definition, schema
        return given or {}

    def unknown_tool(self, name: str, envelope: ErrorEnvelope, data: JsonObject, tools: ToolSet) -> MCPError:
        """Return the error for a tool that the connection does not have; `data` describes it for programs."""
        del name, tools
        text = f"{envelope.message} {envelope.hint}" if envelope.hint else envelope.message
        return MCPError(INVALID_PARAMS, text, data=data)

    def refused(self, definition: Tool, arguments: Mapping[str, JsonValue], error: InvalidCall) -> ToolResult:
        """Return the answer of a call that was not started. Raises `MCPError` where that is a protocol error."""
        del definition, arguments
        return ToolResult.failed(error.envelope)

    def failure(self, result: ToolResult, tool: str, tools: ToolSet) -> ToolResult:
        """Return a tool error as it is sent; `tools` are those of the connection."""
        del tool, tools
        return result

    def refused_task(self, definition: Tool, error: InvalidCall) -> MCPError:
        """Return the error of a call that was to become a task and was not started (2025-11-25)."""
        del definition
        return MCPError(INVALID_PARAMS, str(error), data=error.envelope.model_dump(mode="json"))

    def adapted_error(self, error: MCPError, *, is_modern: bool) -> MCPError:
        """Return a protocol error as it is sent."""
        del is_modern
        return error

    def adapted_task_error(self, error: MCPError, task_id: str, *, is_modern: bool) -> MCPError:
        """Return a protocol error of a method of tasks as it is sent."""
        del task_id, is_modern
        return error

    def not_cancelled(self, task: Task) -> MCPError:
        """Return the error for cancelling a task that has ended, or is being cancelled (2025-11-25)."""
        status = TaskStatus.CANCELLED if task.is_cancelling else task.status
        return MCPError(INVALID_PARAMS, f"Cannot cancel task {task.id}: it is already {status}.")

    def progress(self, facts: ProgressFacts) -> ProgressNote | None:
        """Return the progress note for an event of a call, if any."""
        if facts.event == "run_started":
            return ProgressNote(f"Run {facts.data.get('run_id')} has started")
        if facts.event == "run_resurrected":
            return ProgressNote(f"Run {facts.data.get('run_id')} was interrupted, and continues")
        if facts.event != "status_message":
            return None
        done, total = facts.data.get("done"), facts.data.get("total")
        return ProgressNote(str(facts.data.get("status_message")), done=_number(done), total=_number(total))

    def task_status(self, task: Task) -> str:
        """The status of a task for clients of 2025-11-25: by default, one whose answer is an error has failed."""
        return task.status

    def status_message(self, task: Task) -> str | None:
        """Return a status message for MCP tasks; empty for no message, None for the default message."""
        del task
        return None

    def still_working(self, definition: Tool, task: Task) -> ToolResult:
        """Return the answer of a call that outlasts its wait, where `state_tool` does not give it."""
        return still_working(task, run_report=definition.calls_actor)

    def state_tool_of(self, definition: Tool) -> str | None:
        """`state_tool`, where it is another one for calls of some tools."""
        del definition
        return self.state_tool

    def state_arguments(self, run_id: str) -> dict[str, JsonValue]:
        """Return the arguments of `state_tool` for a run."""
        return {"runId": run_id}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
