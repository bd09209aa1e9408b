"""MCP over standard input and output: one connection and one caller, served as over HTTP."""

import asyncio
import json
import logging
import os
import select
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import SecretStr, ValidationError

from outlast.activities.json_numbers import number_flaws_in
from outlast.activities.unicode_text import valid_json_text, valid_text
from outlast.api.errors import ApiError
from outlast.api.http.request_body import JsonLimits
from outlast.api.mcp.connections import STDIO
from outlast.api.mcp.posted_message import NOTIFICATIONS
from outlast.api.mcp.server import McpServer
from outlast.api.mcp.widgets import widget_resources
from outlast.api.services import Services, current_servers
from outlast.workflows.tools.framework.selection import Selection

log = logging.getLogger("outlast.mcp")
_MAX_FLAWS = 20
Item = SessionMessage | Exception
"""An item of the SDK's transport: an exception for a line that is not a message, which the SDK ignores."""
_FIRST_REQUEST_SECONDS = 5.0


@dataclass(frozen=True)
class LocalConnection:
    """The only connection of a stdio process: its selection of tools, and the credential of its caller."""

    selection: Selection = field(default_factory=Selection)
    token: SecretStr | None = None


async def serve_stdio(services: Services, local: LocalConnection) -> None:
    """Serve until the client closes standard input. Raises `Unauthenticated` for an invalid credential, before reading.

    A credential that ends later is refused from then on. Nothing else may write to standard output.
    """
    mcp = McpServer(services, selection=local.selection, token=local.token, widgets=widget_resources())
    await mcp.local_sender()
    server, settings = mcp.server, services.settings
    limits = JsonLimits(max_values=settings.max_body_values, max_depth=settings.max_body_depth)

    async def admitted(message: types.JSONRPCMessage) -> bool:
        if isinstance(message, types.JSONRPCRequest):
            return True
        try:
            return mcp.exchanges.admit(STDIO, await mcp.local_sender(), message)
        except ApiError as error:
            log.warning("A message was dropped: %s", error)
            return False

    async with (
        services.policy.watched(on_signal=False),
        current_servers(services),
        stdio_server() as (reading, writing),
    ):
        messages = CheckedMessages(reading, writing, limits, admitted)
        await server.run(messages, writing, server.create_initialization_options())


async def refuse_stdio(reason: str) -> None:
    """Answer the client's first request with a JSON-RPC error, so that the client can show the reason.

    Waits at most 5 seconds for that request; does nothing on a terminal.
    """
    if sys.stdin.isatty():
        return
    request_id = _request_id_in(await asyncio.to_thread(_first_message))
    if request_id is None:
        return
    error = {"code": types.INTERNAL_ERROR, "message": reason}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}) + "\n")
    sys.stdout.flush()


class _Reading(Protocol):
    async def receive(self) -> Item: ...
    async def __anext__(self) -> Item: ...
    async def aclose(self) -> None: ...


class _Writing(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...


class CheckedMessages:
    """A stream of messages with the methods that the SDK's server needs."""

    def __init__(
        self,
        reading: _Reading,
        writing: _Writing,
        limits: JsonLimits,
        admitted: Callable[[types.JSONRPCMessage], Awaitable[bool]],
    ) -> None:
        """Yield messages of `reading` that are within `limits` and `admitted`.

        Those beyond a limit are answered on `writing`; those that are not admitted are dropped.
        """
        self._admitted = admitted
        self._reading = reading
        self._writing = writing
        self._limits = limits

    async def receive(self) -> Item:
        """Return the next message. Raises at the end what `reading` raises."""
        return await self._next(self._reading.receive)

    async def aclose(self) -> None:
        """Close `reading`."""
        await self._reading.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        return await self._next(self._reading.__anext__)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        await self.aclose()

    async def _next(self, read: Callable[[], Awaitable[Item]]) -> Item:
        while not await self._is_accepted(item := _with_valid_text(await read())):
            pass
        return item

    async def _is_accepted(self, item: Item) -> bool:
        error = self._error_in(item)
        if error is None:
            return isinstance(item, SessionMessage) and await self._admitted(item.message)
        log.warning("A message was refused: %s", error.error.message)
        await self._writing.send(SessionMessage(error))
        return False

    def _error_in(self, item: Item) -> types.JSONRPCError | None:
        if isinstance(item, Exception):
            return _unreadable(item)
        if isinstance(item.message, types.JSONRPCNotification) and not item.message.method.startswith(NOTIFICATIONS):
            # The SDK takes a request whose id is null, an object or a fraction for a notification.
            return _error(types.INVALID_REQUEST, "A request needs an id that is a string or an integer.", None)
        message = item.message.model_dump()
        excess = self._limits.excess_in(message)
        if excess is None:
            excess = "; ".join(f"{flaw.path}: {flaw.message}" for flaw in number_flaws_in(message)[:_MAX_FLAWS])
        if not excess:
            return None
        request_id = item.message.id if isinstance(item.message, types.JSONRPCRequest) else None
        return _error(types.INVALID_PARAMS, excess, request_id)


def _with_valid_text(item: Item) -> Item:
    """Return the item with valid text: also of a line that could not be read because of half of a character."""
    if isinstance(item, SessionMessage):
        written = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        cleaned = valid_json_text(written)
        if cleaned is written:
            return item
    elif isinstance(item, ValidationError) and isinstance(line := item.errors()[0]["input"], str):
        cleaned = valid_json_text(valid_text(line).encode())
    else:
        return item
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(cleaned, by_name=False))
    except ValidationError:
        return item


def _unreadable(error: Exception) -> types.JSONRPCError:
    """Build the error for an unreadable line. Its id is null, as it is unknown (JSON-RPC 2.0, section 5)."""
    if isinstance(error, ValidationError) and all(found["type"] != "json_invalid" for found in error.errors()):
        return _error(types.INVALID_REQUEST, "The line is JSON, but not a message of JSON-RPC 2.0.", None)
    return _error(types.PARSE_ERROR, "The line is not JSON, or is nested too deeply.", None)


def _error(code: int, message: str, request_id: str | int | None) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))


def _first_message() -> bytes:
    """Read until the first line is complete, or the time is up."""
    message = b""
    descriptor = sys.stdin.fileno()
    while b"\n" not in message and select.select([descriptor], [], [], _FIRST_REQUEST_SECONDS)[0]:
        piece = os.read(descriptor, 65_536)
        if not piece:
            break
        message += piece
    return message


def _request_id_in(message: bytes) -> str | int | None:
    try:
        request: Any = json.loads(message.partition(b"\n")[0])
        request_id = request["id"]
    except (ValueError, TypeError, KeyError):
        return None
    return request_id if isinstance(request_id, str | int) else None
