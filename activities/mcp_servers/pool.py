"""Sessions of this worker with the MCP servers of the operator's file: opened when they are needed, shared by the calls
of their scope, ended when they are idle. A server that cannot be reached is tried again after growing pauses.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context, ContextVar
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import httpx2
import mcp_types
from cachetools import LRUCache
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.client.session import IncomingMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from outlast.activities.contracts import ErrorCategory, JsonObject
from outlast.activities.failures.classify import ToolFailure, category_of_status
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.mcp_servers.activities import mcp_failure, without_secrets
from outlast.activities.mcp_servers.config import (
    HttpServer,
    McpServer,
    ServersFile,
    StdioServer,
    is_reached_alike,
)
from outlast.activities.mcp_servers.metrics import ServerMetrics, SessionEvent
from outlast.activities.mcp_servers.packages import package_of
from outlast.activities.mcp_servers.pins import quarantine_of, refusal_of
from outlast.activities.mcp_servers.sessions import (
    CallSlots,
    Relay,
    call_to_its_end,
    client_of,
    http_transport,
    innermost,
    listed_entries,
    listed_tools,
    requested,
    server_tool_of,
)
from outlast.activities.mcp_servers.stdio import Pace, ProcessGuard, environment_of, stdio_transport
from outlast.activities.web.address_rules import AddressRules

_log = logging.getLogger("outlast.mcp_servers")
OPEN_SECONDS = 90.0
"""A server may have to be downloaded by its command first."""
_LONGEST_PAUSE_SECONDS = 60.0
_FIRST_ERROR_STATUS = 400
_MAX_LOST_BEFORE_CALL = 5
_STABLE_SECONDS = 30.0
"""A session that lasted so long was no failed start."""
_RULES = AddressRules(allow_private=True)
"""The operator wrote the addresses, so they may be private; link-local ones, which serve credentials, may not."""

_SINGLE: frozenset[mcp.SessionScope] = frozenset({"call", "task"})
"""Scopes of sessions that end with their call: a task makes one call."""
_REFUSALS = frozenset({ErrorCategory.AUTHENTICATION, ErrorCategory.PERMISSION})
_MAX_HEALTHS = 10_000
_NO_SECRETS: Mapping[str, str] = MappingProxyType({})
Note = Callable[[str, str, Literal["ended", "lost", "restarted"]], Awaitable[None]]
"""Reports an event of a session, by server and key."""
_LISTING = ""
"""Key of the session that lists what a server has. It stays open while lists are read, to be told of changes."""
_REQUEST_SECONDS = 45.0
_LISTEN_PAUSE_SECONDS = 15.0
_LISTS = (
    mcp_types.ToolListChangedNotification,
    mcp_types.ResourceListChangedNotification,
    mcp_types.PromptListChangedNotification,
)
_relay_of_call: ContextVar[Relay | None] = ContextVar("relay_of_call", default=None)
OnChange = Callable[["Session", bool, str | None], None]
"""Notes a change that a server has told of in a session: of its lists, or of the resource with this URI."""


class Session:
    """One connection with a server, for any number of calls at a time. Its task opens and closes it."""

    def __init__(self, server: McpServer, guard: ProcessGuard, metrics: ServerMetrics, on_change: OnChange) -> None:
        self.server = server
        self._on_change = on_change
        self.holders = 0
        """Calls that use the session, or wait for it."""
        self._relays: list[Relay] = []
        self.opened_at = 0.0
        self.is_told = False
        """True if a call was told that the session was lost."""
        self.slots = CallSlots(server)
        self._guard = guard
        self._metrics = metrics
        self._status = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._ended = False
        self._idle_since = time.monotonic()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        # A session serves many calls: it is not part of the trace of the one that opens it, and keeps nothing of it.
        self.task = asyncio.create_task(self._run(), name=f"session with {server.name}", context=Context())

    @property
    def is_open(self) -> bool:
        """True while calls can be made."""
        return not (self._ended or self._closing or self.task.done())

    async def client(self) -> Client:
        """Return the SDK's client, when it is connected. Raises `ToolFailure`."""
        return await asyncio.shield(self._client)

    @asynccontextmanager
    async def used_by(self, relay: Relay) -> AsyncGenerator[Client]:
        """Provide the client for one call, whose questions go to `relay`."""
        self._relays.append(relay)
        token = _relay_of_call.set(relay)
        try:
            yield await self.client()
        finally:
            _relay_of_call.reset(token)
            self._relays.remove(relay)

    def release(self) -> None:
        """End the use by one call."""
        self.holders -= 1
        self._idle_since = time.monotonic()
        self._wake.set()

    @property
    def was_closed(self) -> bool:
        """True if it was idle or closed; false if its process or connection was lost."""
        return self._closing

    def end(self) -> None:
        """Note that the connection was lost."""
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """End the session when its last call has ended."""
        self._closing = True
        self._wake.set()

    async def elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """`elicitation/create`: to the caller of the call that asks."""
        relay = self._asking()
        return await relay.elicit(context, params) if relay else _NOBODY

    async def sample(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        """`sampling/createMessage`: to the caller of the call that asks."""
        relay = self._asking()
        return await relay.sample(context, params) if relay else _NOBODY

    async def noticed(self, message: IncomingMessage) -> None:
        """Note what the server tells of: changed lists, and changed resources."""
        if isinstance(message, _LISTS):
            self._on_change(self, True, None)
        elif isinstance(message, mcp_types.ResourceUpdatedNotification):
            self._on_change(self, False, message.params.uri)

    async def _listen(self, client: Client) -> None:
        """Request the notifications of a server of MCP 2026-07-28; earlier ones send them without a request."""
        has = client.server_capabilities
        tools = bool(has.tools and has.tools.list_changed)
        resources = bool(has.resources and has.resources.list_changed)
        prompts = bool(has.prompts and has.prompts.list_changed)
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools or resources or prompts):
            return
        while True:
            try:
                listen = client.listen(
                    tools_list_changed=tools, resources_list_changed=resources, prompts_list_changed=prompts
                )
                async with listen as events:
                    async for _ in events:
                        pass  # `noticed` gets the same notifications.
            except Exception as error:  # noqa: BLE001 (of many types; the session itself may be well)
                _log.debug("The MCP server %s does not notify of changes: %s", self.server.name, error)
            await asyncio.sleep(_LISTEN_PAUSE_SECONDS)
            # What changed in between was not told.
            self._on_change(self, True, None)

    def _asking(self) -> Relay | None:
        """Return the call that asks. Before MCP 2026-07-28 a question does not name its call: then it is the latest
        one, unless calls of several callers are open.
        """
        own = _relay_of_call.get()
        if own is not None:
            return own
        return self._relays[-1] if len({relay.caller_id for relay in self._relays}) == 1 else None

    async def _run(self) -> None:
        event: SessionEvent = "lost"
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(OPEN_SECONDS):
                    client = await stack.enter_async_context(client_of(self._transport(), self, self))
                self.opened_at = self._idle_since = time.monotonic()
                self._metrics.session(self.server.name, "opened")
                self._client.set_result(client)
                listening = asyncio.create_task(self._listen(client))
                stack.callback(listening.cancel)
                await self._until_end()
                if not self._ended:
                    event = "closed"
        except Exception as error:  # noqa: BLE001 (every failure gets an envelope)
            if not self._client.done():
                self._metrics.session(self.server.name, "failed")
                self._client.set_exception(self._not_opened(error))
                self._client.exception()  # Somebody may have stopped waiting for it.
            else:
                _log.info("The session with the MCP server %s ended: %s", self.server.name, type(error).__name__)
        finally:
            self._ended = True
            if self.opened_at:
                self._metrics.session(self.server.name, event)
            if not self._client.done():
                self._client.cancel()

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        if isinstance(self.server, StdioServer):
            return stdio_transport(self.server, self._guard, self.end)
        return http_transport(self.server.url, self.server.headers, rules=_RULES, note_status=self._note_status)

    def _note_status(self, status: int) -> None:
        self._status = status

    def _not_opened(self, error: BaseException) -> ToolFailure:
        """Return why the session was not opened: for HTTP, the SDK has the same error for every status."""
        found = failure_of(error, self.server)
        if not found.envelope.retryable or self._status < _FIRST_ERROR_STATUS:
            return found
        reason = f"The MCP server {self.server.name} answered with the HTTP status {self._status}."
        return mcp_failure(category_of_status(self._status), reason)

    async def _until_end(self) -> None:
        idle_seconds = self.server.options.idle_seconds
        while not self._ended:
            self._wake.clear()
            left = self._idle_since + idle_seconds - time.monotonic()
            if not self.holders and (self._closing or left <= 0):
                self._closing = True
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self.holders else max(left, 0.01)):
                    await self._wake.wait()


