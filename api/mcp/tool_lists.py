"""`tools/list`: entries of tools and the serialised list, each built once per offer and shared by connections."""

import json
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cachetools import LRUCache
from mcp.server.context import CallNext, HandlerResult
from mcp_types.methods import validate_client_request
from starlette.datastructures import MutableHeaders
from starlette.types import Message, Scope, Send

from outlast.api.catalog.catalog import log_listing
from outlast.api.catalog.discovery import listed
from outlast.api.catalog.mcp_results import visible_meta
from outlast.api.mcp.connections import Connections, http_request
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol.versions import Context, with_mcp_errors
from outlast.api.tasks.arguments import waits, with_wait_argument
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import MODES, ToolSet

METHOD = "tools/list"
_MAX_OFFERS = 32
"""A list of all tools takes one megabyte, as objects and as text."""
_SLOT_STATE = "outlast_tool_list"
_PLACEHOLDER = {"outlast-tool-list": secrets.token_hex(16)}
"""Placeholder of the list in an answer. Nobody else can write it, as the token is never sent."""
_PLACEHOLDER_TEXT = json.dumps(_PLACEHOLDER, separators=(",", ":")).encode()
_Key = tuple[str, str, tuple[int, ...]]
"""Protocol version, mode, and the identities of the definitions: equal ones are mostly one object."""


class ToolLists:
    """Innermost middleware of the MCP server: answers `tools/list` without building and validating the list again.

    The SDK also lists the tools for each `tools/call` of 2026-07-28, to find headers that repeat arguments.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._lists: LRUCache[_Key, _List] = LRUCache(_MAX_OFFERS)

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve one message."""
        if ctx.method != METHOD:
            return await call_next(ctx)
        client = await self._connections.client(ctx)
        tools = listed(await with_mcp_errors(self._connections.tools(client)))
        log_listing(tools, client.connection.selection.selectors, caller=client.caller.id)
        key = (ctx.protocol_version, tools.mode, tuple(map(id, tools.tools.values())))
        known = self._lists.get(key)
        if known is None:
            result = await call_next(ctx)
            if isinstance(result, dict):
                self._lists[key] = _List(tools, result, json.dumps(result, separators=(",", ":")).encode())
            return result
        # What the SDK checks before it calls a handler. It raises what the SDK answers -32602 for.
        validate_client_request(METHOD, ctx.protocol_version, ctx.params)
        request = http_request(ctx)
        slot: _Slot | None = request.scope.get(_SLOT_STATE) if request is not None else None
        if slot is None:
            return dict(known.result)
        slot.text = known.text
        return dict(_PLACEHOLDER)


def with_tool_list(scope: Scope, send: Send) -> Send:
    """Wrap `send` to insert the text of a known list into the answer, so that the SDK need not serialise it."""
    slot = scope[_SLOT_STATE] = _Slot()
    held: Message | None = None

    async def inserting(message: Message) -> None:
        nonlocal held
        if slot.text is None:
            await send(message)
        elif message["type"] == "http.response.start" and "content-length" in MutableHeaders(scope=message):
            held = message
        else:
            body: bytes = message.get("body", b"")
            message = {**message, "body": body.replace(_PLACEHOLDER_TEXT, slot.text, 1)}
            if held is not None:
                # An answer with a length comes in one piece.
                MutableHeaders(scope=held)["content-length"] = str(len(message["body"]))
                await send(held)
                held = None
            await send(message)

    return inserting


def tool_entries(tools: ToolSet, *, legacy: bool, max_wait_seconds: int) -> list[dict[str, Any]]:
    """`ListToolsResult.tools`."""
    return [_tool_entry(definition, tools.mode, legacy, max_wait_seconds) for definition in tools.tools.values()]


def own_schema(definition: Tool, mode: str, max_wait_seconds: int) -> dict[str, Any]:
    """Return the input schema of a tool under its own names, with the argument for the wait."""
    return _with_wait(json.loads(definition.input_schema_json), definition, mode, max_wait_seconds)


def _with_wait(schema: dict[str, Any], definition: Tool, mode: str, max_wait_seconds: int) -> dict[str, Any]:
    return with_wait_argument(schema, max_wait_seconds, MODES[mode].wait) if waits(definition, mode) else schema


@lru_cache(maxsize=4_096)
def _tool_entry(definition: Tool, mode: str, legacy: bool, max_wait_seconds: int) -> dict[str, Any]:
    hints = definition.annotations
    shown = dialect_of(mode).shown(definition)
    if shown is not None and not legacy and shown.stays_whole:
        shown = None
    schema = own_schema(definition, mode, max_wait_seconds)
    entry: dict[str, Any] = {
        "name": definition.name,
        "title": hints.title,
        "description": definition.description if shown is None else shown.description,
        "inputSchema": schema if shown is None else _with_wait(shown.schema, definition, mode, max_wait_seconds),
        "annotations": hints.as_mcp(),
    }
    if definition.output_schema_json is not None:
        entry["outputSchema"] = json.loads(definition.output_schema_json)
    support = dialect_of(mode).task_support(definition) if legacy else None
    if support is not None:
        entry["execution"] = {"taskSupport": support}
    if definition.icon_url is not None:
        entry["icons"] = [{"src": definition.icon_url, "mimeType": "image/png"}]
    meta = visible_meta(definition.meta, mode=mode)
    if meta:
        entry["_meta"] = meta
    return entry


@dataclass(frozen=True)
class _List:
    tools: ToolSet
    """Keeps the definitions alive, so that no other object gets the identity of one of them."""
    result: dict[str, Any]
    text: bytes
    """The same as JSON in ASCII, so that it is one line for every reader of event streams."""


class _Slot:
    """The list that belongs into the answer to one HTTP request."""

    text: bytes | None = None
