"""Messages of MCP servers, read leniently before the SDK checks them. The SDK refuses a whole result for one part that
breaks its schema. Here each part is checked by itself: valid parts stay unchanged; the rest becomes JSON text, or a
note. Pure but for the transport.
"""

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self, cast, get_args, get_origin

import mcp_types
from mcp.shared.message import SessionMessage
from mcp_types.methods import SERVER_RESULTS
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from outlast.activities.json_schema.faults import without_faults
from outlast.activities.media import repaired_block

NOTES = "outlast/notes"
"""Key of the `_meta` of a list of tools: what was left out of it, in words."""
MAX_NOTES = 20
MAX_TOOLS = 500
"""Of one server: their list is in a history."""
MAX_RESOURCES = 1_000
_MAX_NOTE_CHARS = 300
_REQUIRED = frozenset({"name", "inputSchema"})
_NEEDED_OF_ENTRIES = frozenset({"name", "uri", "uriTemplate", "arguments"})
Object = dict[str, Any]


def _adapters(method: str, field: str, *more: object) -> tuple[TypeAdapter[Any], ...]:
    """The types, of each revision of the protocol, that the SDK checks a field of a method's result with. For a list,
    they are those of its entries.
    """
    found: dict[Any, None] = dict.fromkeys(more)
    for (name, _), surface in SERVER_RESULTS.items():
        for model in cast("tuple[type[BaseModel], ...]", get_args(surface) or (surface,)):
            if name == method and field in model.model_fields:
                kind = model.model_fields[field].annotation
                found[get_args(kind)[0] if get_origin(kind) is list else kind] = None
    return tuple(TypeAdapter(kind) for kind in found)


_BLOCKS = _adapters("tools/call", "content", mcp_types.ContentBlock)
_TOOLS = _adapters("tools/list", "tools", mcp_types.Tool)
_ENTRIES: dict[str, tuple[str, tuple[TypeAdapter[Any], ...]]] = {
    "resources/list": ("resources", _adapters("resources/list", "resources", mcp_types.Resource)),
    "resources/templates/list": (
        "resourceTemplates",
        _adapters("resources/templates/list", "resourceTemplates", mcp_types.ResourceTemplate),
    ),
    "prompts/list": ("prompts", _adapters("prompts/list", "prompts", mcp_types.Prompt)),
}
"""The field of the entries of each list, and their types."""
_METAS = (*_adapters("tools/call", "meta"), *_adapters("tools/list", "meta"))
_OBJECT: Object = {"type": "object", "properties": {}}


def understood_answer(result: Object) -> Object:
    """The result of `tools/call`: content blocks that are valid, others as JSON text, and fields of the right types."""
    given = result.get("content")
    blocks = cast(list[object], given) if isinstance(given, list) else [] if given is None else [given]
    content = [_understood_block(block) for block in blocks]
    structured = result.get("structuredContent")
    fields: Object = {}
    if isinstance(structured, dict):
        fields["structuredContent"] = structured
    elif structured is not None and not any(_says(block, structured) for block in content):
        content.append(_text(structured))
    if meta := _understood_meta(result):
        fields["_meta"] = meta
    kept = {key: value for key, value in result.items() if key not in ("content", "structuredContent", "_meta")}
    kept["resultType"] = "complete"
    return {**kept, "content": content, **fields, "isError": _is_true(result.get("isError"))}


def understood_tools(result: Object) -> Object:
    """Return the result of `tools/list`: the tools that can be used, and notes on the others."""
    given = result.get("tools")
    listed = cast(list[object], given) if isinstance(given, list) else []
    notes = [] if isinstance(given, list) else ["The server's list of tools is not a list."]
    tools: dict[str, Object] = {}
    for number, tool in enumerate(listed[: MAX_TOOLS + 1], start=1):
        usable, flaw = _understood_tool(tool)
        if usable is not None and usable["name"] not in tools:
            tools[usable["name"]] = usable
        else:
            name = cast(Object, tool).get("name") if isinstance(tool, dict) else None
            called = repr(name) if isinstance(name, str) and name else f"number {number}"
            notes.append(f"Tool {called} cannot be used: {flaw or 'another tool has this name.'}"[:_MAX_NOTE_CHARS])
    return _understood_page(result, "tools", list(tools.values()), notes)


def understood_entries(method: str, result: Object) -> Object:
    """Return the result of a list of resources, templates or prompts: valid entries, and notes on the others."""
    field, adapters = _ENTRIES[method]
    given = result.get(field)
    listed = cast(list[object], given) if isinstance(given, list) else []
    entries, notes = list[Object](), list[str]()
    for number, entry in enumerate(listed[: MAX_RESOURCES + 1], start=1):
        usable = cast(Object, entry) if isinstance(entry, dict) else {}
        while (error := _error_of(adapters, usable)) is not None:
            flawed = str(error["loc"][0]) if error["loc"] else ""
            if flawed not in usable or flawed in _NEEDED_OF_ENTRIES:
                flaw = f"{'/'.join(map(str, error['loc']))}: {error['msg']}"
                notes.append(f"Entry {number} of {method} cannot be used: {flaw}"[:_MAX_NOTE_CHARS])
                break
            usable = {key: value for key, value in usable.items() if key != flawed}
        else:
            entries.append(usable)
    return _understood_page(result, field, entries, notes)


