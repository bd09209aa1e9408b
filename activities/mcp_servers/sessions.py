"""Sessions with MCP servers through the MCP SDK, and the failures of their calls."""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

import httpx2
import mcp_types
from mcp import Client, ClientSession, MCPError
from mcp.client import ClientRequestContext
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Tool as WireTool
from pydantic import BaseModel, ConfigDict, JsonValue, SecretStr, ValidationError
from temporalio import activity
from temporalio.client import (
    AsyncActivityCancelledError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import ErrorCategory, JsonObject
from outlast.activities.failures.classify import ToolFailure, category_of_status, redact
from outlast.activities.heartbeat import Heartbeats, raise_cancellation
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.mcp_servers.activities import mcp_failure, not_called, not_connected
from outlast.activities.mcp_servers.config import McpServer, ServerOptions
from outlast.activities.mcp_servers.lenient import MAX_NOTES, MAX_RESOURCES, MAX_TOOLS, NOTES, lenient
from outlast.activities.pacing import Looks
from outlast.activities.unicode_text import JsonTextCleaner
from outlast.activities.web.address_rules import AddressRules
from outlast.activities.web.network import OutboundTransport, resolve
from outlast.activities.workflow_requests import NOT_NOW
from outlast.proxies import proxy_url

_MAX_MESSAGE_CHARS = 500
_OUTAGES = frozenset({RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNKNOWN})
_OUTAGE_PAUSE_SECONDS = 1.0
_outage_pauses = Looks(per_second=50)
_MAX_ROUNDS = 50
"""The number of times that one call may ask for input (MCP 2026-07-28)."""
_ROUND_PAUSE_SECONDS = 0.25


class Relay:
    """Callbacks of one session, for the call that the current activity makes."""

    def __init__(self, heartbeats: Heartbeats, *, caller_id: str = "", queue: str | None = None) -> None:
        """`queue` is that of the worker, if the session belongs to it."""
        self.caller_id = caller_id
        self.was_sent = False
        self.hide: Callable[[Any], Any] = lambda value: value
        """Hides the secrets of the caller in what the server says."""
        self._heartbeats = heartbeats
        self._queue = queue
        self._numbers = itertools.count(1)
        self._activity = activity.info()
        self._client = activity.client()

    def sent(self) -> None:
        """Report that the call is being sent: a later attempt must not send it again."""
        self.was_sent = True
        self._heartbeats.send(mcp.CallPhase(sent=True, queue=self._queue))

    async def record_sent(self) -> None:
        """Report that the call is being sent, and wait until Temporal has recorded it.

        Raises `ToolFailure` if this attempt has ended for Temporal: then the call must not be sent.
        """
        phase = mcp.CallPhase(sent=True, queue=self._queue)
        self._heartbeats.send(phase)
        handle = self._client.get_async_activity_handle(task_token=self._activity.task_token)
        while True:
            try:
                await handle.heartbeat(phase)
            except AsyncActivityCancelledError:
                await activity.wait_for_cancelled()
                raise asyncio.CancelledError from None
            except RPCError as error:
                if error.status not in _OUTAGES:
                    ended = "This attempt of the call has ended; the tool was not called."
                    raise mcp_failure(ErrorCategory.CANCELLED, ended) from None
                await _outage_pauses.pause(_OUTAGE_PAUSE_SECONDS)
            else:
                self.was_sent = True
                return

    def waits(self, message: str) -> None:
        """Show why the call has not been sent yet."""
        waiting = mcp.CallProgress(done=0, message=redact(self.hide(message))[:_MAX_MESSAGE_CHARS])
        self._heartbeats.send(mcp.CallPhase(sent=False, progress=waiting, queue=self._queue))

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Report `notifications/progress` of the call."""
        shown = message or (f"{progress:g} of {total:g}" if total else f"{progress:g}")
        reached = mcp.CallProgress(done=progress, total=total, message=redact(self.hide(shown))[:_MAX_MESSAGE_CHARS])
        self._heartbeats.send(mcp.CallPhase(sent=True, progress=reached, queue=self._queue))

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002  # the SDK gives it by name
        params: mcp_types.ElicitRequestParams,
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """`elicitation/create`: a form for the user. URLs to visit are declined, since they cannot be passed on."""
        if not isinstance(params, mcp_types.ElicitRequestFormParams):
            return mcp_types.ElicitResult(action="decline")
        schema: dict[str, Any] = dict(params.requested_schema)
        answer = await self._ask("elicitation/create", params.message, requested_schema=schema)
        if isinstance(answer, mcp_types.ErrorData) or answer.action != "accept":
            return answer if isinstance(answer, mcp_types.ErrorData) else mcp_types.ElicitResult(action=answer.action)
        content: Any = answer.content
        return mcp_types.ElicitResult(action="accept", content=content)

    async def sample(
        self,
        context: ClientRequestContext,  # noqa: ARG002  # the SDK gives it by name
        params: mcp_types.CreateMessageRequestParams,
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        """`sampling/createMessage`: a completion by the client's model."""
        fields: dict[str, Any] = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        fields.pop("_meta", None)
        answer = await self._ask("sampling/createMessage", "The server requests a completion.", params=fields)
        if isinstance(answer, mcp_types.ErrorData):
            return answer
        if answer.action != "accept":
            declined = "No completion: the caller declined or did not answer."
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=declined)
        try:
            return mcp_types.CreateMessageResult.model_validate(answer.content, by_name=False)
        except ValidationError:
            return mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message="The caller's completion is not valid.")

    async def _ask(self, method: Any, message: str, **question: Any) -> mcp.RelayedAnswer | mcp_types.ErrorData:
        key = f"relayed-{next(self._numbers)}"
        asked = mcp.RelayedQuestion(key=key, method=method, message=self.hide(message), **self.hide(question))
        while True:
            try:
                return await self._ask_workflow(asked)
            except WorkflowUpdateFailedError as error:
                return mcp_types.ErrorData(
                    code=mcp_types.INTERNAL_ERROR, message=redact(f"The caller cannot be asked: {error.cause}")
                )
            except WorkflowUpdateRPCTimeoutOrCancelledError as error:
                raise_cancellation(error)
            except RPCError as error:
                if error.status not in NOT_NOW:
                    return mcp_types.ErrorData(
                        code=mcp_types.INTERNAL_ERROR, message="The caller cannot be asked: its task has ended."
                    )
            await _outage_pauses.pause(_OUTAGE_PAUSE_SECONDS)

    async def _ask_workflow(self, question: mcp.RelayedQuestion) -> mcp.RelayedAnswer:
        """Ask the question once, however often an attempt calls this: the update's id contains the question's key.

        A session that serves several calls has tasks of its own, which belong to no activity.
        """
        info = self._activity
        handle = self._client.get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
        update_id = f"{info.activity_id}-{info.attempt}-{question.key}"
        return await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
            mcp.RELAY_UPDATE, question, id=update_id, result_type=mcp.RelayedAnswer
        )