_NOBODY = mcp_types.ErrorData(
    code=mcp_types.INVALID_REQUEST, message="It is not clear which caller this question is for."
)


class _Health:
    """Failed starts of a server in a row, and the pause before the next one."""

    def __init__(self) -> None:
        self.failures = 0
        self.reason = ""
        self._not_before = 0.0

    @property
    def pause_seconds(self) -> float:
        return max(0.0, self._not_before - time.monotonic())

    def failed(self, reason: str) -> None:
        """Count a failure; several calls that waited for the same start count once."""
        if self.pause_seconds > 0:
            return
        self.failures += 1
        _log.warning("An MCP server cannot be used (%d times in a row): %s", self.failures, reason)
        self.reason = reason
        self._not_before = time.monotonic() + min(_LONGEST_PAUSE_SECONDS, 0.5 * 2 ** min(self.failures, 10))

    def recovered(self) -> None:
        self.failures, self._not_before = 0, 0.0


Report = Callable[[str, bool, tuple[str, ...]], Awaitable[None]]
"""Reports changes of a server: whether of its lists, and the digests of changed resources."""


class _Changes:
    """The changes of one server that have not been reported. A server may tell of thousands in a second."""

    def __init__(self, server: str, report: Report) -> None:
        self._server, self._report = server, report
        self._lists = False
        self._uris: dict[str, None] = {}
        self._pace = Pace(per_second=0.5, burst=5)
        self._sending: asyncio.Task[None] | None = None

    def add(self, lists: bool, uri: str | None) -> None:
        self._lists = self._lists or lists
        if uri is not None and len(self._uris) < mcp.MAX_UPDATES:
            self._uris[mcp.digest_of_uri(uri)] = None
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        while self._lists or self._uris:
            await asyncio.sleep(self._pace.wait_seconds())
            lists, uris = self._lists, tuple(self._uris)
            self._lists, self._uris = False, {}
            await self._report(self._server, lists, uris)