def _understood_page(result: Object, field: str, entries: list[Object], notes: list[str]) -> Object:
    kept = {key: value for key, value in result.items() if key not in (field, "nextCursor", "_meta")}
    # Fields that are required since 2026-07-28; sessions of earlier revisions leave them out again.
    age, scope = result.get("ttlMs"), result.get("cacheScope")
    kept["ttlMs"] = age if isinstance(age, int) and not isinstance(age, bool) else 0
    kept["cacheScope"] = scope if scope in ("private", "public") else "private"
    kept["resultType"] = "complete"
    cursor = result.get("nextCursor")
    return {
        **kept,
        field: entries,
        **({"nextCursor": str(cursor)} if cursor not in (None, "") else {}),
        "_meta": {**_understood_meta(result), NOTES: notes[:MAX_NOTES]},
    }


def understood_question(method: str, params: object) -> Object | None:
    """The parameters of a request that a server makes; None if they are as they should be, or of no known kind."""
    given = dict(cast(Object, params)) if isinstance(params, dict) else {}
    if method == "elicitation/create" and given.get("mode", "form") == "form":
        message, schema = given.get("message"), given.get("requestedSchema")
        if not isinstance(message, str):
            given["message"] = "" if message is None else _words(message)
        if not isinstance(schema, dict):
            given["requestedSchema"] = _OBJECT
        else:
            schema = cast(Object, schema)
            properties = schema.get("properties")
            given["requestedSchema"] = {
                **schema,
                "type": "object",
                "properties": properties if isinstance(properties, dict) else {},
            }
    elif method == "sampling/createMessage":
        if not isinstance(given.get("maxTokens"), int):
            given["maxTokens"] = 1_000
    else:
        return None
    return given


def understood_questions(result: Object) -> Object:
    """Return the result of a tool that asks for input (MCP 2026-07-28), with questions that can be passed on."""
    asked = result.get("inputRequests")
    requests: Object = {}
    for key, request in cast(Object, asked).items() if isinstance(asked, dict) else ():
        asks = cast(Object, request) if isinstance(request, dict) else {}
        method = asks.get("method")
        if isinstance(method, str):
            params = understood_question(method, asks.get("params"))
            requests[key] = asks if params is None else {**asks, "params": params}
    state = result.get("requestState")
    fields = {} if state is None else {"requestState": state if isinstance(state, str) else _words(state)}
    kept = {key: value for key, value in result.items() if key != "requestState"}
    return {**kept, **fields, "inputRequests": requests}


def understood(method: str, result: Object) -> Object:
    """Return the result of a request of ours, by its method; the same object if it needs no correction."""
    match method:
        case "tools/call" if result.get("resultType") == "input_required":
            return understood_questions(result)
        case "tools/call" if "content" in result or "structuredContent" in result:
            return understood_answer(result)
        case "tools/list":
            return understood_tools(result)
        case "resources/list" | "resources/templates/list" | "prompts/list":
            return understood_entries(method, result)
        case "initialize":
            return _understood_beginning(result)
        case _:
            return result


@asynccontextmanager
async def lenient(transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    """`transport`, whose messages the SDK's session gets as they are understood here."""
    async with transport as (read, write):
        methods: dict[mcp_types.RequestId, str] = {}
        yield _Reading(read, methods), _Writing(write, methods)


class _Stream:
    """One direction of the transport. `methods` has the methods of the requests without an answer."""

    def __init__(self, stream: Any, methods: dict[mcp_types.RequestId, str]) -> None:
        self._stream, self._methods = stream, methods

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)


class _Writing(_Stream):
    async def send(self, item: SessionMessage) -> None:
        if isinstance(item.message, mcp_types.JSONRPCRequest):
            self._methods[item.message.id] = item.message.method
        await self._stream.send(item)