_UNLIMITED = 1_000_000


class CallSlots:
    """Places for the calls of a session: for all of them, and for those of each caller."""

    def __init__(self, server: McpServer) -> None:
        self._server = server.name
        self._per_caller = server.options.max_concurrent_per_caller or _UNLIMITED
        self._all = asyncio.Semaphore(server.options.max_concurrent or _UNLIMITED)
        self._own = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def taken(self, relay: Relay) -> AsyncGenerator[None]:
        """Wait for a place, and show so. A call that waits for others of its caller takes no place of theirs."""
        own = self._own.setdefault(relay.caller_id, asyncio.Semaphore(self._per_caller))
        if own.locked():
            relay.waits(f"Waiting for other calls of this caller of the MCP server {self._server}.")
        async with own:
            if self._all.locked():
                relay.waits(f"Waiting for other calls of the MCP server {self._server}.")
            async with self._all:
                yield


class _RawAnswer(BaseModel):
    """The unparsed result: all its fields are in `model_extra`."""

    model_config = ConfigDict(extra="allow")


async def call_to_its_end(session: ClientSession, tool: str, arguments: dict[str, Any], relay: Relay) -> dict[str, Any]:
    """The raw result of a tool. With MCP 2026-07-28, a tool that asks for input is called again with the answers."""
    params = mcp_types.CallToolRequestParams(name=tool, arguments=arguments)
    raw: dict[str, Any] = {}
    for _ in range(_MAX_ROUNDS):
        request = mcp_types.CallToolRequest(params=params)
        answer = await session.send_request(request, _RawAnswer, progress_callback=relay.progressed)
        raw = answer.model_extra or {}
        if raw.get("resultType") != "input_required":
            break
        asked = mcp_types.InputRequiredResult.model_validate(raw, by_name=False)
        answers = await _input_responses(session, asked)
        params = params.model_copy(update={"input_responses": answers, "request_state": asked.request_state})
    return raw


