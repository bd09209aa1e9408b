"""Errors of the API as JSON-RPC errors."""

from collections.abc import Awaitable
from typing import Any, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from outlast.api.errors import ApiError, InvalidCall, StorageFull

Value = TypeVar("Value")


async def with_mcp_errors(awaited: Awaitable[Value], *, except_for: type[ApiError] | None = None) -> Value:
    """The value of `awaited`. Raises an `MCPError` for each `ApiError`; errors of type `except_for` pass unchanged."""
    try:
        return await awaited
    except ApiError as error:
        if except_for is not None and isinstance(error, except_for):
            raise
        raise as_mcp_error(error) from error


def as_mcp_error(error: ApiError) -> MCPError:
    """`error` in the form of JSON-RPC."""
    is_ours = error.status >= 500 and not isinstance(error, StorageFull)
    code = INTERNAL_ERROR if is_ours else INVALID_PARAMS
    data: dict[str, Any] = {"type": error.slug}
    if isinstance(error, InvalidCall):
        data["error"] = error.envelope.model_dump(mode="json", exclude_none=True)
    return MCPError(code, str(error), data=data)
