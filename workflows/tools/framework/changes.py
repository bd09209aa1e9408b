"""Changes of a tool while a call of it is open: what the call recorded of its tool, and whether the loaded one fits."""

from collections.abc import Collection
from types import MappingProxyType

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.tool_calls import AdmittedTool, ToolKind
from outlast.workflows.tools.framework.tool import Tool

FIRST_VERSION = 1
_WORDS = MappingProxyType(
    {
        ToolKind.FUNCTION: "a function",
        ToolKind.CONTEXT_FUNCTION: "a function with a context",
        ToolKind.HANDLER: "a workflow handler",
        ToolKind.CLIENT_PHASE: "a tool with a client phase",
    }
)
_FUNCTIONS = (ToolKind.FUNCTION, ToolKind.CONTEXT_FUNCTION)


class ToolChanged(Exception):
    """The tool of an open call was removed or changed so that the call cannot continue.

    Raised in a workflow, it makes the current step fail; Temporal repeats the step, until the tool fits again.
    """

    def __init__(self, change: str, *, is_removed: bool = False) -> None:
        super().__init__(waiting_message(change))
        self.change = change
        self.is_removed = is_removed

    def envelope(self, tool: str) -> ErrorEnvelope:
        """Return the error for a call that has not begun."""
        hint = "Call again with the tool as it is now."
        return ErrorEnvelope.permanent(ErrorCategory.CONFLICT, tool, f"{self.change}.", hint=hint)


def waiting_message(change: str) -> str:
    """Return the text for a call that waits because of this change."""
    return f"{change}. The call waits, and continues when the tool fits again; to end it, cancel the task."


def kind_of(tool: Tool) -> ToolKind:
    """Return how a tool runs."""
    if tool.client is not None:
        return ToolKind.CLIENT_PHASE
    if not tool.is_function:
        return ToolKind.HANDLER
    return ToolKind.CONTEXT_FUNCTION if tool.functions[0][1].takes_context else ToolKind.FUNCTION


def version_for(tool: Tool, admitted: AdmittedTool | None) -> Tool | None:
    """Return the version of the tool with which a call was admitted; None if it does not exist.

    Calls that recorded no version were made with the first one, or with the only one.
    """
    versions = {one.version: one for one in (*tool.older_versions, tool)}
    return versions.get(FIRST_VERSION, tool) if admitted is None else versions.get(admitted.version)


def change_of(name: str, admitted: AdmittedTool, tool: Tool | None, modules: Collection[str]) -> str | None:
    """Return the change because of which a call cannot continue, without a full stop; None if the tool fits.

    `tool` is the newest version of the loaded tool with that name; `modules` are the loaded modules.
    """
    module = admitted.module
    if tool is None:
        if module in modules:
            return f"{module} no longer has the tool `{name}`"
        return f"{module}, which had the tool `{name}`, is no longer loaded"
    fitting = version_for(tool, admitted)
    if fitting is None:
        versions = sorted(one.version for one in (*tool.older_versions, tool))
        had = ", ".join(map(str, versions))
        return f"{module} has no version {admitted.version} of the tool `{name}`, only {had}"
    kind = kind_of(fitting)
    if kind is admitted.kind or (kind in _FUNCTIONS and admitted.kind in _FUNCTIONS):
        return None
    return f"The tool `{name}` of {module} was {_WORDS[admitted.kind]} and is now {_WORDS[kind]}"


def fitting(name: str, admitted: AdmittedTool | None, tool: Tool | None, modules: Collection[str]) -> Tool:
    """Return the version of the tool for a call. Raises `ToolChanged`; `LookupError` for an older call without one."""
    change = change_of(name, admitted, tool, modules) if admitted is not None else None
    if change is not None:
        raise ToolChanged(change, is_removed=tool is None)
    if tool is None:
        raise LookupError(name)
    return version_for(tool, admitted) or tool
