"""MCP over standard input and output: one connection and one caller, served as over HTTP."""

import asyncio
import json
import logging
import os
import select
import sys
from dataclasses import dataclass, field
from typing import Any

from mcp.server.stdio import stdio_server
from mcp_types import INTERNAL_ERROR, JSONRPCMessage, JSONRPCRequest
from pydantic import SecretStr

from outlast.api.errors import ApiError
from outlast.api.http.json_limits import JsonLimits
from outlast.api.mcp.open_exchanges import STDIO
from outlast.api.mcp.protocol.checked_messages import CheckedMessages
from outlast.api.mcp.server import McpServer
from outlast.api.mcp.widgets import widget_resources
from outlast.api.services import Services
from outlast.workflows.tools.framework.selection import Selection

log = logging.getLogger("outlast.mcp")

_FIRST_REQUEST_SECONDS = 5.0


@dataclass(frozen=True)
class LocalConnection:
    """The only connection of a stdio process: its selection of tools, and the credential of its caller."""

    selection: Selection = field(default_factory=Selection)
    token: SecretStr | None = None


async def serve_stdio(services: Services, local: LocalConnection) -> None:
    """Serve until the client closes standard input. Raises `Unauthenticated` for an invalid credential, before reading.

    A credential that ends or is revoked while it serves is refused from then on. Nothing else may write to standard
    output meanwhile.
    """
    mcp = McpServer(services, selection=local.selection, token=local.token, widgets=widget_resources())
    await mcp.local_sender()
    server, settings = mcp.server, services.settings
    limits = JsonLimits(max_values=settings.max_body_values, max_depth=settings.max_body_depth)

    async def admitted(message: JSONRPCMessage) -> bool:
        if isinstance(message, JSONRPCRequest):
            return True
        try:
            return mcp.exchanges.admit(STDIO, await mcp.local_sender(), message)
        except ApiError as error:
            log.warning("A message was dropped: %s", error)
            return False

    async with services.policy.watched(on_signal=False), stdio_server() as (reading, writing):
        messages = CheckedMessages(reading, writing, limits, admitted)
        await server.run(messages, writing, server.create_initialization_options())


async def refuse_stdio(reason: str) -> None:
    """Answer the client's first request with a JSON-RPC error, so that the client can show why there is no server.

    Waits for that request for at most 5 seconds; on a terminal it does nothing.
    """
    if sys.stdin.isatty():
        return
    request_id = _request_id_in(await asyncio.to_thread(_first_message))
    if request_id is None:
        return
    error = {"code": INTERNAL_ERROR, "message": reason}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}) + "\n")
    sys.stdout.flush()


def _first_message() -> bytes:
    """What the client has sent when its first line is complete, or when the time is up."""
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