async def requested(session: ClientSession, method: mcp.RequestMethod, params: JsonObject) -> JsonObject:
    """Return the raw result of a request that reads. Raises `MCPError`, and `ToolFailure` for one that asks first."""
    kinds: dict[
        str,
        type[mcp_types.ReadResourceRequest | mcp_types.GetPromptRequest | mcp_types.CompleteRequest],
    ] = {
        "resources/read": mcp_types.ReadResourceRequest,
        "prompts/get": mcp_types.GetPromptRequest,
        "completion/complete": mcp_types.CompleteRequest,
    }
    request = kinds[method].model_validate({"method": method, "params": params}, by_name=False)
    raw = (await session.send_request(request, _RawAnswer)).model_extra or {}
    if raw.get("resultType", "complete") != "complete":
        asks = f"The server asks for input before it answers {method}, which is not supported."
        raise mcp_failure(ErrorCategory.VALIDATION, asks)
    return raw


async def _input_responses(
    session: ClientSession, asked: mcp_types.InputRequiredResult
) -> dict[str, mcp_types.InputResponse] | None:
    if not asked.input_requests:
        await asyncio.sleep(_ROUND_PAUSE_SECONDS)  # the server only wants the call again
        return None
    requests = asked.input_requests
    given = await asyncio.gather(*(_input_response(session, key, request) for key, request in requests.items()))
    return dict(zip(requests, given, strict=True))


async def _input_response(session: ClientSession, key: str, request: mcp_types.InputRequest) -> mcp_types.InputResponse:
    """Return the answer of the session's callbacks, which also serve servers of earlier protocol versions."""
    meta = request.params.meta if request.params else None
    context = ClientRequestContext(session=session, request_id=key, meta=meta)
    answer = await session.dispatch_input_request(context, request)
    if isinstance(answer, mcp_types.ErrorData):
        raise MCPError.from_error_data(answer)
    return answer


_CONNECT_SECONDS = 60.0
"""A standby Actor may have to be started first."""
_ANSWER_SECONDS = 3_600.0
_ENTRIES_SECONDS = 20.0
_MAX_ENTRIES_BYTES = 200_000
"""Of each list of resources, templates and prompts: the lists of a server are in a history."""
_ListRequest = mcp_types.ListResourcesRequest | mcp_types.ListResourceTemplatesRequest | mcp_types.ListPromptsRequest
_MAX_PAGES = 20
_MAX_EVENT_BYTES = 16 * 1024 * 1024
"""One message in a stream of events. The limit of the SDK, 1 MiB, is below that of an answer, which repeats its
structured form as text. How large the answer may be is checked when it has been read.
"""
_MESSAGES = frozenset({"application/json", "text/event-stream"})
_OF_THE_BODY_AS_SENT = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})

Answer = TypeVar("Answer")


async def list_tools(url: str, token: SecretStr) -> tuple[tuple[mcp.McpTool, ...], tuple[str, ...]]:
    """Return the tools of the server that can be used, and notes on the others. Raises `ToolFailure`."""

    tools, notes = await _with_session(url, token, listed_tools)
    return tuple(_tool_of(tool) for tool in tools), notes


async def listed_tools(session: ClientSession) -> tuple[tuple[WireTool, ...], tuple[str, ...]]:
    """Return the tools of the server that can be used, each name once, and notes on the others."""
    found, notes = list[WireTool](), list[str]()
    cursor, seen = None, set[str | None]()
    while cursor not in seen and len(seen) < _MAX_PAGES and len(found) < MAX_TOOLS:
        seen.add(cursor)
        page = await session.list_tools(params=mcp_types.PaginatedRequestParams(cursor=cursor))
        found += page.tools
        notes += (page.meta or {}).get(NOTES, [])
        cursor = page.next_cursor
        if cursor is None:
            break
    tools = found[:MAX_TOOLS]
    if cursor is not None or len(found) > MAX_TOOLS:
        notes.insert(0, f"The server lists more tools; only the first {len(tools):,} are used.")
    return tuple({tool.name: tool for tool in reversed(tools)}.values())[::-1], tuple(notes[:MAX_NOTES])


@dataclass(frozen=True)
class ListedEntries:
    """Return the resources and prompts that a server lists, unchanged, and notes on entries that cannot be used."""

    resources: tuple[JsonObject, ...] = ()
    resource_templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()
    notes: tuple[str, ...] = ()