class _Reading(_Stream):
    @property
    def last_context(self) -> object:
        """The sender's context, which the session restores (`mcp.shared`)."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._understood(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._understood(await anext(self._stream))

    def _understood(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, Exception):
            return self._failed(item)
        message = item.message
        if isinstance(message, mcp_types.JSONRPCResponse):
            method = self._methods.pop(self._own_id(message.id), "")
            return _changed(item, message, id=self._own_id(message.id), result=understood(method, message.result))
        if isinstance(message, mcp_types.JSONRPCError):
            self._methods.pop(message.id, None) if message.id is not None else None
        if isinstance(message, mcp_types.JSONRPCRequest):
            params = understood_question(message.method, message.params)
            return item if params is None else _changed(item, message, params=params)
        return item

    def _own_id(self, given: mcp_types.RequestId) -> mcp_types.RequestId:
        """Return the id as it was sent: some servers give a number back as a text."""
        if given in self._methods or not isinstance(given, str):
            return given
        return next((one for one in self._methods if str(one) == given), given)

    def _failed(self, error: Exception) -> SessionMessage | Exception:
        """Return the part that the transport could not read. If one request is open, it was its answer."""
        if len(self._methods) != 1:
            return error
        request_id, _ = self._methods.popitem()
        reason = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=str(error))
        return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=request_id, error=reason))


def _changed(
    item: SessionMessage, message: mcp_types.JSONRPCResponse | mcp_types.JSONRPCRequest, **fields: object
) -> SessionMessage:
    return SessionMessage(message.model_copy(update=fields), metadata=item.metadata)


def _understood_block(block: object) -> Object:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return _text(block)
    original = given = cast(Object, block)
    if given.get("type") == "text" and isinstance(text := given.get("text"), str | int | float) and text is not True:
        given = {**given, "text": text if isinstance(text, str) else _words(text)}
    if given.get("type") in ("image", "audio") and not isinstance(given.get("mimeType"), str):
        given = repaired_block({key: value for key, value in given.items() if key != "mimeType"})
    if _is_block(given):
        return given
    plain = {key: value for key, value in given.items() if key not in ("annotations", "_meta")}
    return plain if _is_block(plain) else _text(original)


def _is_block(block: Object) -> bool:
    return _error_of(_BLOCKS, block) is None


def _understood_meta(result: Object) -> Object:
    """Return the `_meta` of a result; an empty one for one that no revision of the protocol has."""
    given = result.get("_meta")
    meta = cast(Object, given) if isinstance(given, dict) else {}
    return meta if _error_of(_METAS, meta) is None else {}


def _error_of(adapters: Iterable[TypeAdapter[Any]], value: object) -> ErrorDetails | None:
    """Return the first place in which a value breaks the protocol's schema, in any of its revisions."""
    for adapter in adapters:
        try:
            adapter.validate_python(value, by_name=False)
        except ValidationError as error:
            return error.errors()[0]
    return None


def _understood_tool(tool: object) -> tuple[Object | None, str]:
    """Return the tool as it can be used, without optional fields that are malformed; else None, and why."""
    if flaw := _flaw_of(tool):
        return None, flaw
    given = cast(Object, tool)
    usable = {**given, "inputSchema": without_faults({**given["inputSchema"], "type": "object"})}
    while (error := _error_of(_TOOLS, usable)) is not None:
        place = [*map(str, error["loc"]), "", ""]
        field, keyword = place[0], place[1]
        schema = usable.get(field)
        if field == "inputSchema" and keyword != "type" and isinstance(schema, dict) and keyword in schema:
            # Without it the arguments are less restricted; the server checks them itself.
            usable[field] = {key: value for key, value in cast(Object, schema).items() if key != keyword}
        elif field in _REQUIRED or field not in usable:
            return None, f"{'/'.join(map(str, error['loc']))}: {error['msg']}."
        else:
            usable = {key: value for key, value in usable.items() if key != field}
    return usable, ""


def _flaw_of(tool: object) -> str:
    """Return the reason why a tool cannot be used, whatever its other fields."""
    if not isinstance(tool, dict):
        return "it is no object."
    given = cast(Object, tool)
    schema, name = given.get("inputSchema"), given.get("name")
    if not isinstance(name, str) or not name.strip():
        return "it has no name."
    if not isinstance(schema, dict):
        found = "missing" if "inputSchema" not in given else "null" if schema is None else type(schema).__name__
        return f"its inputSchema is {found}, not a JSON Schema of an object."
    kind = cast(Object, schema).get("type", "object")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind)
    return "" if is_object else f"its inputSchema has the type {kind!r}, not 'object'."


def _understood_beginning(result: Object) -> Object:
    server = result.get("serverInfo")
    known = cast(Object, server) if isinstance(server, dict) else {}
    capabilities = result.get("capabilities")
    return {
        **result,
        "capabilities": capabilities if isinstance(capabilities, dict) else {},
        "serverInfo": {**known, **{key: str(known.get(key) or "unknown") for key in ("name", "version")}},
    }


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _says(block: Object, value: object) -> bool:
    """Return True if a block of text is `value` as JSON."""
    try:
        return block.get("type") == "text" and json.loads(block["text"]) == value
    except ValueError:
        return False


def _text(value: object) -> Object:
    return {"type": "text", "text": _words(value)}


def _words(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