async def _report_nothing(_server: str, _lists: bool, _uris: tuple[str, ...]) -> None:
    """Report no change."""


class ServerPool:
    """The sessions of one worker."""

    def __init__(self, file: ServersFile, note: Note, metrics: ServerMetrics, report: Report = _report_nothing) -> None:
        self._file = file
        self._note = note
        self._metrics = metrics
        self._report = report
        self._changes: dict[str, _Changes] = {}
        self._told: dict[str, Session] = {}
        """The session of each server that was told of the last change of its lists: only it may have the change."""
        self._guard = ProcessGuard()
        self._sessions: dict[tuple[str, str], Session] = {}
        self._lost = set[tuple[str, str]]()
        """Sessions whose end their next call has to be told."""
        self._health = LRUCache[tuple[str, str], _Health](_MAX_HEALTHS)
        self._single: dict[str, CallSlots] = {}
        self._watches = set[asyncio.Task[None]]()

    def server(self, name: str) -> McpServer:
        """Return the server of this name. Raises `ToolFailure` if it is not in the file, or cannot be used."""
        server = self._file.current.get(name)
        if server is None:
            raise mcp_failure(
                ErrorCategory.NOT_FOUND,
                f"There is no MCP server {name!r} in the file of this worker.",
                "The operator may have removed it.",
            )
        if server.problem is not None:
            raise mcp_failure(ErrorCategory.VALIDATION, f"The MCP server {name} cannot be used: {server.problem}.")
        return server

    def server_of_caller(self, name: str, secrets: Mapping[str, str]) -> McpServer:
        """Return the server with the secrets of a caller. Raises `ToolFailure`, also for one that is missing."""
        server = self.server(name)
        missing = [secret for secret in server.caller_secrets if secret not in secrets]
        if missing:
            raise without_secrets(name, missing)
        try:
            return server.with_secrets(secrets)
        except ValueError as error:
            raise mcp_failure(ErrorCategory.VALIDATION, f"The MCP server {name} was not called: {error}.") from None

    def keeps_no_state(self, name: str, scope: mcp.SessionScope) -> bool:
        """Return True if every worker may have its own session of this scope: nothing is lost with it."""
        options = self.server(name).options
        return scope in _SINGLE or options.stateless or (scope == "shared" and options.session is None)

    def mark_lost(self, name: str, key: str) -> None:
        """Note that a session was lost with its worker."""
        self._lost.add((name, key))

    async def common_listing(self, name: str) -> mcp.ServerListing:
        """Return what a server offers to nobody in particular: nothing, if it lists its tools only with the secrets of
        a caller. Raises `ToolFailure`.
        """
        server = self.server(name)
        try:
            return await self.listing(name)
        except ToolFailure as error:
            if not server.caller_secrets or error.envelope.category not in _REFUSALS:
                raise
            note = "Its tools are listed with the secrets of each caller."
            return mcp.ServerListing(server=name, notes=(note,), listed_at=datetime.now(UTC), kind=server.kind)

    async def listing(self, name: str, secrets: Mapping[str, str] | None = None) -> mcp.ServerListing:
        """Return what a server offers; without `secrets`, what it offers to nobody in particular. Raises `ToolFailure`.

        The session for that stays open, so that the server can tell of changes, until nothing is listed for a while.
        With `secrets`, it is a session for these secrets only.
        """
        if secrets is not None:
            return await self._listing_of_caller(self.server_of_caller(name, secrets))
        server = self.server(name).with_secrets({})
        session = self._session_for_lists(server)
        is_reused = session.opened_at > 0
        try:
            listing = await self._listed(session, server)
        except Exception as error:  # noqa: BLE001 (every failure gets an envelope)
            # Calls may still use the session that was told of a change; the one for lists is opened again.
            if self._told.pop(name, None) is not session or _is_session_gone(error, server):
                session.end()
            if not is_reused:
                raise failure_of(error, server) from None
        else:
            self._health_of(server).recovered()
            return listing
        finally:
            session.release()
        return await self.listing(name)

    async def _listing_of_caller(self, server: McpServer) -> mcp.ServerListing:
        session = Session(server, self._guard, self._metrics, self._changed)
        session.holders = 1
        try:
            listing = await self._listed(session, server)
            self._health_of(server).recovered()
        except Exception as error:  # noqa: BLE001 (every failure gets an envelope)
            raise failure_of(error, server) from None
        finally:
            session.release()
            session.close()
            await asyncio.wait([session.task])
        return listing

    def _session_for_lists(self, server: McpServer) -> Session:
        """Return the session that was told of the last change, or the one for lists; held."""
        told, place = self._told.get(server.name), (server.name, _LISTING)
        if told is not None and told.is_open and is_reached_alike(told.server, server):
            told.holders += 1
            return told
        present = self._sessions.get(place)
        if present is not None and not is_reached_alike(present.server, server):
            present.close()
            del self._sessions[place]
        return self._begun(lambda: server, place)

    async def _listed(self, session: Session, server: McpServer) -> mcp.ServerListing:
        try:
            listing = await self._read_lists(session, server)
        except Exception:
            self._metrics.listed(server.name, succeeded=False)
            raise
        self._metrics.listed(server.name, succeeded=True)
        return listing

    async def _read_lists(self, session: Session, server: McpServer) -> mcp.ServerListing:
        client = await session.client()
        tools, notes = await listed_tools(client.session)
        entries = await listed_entries(client.session, server.options)
        has = client.server_capabilities
        offered = [server_tool_of(tool) for tool in tools if server.options.uses(tool.name)]
        hide = server.inserted.hide_in
        return mcp.ServerListing(
            server=server.name,
            tools=tuple(mcp.ServerTool.model_validate(hide(tool.model_dump())) for tool in offered),
            notes=hide((*notes, *entries.notes)),
            instructions=hide(client.instructions),
            protocol=client.protocol_version,
            listed_at=datetime.now(UTC),
            kind=server.kind,
            package=await _package_of(server),
            resources=hide(entries.resources),
            resource_templates=hide(entries.resource_templates),
            prompts=hide(entries.prompts),
            completes=has.completions is not None,
            subscribes=bool(has.resources and has.resources.subscribe),
        )

    async def call(
        self,
        request: mcp.CallServerToolInput,
        arguments: dict[str, Any],
        relay: Relay,
        secrets: Mapping[str, str] = _NO_SECRETS,
    ) -> dict[str, Any]:
        """Return the raw result of the tool. `secrets` are those of the caller, in the clear; `request.session_key`
        depends on them.

        Raises `ToolFailure`: of the category `outcome_unknown` if the request was sent and its answer was lost.
        """
        find = partial(self.server_of_caller, request.server, secrets)
        for _ in range(_MAX_LOST_BEFORE_CALL):
            try:
                async with self._session(find, request, relay) as session:
                    return await self._call_in(session, request, arguments, relay)
            except _LostBeforeCall:
                if not self.keeps_no_state(request.server, request.session):
                    break
        raise _session_lost(request.server)

    async def request(
        self, request: mcp.RequestServerInput, relay: Relay, secrets: Mapping[str, str] = _NO_SECRETS
    ) -> JsonObject:
        """Return the raw result of a request that reads. Raises `MCPError` of the server, and `ToolFailure`."""
        find = partial(self.server_of_caller, request.server, secrets)
        server = find()
        try:
            async with asyncio.timeout(server.options.timeout_seconds or _REQUEST_SECONDS):
                async with self._session(find, request, relay) as session:
                    return server.inserted.hide_in(await self._request_in(session, request, relay))
        except TimeoutError:
            health = self._health_of(server)
            why = f": {health.reason}" if health.failures else ""
            message = f"The MCP server {server.name} did not answer {request.method} in time{why}"
            raise mcp_failure(ErrorCategory.TIMEOUT, message) from None

    async def _request_in(self, session: Session, request: mcp.RequestServerInput, relay: Relay) -> JsonObject:
        async with session.slots.taken(relay), session.used_by(relay) as client:
            try:
                return await requested(client.session, request.method, dict(request.params))
            except Exception as error:
                if _is_session_gone(error, session.server) and not isinstance(innermost(error), ToolFailure):
                    session.end()
                    raise failure_of(error, session.server) from None
                raise

    async def close(self) -> None:
        """End all sessions, and the processes of servers."""
        for changes in self._changes.values():
            changes.close()
        for (name, key), session in list(self._sessions.items()):
            session.close()
            if key != _LISTING and not session.server.options.stateless:
                await self._note(name, key, "lost")
        tasks = [session.task for session in self._sessions.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=15)
        for task in [*tasks, *self._watches]:
            task.cancel()
        await self._guard.close()

    async def _call_in(
        self, session: Session, request: mcp.CallServerToolInput, arguments: dict[str, Any], relay: Relay
    ) -> dict[str, Any]:
        name = request.server
        async with session.slots.taken(relay), session.used_by(relay) as client:
            await self._refuse_quarantined(session, client, request)
            if request.repeats_safely:
                relay.sent()
            else:
                await relay.record_sent()
            limit, sent_at = asyncio.timeout(request.timeout_seconds), time.monotonic()
            try:
                async with limit:
                    relay.hide = session.server.inserted.hide_in
                    raw = await call_to_its_end(client.session, request.tool, arguments, relay)
                self._metrics.answered(name, time.monotonic() - sent_at)
                return relay.hide(raw)
            except Exception as error:  # noqa: BLE001 (every failure gets an envelope)
                if limit.expired():
                    raise _timed_out(request) from None
                if _is_session_gone(error, session.server):
                    session.is_told = _was_refused(error)
                    session.end()
                    if session.is_told:
                        raise _session_lost(name) from None
                raise _after_sending(failure_of(error, session.server), request) from None

    async def _refuse_quarantined(self, session: Session, client: Client, request: mcp.CallServerToolInput) -> None:
        """Raise `ToolFailure` if the tool is not the one that was pinned, as this session lists it now. Raises
        `_LostBeforeCall` if the session is gone.
        """
        pin = self._file.lock.current.get(request.server)
        if pin is None:
            return
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                listed, _ = await listed_tools(client.session)
        except Exception as error:
            if _is_session_gone(error, session.server) and not isinstance(innermost(error), TimeoutError):
                session.is_told = True
                session.end()
                raise _LostBeforeCall from error
            raise failure_of(error, session.server) from None
        tool = next((tool for tool in listed if tool.name == request.tool), None)
        if tool is None:
            gone = f"The MCP server {request.server} is pinned, and no longer lists the tool {request.tool}."
            raise mcp_failure(ErrorCategory.NOT_FOUND, gone, "The tool was not called.")
        reason = quarantine_of(pin, server_tool_of(tool))
        if reason is not None:
            raise mcp_failure(ErrorCategory.PERMISSION, *refusal_of(request.server, request.tool, reason))

    @asynccontextmanager
    async def _session(
        self, find: Callable[[], McpServer], request: mcp.SessionUse, relay: Relay
    ) -> AsyncGenerator[Session]:
        server = find()
        if request.session not in _SINGLE:
            session = await self._shared_session(find, request, relay)
            try:
                yield session
            finally:
                session.release()
            return
        async with self._single.setdefault(server.name, CallSlots(server)).taken(relay):
            session = await self._opened(find, relay)
            try:
                yield session
            finally:
                session.release()
                session.close()

    async def _shared_session(self, find: Callable[[], McpServer], request: mcp.SessionUse, relay: Relay) -> Session:
        """Return the open session of this key, or open one. Raises the failure that tells of a lost one, once."""
        server = find()
        place = (server.name, request.session_key)
        session = self._sessions.get(place)
        if session is not None and session.is_open and not is_reached_alike(session.server, server):
            session.close()  # The file, or a secret, has changed: calls that the session has end first.
            del self._sessions[place]
            session, keeps_state = None, not self.keeps_no_state(server.name, request.session)
            if keeps_state:
                self._lost.add(place)
        if place in self._lost and request.tells_loss:
            self._lost.discard(place)
            if not self.keeps_no_state(server.name, request.session) and not await self._only_reads(server, request):
                raise _session_lost(server.name)
        return await self._opened(find, relay, place)

    async def _only_reads(self, server: McpServer, request: mcp.SessionUse) -> bool:
        """Return True for a shared session of a server whose tools all can be repeated: no state was lost."""
        if request.session != "shared":
            return False
        try:
            listing = await self.listing(server.name)
        except ToolFailure:
            return False
        return all(tool.read_only or tool.idempotent for tool in listing.tools)

    async def _opened(
        self, find: Callable[[], McpServer], relay: Relay, place: tuple[str, str] | None = None
    ) -> Session:
        """Return an open session, held for the call. While the server cannot be reached, the call waits. `find` returns
        the server as the file has it at that time.

        Raises `ToolFailure` for an error that lasts, such as a program that does not exist.
        """
        server = find()
        name, health = server.name, self._health_of(server)
        while True:
            while (pause := health.pause_seconds) > 0:
                relay.waits(f"Waiting for the MCP server {name}, which is tried again: {health.reason}")
                await asyncio.sleep(pause)
            session = self._begun(find, place)
            try:
                await session.client()
            except asyncio.CancelledError:
                session.release()
                if place is None:
                    session.close()
                raise
            except ToolFailure as error:
                session.release()
                if not error.envelope.retryable:
                    raise
                health.failed(error.envelope.message)
            else:
                if place is None:
                    health.recovered()
                return session

    def _begun(self, find: Callable[[], McpServer], place: tuple[str, str] | None) -> Session:
        """Return the session of `place` that is open or being opened, else begin one; held for the call."""
        present = self._sessions.get(place) if place is not None else None
        if present is not None and present.is_open:
            present.holders += 1
            return present
        session = Session(find(), self._guard, self._metrics, self._changed)
        session.holders = 1
        if place is not None:
            self._sessions[place] = session
            self._watch(place, session)
        return session

    def _watch(self, place: tuple[str, str], session: Session) -> None:
        """Note how a session ends."""
        watch = asyncio.create_task(self._ended(place, session))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _ended(self, place: tuple[str, str], session: Session) -> None:
        await asyncio.wait([session.task])
        was_closed = session.was_closed
        if self._sessions.get(place) is session:
            del self._sessions[place]
        if session.opened_at == 0.0 or place[1] == _LISTING:
            return
        if was_closed:
            self._health_of(session.server).recovered()
            await self._note(*place, "ended")
            return
        if not session.is_told:
            self._lost.add(place)
        health = self._health_of(session.server)
        if time.monotonic() - session.opened_at < _STABLE_SECONDS:
            health.failed("its process or connection ended soon after its start")
        else:
            health.recovered()
        _log.warning("The session with the MCP server %s was lost", place[0])
        await self._note(*place, "restarted")

    def _changed(self, session: Session, lists: bool, uri: str | None) -> None:
        name = session.server.name
        if lists:
            self._told[name] = session
        self._changes.setdefault(name, _Changes(name, self._report)).add(lists, uri)

    def _health_of(self, server: McpServer) -> _Health:
        """Return the health of a server; of one with secrets, for these: wrong ones must not stop other callers."""
        return self._health.setdefault((server.name, server.inserted.digest), _Health())