async def listed_entries(session: ClientSession, options: ServerOptions) -> ListedEntries:
    """Return the resources, templates and prompts that a server has and `options` offer.

    A list that the server refuses, or does not answer in time, is empty and noted: its tools can be used.
    """
    has = session.server_capabilities or mcp_types.ServerCapabilities()
    notes, found = list[str](), dict[str, tuple[JsonObject, ...]]()
    for field, wire_field, request, is_offered in (
        ("resources", "resources", mcp_types.ListResourcesRequest, has.resources is not None and options.resources),
        (
            "resource_templates",
            "resourceTemplates",
            mcp_types.ListResourceTemplatesRequest,
            has.resources is not None and options.resources,
        ),
        ("prompts", "prompts", mcp_types.ListPromptsRequest, has.prompts is not None and options.prompts),
    ):
        if is_offered:
            found[field] = await _entries(session, request, wire_field, notes)
    return ListedEntries(**found, notes=tuple(notes[:MAX_NOTES]))


async def _entries(
    session: ClientSession, request: type[_ListRequest], field: str, notes: list[str]
) -> tuple[JsonObject, ...]:
    found, size, cursor, seen = list[JsonObject](), 0, None, set[str | None]()
    try:
        async with asyncio.timeout(_ENTRIES_SECONDS):
            while cursor not in seen and len(seen) < _MAX_PAGES:
                seen.add(cursor)
                params = mcp_types.PaginatedRequestParams(cursor=cursor)
                page = (await session.send_request(request(params=params), _RawAnswer)).model_extra or {}
                notes += page.get("_meta", {}).get(NOTES, [])
                for entry in page[field]:
                    size += len(json.dumps(entry))
                    if len(found) >= MAX_RESOURCES or size > _MAX_ENTRIES_BYTES:
                        notes.append(f"The server lists more {field}; only the first {len(found):,} are used.")
                        return tuple(found)
                    found.append(entry)
                cursor = page.get("nextCursor")
                if cursor is None:
                    break
    except (MCPError, TimeoutError) as error:
        if isinstance(error, MCPError) and error.code == mcp_types.CONNECTION_CLOSED:
            raise
        reason = "it did not answer in time" if isinstance(error, TimeoutError) else redact(str(error))[:200]
        notes.append(f"The {field} of the server are not listed: {reason}.")
    return tuple(found)


async def call_tool(
    url: str, token: SecretStr, request: mcp.CallMcpToolInput, arguments: dict[str, Any], heartbeats: Heartbeats
) -> dict[str, Any]:
    """The raw result of the tool, called with `arguments`. Raises `ToolFailure`: once it was called, none to retry."""
    relay = Relay(heartbeats)
    sent = False

    async def call(session: ClientSession) -> dict[str, Any]:
        nonlocal sent
        sent = True
        relay.sent()
        return await call_to_its_end(session, request.tool, arguments, relay)

    try:
        return await _with_session(url, token, call, relay=relay)
    except ToolFailure as error:
        raise (not_called(error, request) if sent else not_connected(error, request)) from None


async def _with_session(
    url: str, token: SecretStr, use: Callable[[ClientSession], Awaitable[Answer]], *, relay: Relay | None = None
) -> Answer:
    """Return the result of `use`, called with a session. Raises `ToolFailure` for every error."""
    try:
        async with _session(url, token, relay) as session:
            return await use(session)
    except Exception as error:  # noqa: BLE001 (every failure gets an envelope)
        raise _as_failure(error) from None


@asynccontextmanager
async def _session(url: str, token: SecretStr, relay: Relay | None) -> AsyncGenerator[ClientSession]:
    transport = http_transport(url, {"Authorization": f"Bearer {token.get_secret_value()}"})
    async with client_of(transport, relay) as client:
        yield client.session


