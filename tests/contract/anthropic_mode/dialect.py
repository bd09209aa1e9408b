"""How MCP is spoken in the throw-away mode."""

from collections.abc import Mapping

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import JsonValue

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.api.errors import InvalidCall
from outlast.api.mcp.dialects.dialect import Dialect
from outlast.api.mcp.protocol.request_meta import ProgressFacts, ProgressNote
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.framework.tool import Category, Tool
from outlast.workflows.tools.registry import ToolSet


class ArtifactDialect(Dialect):
    """Tools may be called `artifact.NAME`; what is said of a call is said of an artifact."""

    state_tool = "get-actor-run"

    def tool_name(self, called: str) -> str:
        return called.removeprefix("artifact.")

    def task_support(self, definition: Tool) -> str | None:
        return None if definition.category is Category.RUNS else "optional"

    def unknown_tool(self, name: str, envelope: ErrorEnvelope, data: JsonObject, tools: ToolSet) -> MCPError:
        del envelope, tools
        return MCPError(INVALID_PARAMS, f"No artifact is made by {name!r}.", data=data)

    def refused(self, definition: Tool, arguments: Mapping[str, JsonValue], error: InvalidCall) -> ToolResult:
        del arguments
        text = TextContent(text=f"No artifact of {definition.name}.")
        return ToolResult(content=(text,), is_error=True, error=error.envelope)

    def progress(self, facts: ProgressFacts) -> ProgressNote | None:
        return ProgressNote(f"artifact: {facts.event}", meta={"artifact": facts.run_id}) if facts.run_id else None

    def status_message(self, task: Task) -> str | None:
        return f"artifact {task.status}"
