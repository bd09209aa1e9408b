"""How a call of an Actor that is an MCP server fails."""

from outlast.activities.failures.classify import RETRYABLE, ToolFailure, redact
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.mcp_actors.contracts import NOT_CALLED, NOT_CONNECTED, CallMcpToolInput


def mcp_failure(category: ErrorCategory, message: str, hint: str | None = None) -> ToolFailure:
    """A failure of this category, retryable as the category is, without secrets in its message."""
    return ToolFailure.of(category, redact(message), hint, retryable=category in RETRYABLE)


def not_connected(error: ToolFailure, request: CallMcpToolInput) -> ToolFailure:
    """The failure of a call whose server was not reached."""
    return _with_message(error, f"{NOT_CONNECTED} {request.actor}: {error.envelope.message}")


def not_called(error: ToolFailure, request: CallMcpToolInput) -> ToolFailure:
    """The failure of a call that was sent. Where trying again could help, nobody does: it may have done its work."""
    where = f"{NOT_CALLED} '{request.tool}' on Actor '{request.actor}'"
    if not error.envelope.retryable:
        return _with_message(error, f"{where}: {error.envelope.message}")
    lost = _with_message(error, f"{where}: its result was lost: {error.envelope.message}")
    hint = "The tool may have done its work. Check what it has changed before you call it again."
    return ToolFailure(lost.envelope.model_copy(update={"retryable": False, "hint": hint}))


def _with_message(error: ToolFailure, message: str) -> ToolFailure:
    return ToolFailure(error.envelope.model_copy(update={"message": message}))
