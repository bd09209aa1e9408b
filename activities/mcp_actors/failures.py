"""How a call of an Actor that is an MCP server fails."""

from outlast.activities.failures.classify import RETRYABLE, ToolFailure, redact
from outlast.activities.failures.contracts import ErrorCategory


def mcp_failure(category: ErrorCategory, message: str, hint: str | None = None) -> ToolFailure:
    """A failure of this category, retryable as the category is, without secrets in its message."""
    return ToolFailure.of(category, redact(message), hint, retryable=category in RETRYABLE)