async def _package_of(server: McpServer) -> mcp.ServerPackage | None:
    if not isinstance(server, StdioServer):
        return None
    return await asyncio.to_thread(package_of, server.command, server.args, server.cwd, environment_of(server))


class _LostBeforeCall(Exception):
    """The session was lost, and the call was not sent."""


def failure_of(error: BaseException, server: McpServer) -> ToolFailure:
    """Return the failure for an error of the SDK, of a server of the operator's file."""
    error = innermost(error)
    if isinstance(error, ToolFailure):
        return error
    category, reason = _described(error, server)
    return mcp_failure(category, f"The MCP server {server.name} {server.inserted.hide(reason)}")


def _described(error: BaseException, server: McpServer) -> tuple[ErrorCategory, str]:
    match error:
        case MCPError(code=mcp_types.CONNECTION_CLOSED):
            described = ErrorCategory.PLATFORM, "closed the connection."
        case MCPError(code=mcp_types.REQUEST_TIMEOUT) | TimeoutError() | httpx2.TimeoutException():
            described = ErrorCategory.TIMEOUT, "did not answer in time."
        case MCPError():
            # For HTTP, the SDK uses INTERNAL_ERROR for a status as well, and PARSE_ERROR for an unreadable answer.
            codes = (mcp_types.INTERNAL_ERROR, mcp_types.PARSE_ERROR)
            is_lost = isinstance(server, HttpServer) and error.code in codes
            said = "no message of JSON-RPC" if error.code == mcp_types.PARSE_ERROR else f"{error} (code {error.code})"
            described = ErrorCategory.PLATFORM if is_lost else ErrorCategory.VALIDATION, f"answered: {said}"
        case httpx2.HTTPError() | OSError():
            described = ErrorCategory.NETWORK, f"cannot be reached: {type(error).__name__}."
        case _:
            described = ErrorCategory.UNKNOWN, f"failed: {type(error).__name__}."
    return described