class Callbacks(Protocol):
    """Answers requests of a server to its client."""

    async def elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Answer `elicitation/create`."""
        ...

    async def sample(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        """Answer `sampling/createMessage`."""
        ...


class Listener(Protocol):
    """Receives notifications of a server."""

    async def noticed(self, message: IncomingMessage) -> None:
        """Receive a notification."""
        ...


def client_of(
    transport: AbstractAsyncContextManager[Any], callbacks: Callbacks | None, listener: Listener | None = None
) -> Client:
    """Return a client of the SDK; without `callbacks` it can answer nothing that the server asks."""
    info = mcp_types.Implementation(name="outlast", version="1")
    elicit, sample = (callbacks.elicit, callbacks.sample) if callbacks else (None, None)
    return Client(
        lenient(transport),
        client_info=info,
        cache=None,
        elicitation_callback=elicit,
        sampling_callback=sample,
        message_handler=listener.noticed if listener is not None else None,
    )


@asynccontextmanager
async def http_transport(
    url: str,
    headers: Mapping[str, str],
    *,
    rules: AddressRules | None = None,
    note_status: Callable[[int], None] | None = None,
) -> AsyncGenerator[Any]:
    """Provide the streams of messages of a server at `url`. With `rules`, its address is checked. `note_status` gets
    the status of each response, which the SDK does not pass on. Raises `ToolFailure` for a forbidden address.
    """
    if rules is not None:
        await _check_address(httpx2.URL(url), rules)
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=_ANSWER_SECONDS)
    transport = _ValidText(rules, note_status)
    client = httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=transport, trust_env=False)
    async with (
        client as http,
        streamable_http_client(url, http_client=http, max_sse_event_size=_MAX_EVENT_BYTES) as streams,
    ):
        yield streams


async def _check_address(url: httpx2.URL, rules: AddressRules) -> None:
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = await resolve(url.host, port)
    except ToolFailure:
        if proxy_url(url.scheme, url.host, port, os.environ) is not None:
            return  # The operator wrote the address, and only the proxy knows the names outside.
        raise mcp_failure(ErrorCategory.NETWORK, f"The host {url.host} cannot be resolved.") from None
    rules.check_resolved(url.host, port, found)


class _ValidText(OutboundTransport):
    """A transport whose responses have valid text: the SDK cannot parse a message with half of a character."""

    def __init__(self, rules: AddressRules | None, note_status: Callable[[int], None] | None = None) -> None:
        super().__init__(rules, proxy_resolves=True)
        self._note_status = note_status

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request."""
        response = await super().handle_async_request(request)
        if self._note_status is not None:
            self._note_status(response.status_code)
        mime = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if mime not in _MESSAGES:
            return response
        # The body is decompressed here, since text is cleaned behind that.
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_BODY_AS_SENT]
        return httpx2.Response(
            response.status_code, headers=headers, stream=_CleanedStream(response), extensions=response.extensions
        )


class _CleanedStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        cleaner = JsonTextCleaner()
        async for chunk in self._response.aiter_bytes():
            yield cleaner.feed(chunk)
        yield cleaner.end()

    async def aclose(self) -> None:
        await self._response.aclose()


def _tool_of(tool: WireTool) -> mcp.McpTool:
    return mcp.McpTool(**_fields_of(tool))


def server_tool_of(tool: WireTool) -> mcp.ServerTool:
    """Return a tool of a server of the operator's file."""
    return mcp.ServerTool(**_fields_of(tool), annotated=tool.annotations is not None)


def _fields_of(tool: WireTool) -> dict[str, Any]:
    hints = tool.annotations
    return {
        "name": tool.name,
        "title": tool.title or (hints.title if hints else None),
        "description": tool.description or "",
        "input_schema": cast(dict[str, JsonValue], tool.input_schema),
        "output_schema": cast(dict[str, JsonValue] | None, tool.output_schema),
        "read_only": bool(hints and hints.read_only_hint),
        "destructive": not hints or hints.destructive_hint is not False,
        "idempotent": bool(hints and hints.idempotent_hint),
        "open_world": not hints or hints.open_world_hint is not False,
    }


def innermost(error: BaseException) -> BaseException:
    """Return the error itself: task groups of the SDK wrap it in one or more exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _as_failure(error: BaseException) -> ToolFailure:
    error = innermost(error)
    match error:
        case ToolFailure():
            return error
        case MCPError():
            # The SDK uses INTERNAL_ERROR for HTTP errors too, such as that of an Actor which is still starting, and
            # PARSE_ERROR, with the words of pydantic, for an answer that it cannot read.
            is_lost = error.code in (mcp_types.INTERNAL_ERROR, mcp_types.PARSE_ERROR)
            said = "no message of JSON-RPC" if error.code == mcp_types.PARSE_ERROR else f"{error} (code {error.code})"
            category = ErrorCategory.PLATFORM if is_lost else ErrorCategory.VALIDATION
            return mcp_failure(category, f"The MCP server answered: {said}")
        case httpx2.HTTPStatusError():
            status = error.response.status_code
            return mcp_failure(category_of_status(status), f"The Actor's server answered {status}.")
        case httpx2.TimeoutException() | TimeoutError():
            return mcp_failure(ErrorCategory.TIMEOUT, "The Actor's server did not answer in time.")
        case httpx2.HTTPError() | OSError():
            return mcp_failure(ErrorCategory.NETWORK, f"The Actor's server cannot be reached: {type(error).__name__}.")
        case _:
            return mcp_failure(ErrorCategory.UNKNOWN, f"{type(error).__name__}: {error}")
