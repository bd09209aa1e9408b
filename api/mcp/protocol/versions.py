"""The two protocol versions, 2025-11-25 (`legacy`: handshake, sessions) and 2026-07-28 (`modern`), and their errors.

`legacy` and `modern` are terms of the MCP SDK; the latter is stateless.
"""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request

from outlast.api.errors import ApiError, InvalidCall, StorageFull
from outlast.workflows.tools.framework.selection import ClientFacts

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
UI_EXTENSION = "io.modelcontextprotocol/ui"
APP_MIME_TYPE = "text/html;profile=mcp-app"
SESSION_HEADER = "mcp-session-id"

Context = ServerRequestContext[Any, Any]

_MAX_NAME_CHARS = 200
"""More than any client is called: the name is kept with its connection, and a stranger chooses it."""
_CAPABILITY_OF = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


def is_modern(ctx: Context) -> bool:
    """Check for 2026-07-28 or later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def require_modern(ctx: Context) -> None:
    """Raise -32601 for a method that only 2026-07-28 has."""
    if not is_modern(ctx):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", data=ctx.method)


def require_legacy(ctx: Context) -> None:
    """Raise -32601 for a method that only 2025-11-25 has."""
    if is_modern(ctx):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", data=ctx.method)


def client_extensions(ctx: Context) -> Mapping[str, Any]:
    """Return the extensions that the client of this request declares."""
    capabilities = ctx.session.client_capabilities
    return (capabilities.extensions if capabilities else None) or {}


def client_facts(ctx: Context) -> ClientFacts:
    """Return the client's own description."""
    params = ctx.session.client_params
    apps: object = client_extensions(ctx).get(UI_EXTENSION)
    types = cast(Mapping[str, Any], apps).get("mimeTypes") if isinstance(apps, Mapping) else None
    return ClientFacts(
        name=params.client_info.name[:_MAX_NAME_CHARS] if params else "",
        is_modern=is_modern(ctx),
        # Some clients write one type where a list belongs.
        shows_apps=APP_MIME_TYPE in types if isinstance(types, list) else types == APP_MIME_TYPE,
    )


def supports_tasks(ctx: Context) -> bool:
    """Check whether the client accepts a task as the result of `tools/call` (2026-07-28, tasks extension)."""
    return is_modern(ctx) and TASKS_EXTENSION in client_extensions(ctx)


def require_tasks(ctx: Context) -> None:
    """Raise -32021 for a 2026-07-28 client that does not declare the tasks extension (SEP-2663)."""
    if is_modern(ctx) and not supports_tasks(ctx):
        raise missing_capabilities({"extensions": {TASKS_EXTENSION: {}}})


def has_capability(ctx: Context, capability: str) -> bool:
    """Check whether the client declares `capability`: `elicitation`, `sampling` or `roots`."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and getattr(capabilities, capability, None) is not None


def supports_question(ctx: Context, method: str) -> bool:
    """Check whether the client declares the capability for questions of this method."""
    return has_capability(ctx, _CAPABILITY_OF[method])


def missing_capabilities(capabilities: Mapping[str, Any]) -> MCPError:
    """Return the error for a client without these capabilities (2026-07-28, -32021)."""
    names = ", ".join([*(cast(Mapping[str, Any], capabilities.get("extensions", {}))), *capabilities])
    return MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"This needs a client that declares: {names.removesuffix(', extensions')}.",
        data={"requiredCapabilities": dict(capabilities)},
    )


def session_of(request: Request) -> str | None:
    """Return the session of an HTTP request; None in 2026-07-28, regardless of headers."""
    return request.headers.get(SESSION_HEADER) if is_handshake_era(request) else None


def is_handshake_era(request: Request) -> bool:
    """Check for a revision with a handshake, such as 2025-11-25; the SDK decides by the header alone."""
    version = request.headers.get("mcp-protocol-version")
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


log = logging.getLogger("outlast.mcp")
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


async def hide_defects(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware. The SDK answers a client of 2025-11-25 with the text of the exception, which may hold anything."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        log.exception("The MCP request %r has failed.", ctx.method)
        raise MCPError(INTERNAL_ERROR, "The server failed unexpectedly; its log has the details.") from error