def _after_sending(error: ToolFailure, request: mcp.CallServerToolInput) -> ToolFailure:
    """Return the failure of a call that was sent: an answer of the server, or `outcome_unknown`."""
    envelope = error.envelope
    where = f"{mcp.NOT_CALLED} '{request.tool}' of the MCP server '{request.server}'"
    if not envelope.retryable and envelope.category is not ErrorCategory.UNKNOWN:
        return ToolFailure.of(envelope.category, f"{where}: {envelope.message}", envelope.hint)
    return ToolFailure.of(ErrorCategory.OUTCOME_UNKNOWN, f"{where}: its answer was lost: {envelope.message}")


def _timed_out(request: mcp.CallServerToolInput) -> ToolFailure:
    category = ErrorCategory.TIMEOUT if request.repeats_safely else ErrorCategory.OUTCOME_UNKNOWN
    return ToolFailure.of(
        category,
        f"{mcp.NOT_CALLED} '{request.tool}' of the MCP server '{request.server}': it did not answer within "
        f"{request.timeout_seconds:g} seconds.",
    )


def _session_lost(name: str) -> ToolFailure:
    return ToolFailure.of(
        ErrorCategory.CONFLICT,
        f"{mcp.SESSION_LOST} {name} was lost: its process, its connection or its worker has ended. What the server "
        "kept only in this session is gone, and this call has no result.",
        "The same call may be made again: it opens another session. Repeat earlier calls that it builds on.",
    )


def _is_session_gone(error: BaseException, server: McpServer) -> bool:
    error = innermost(error)
    if not isinstance(error, MCPError):
        return True
    return error.code == mcp_types.CONNECTION_CLOSED or (isinstance(server, HttpServer) and _was_refused(error))


def _was_refused(error: BaseException) -> bool:
    """Return True for the answer 404 of a server that does not know the session any more: nothing was executed."""
    error = innermost(error)
    return (
        isinstance(error, MCPError)
        and error.code == mcp_types.INVALID_REQUEST
        and error.message == "Session terminated"
    )
