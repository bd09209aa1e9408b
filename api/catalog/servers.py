"""Tools of the MCP servers in the operator's file (OUTLAST_MCP_SERVERS_FILE), by the latest list of each server."""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Literal

from cachetools import TTLCache
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import TemporalError

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.mcp_servers.activities import without_secrets
from outlast.activities.mcp_servers.config import McpServer, ServerOptions, Servers, ServersFile
from outlast.activities.mcp_servers.pins import (
    PinChange,
    QuarantineReason,
    ServerPin,
    changes_of,
    pin_of,
    refusal_of,
    without_quarantined,
)
from outlast.activities.mcp_servers.suspicious import flags_of, flags_of_text
from outlast.activities.secrets import SecretSealer
from outlast.activities.unicode_text import printable, without_hidden
from outlast.api.errors import InvalidCall, PlatformUnavailable, ServerNotFound, ToolQuarantined
from outlast.worker.server_listings import listing_of, tools_from, variant_of
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ServerTarget
from outlast.workflows.tools.core.server_tools import SEPARATOR, server_tool_name
from outlast.workflows.tools.framework.tool import Tool

log = logging.getLogger("outlast.api")
FIRST_LIST_SECONDS = 20.0
"""Longest wait for servers that have not been listed yet. A package may have to be downloaded first; then its tools
are added to open connections later."""
_LIST_SECONDS = 120.0
_STATUS_SECONDS = 3.0
_LOOK_SECONDS = 2.0
_MAX_AGE_SECONDS = 300.0
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 4.0, 120.0
_IN_USE_SECONDS = 1_800.0
"""A server whose tools nobody has asked for during this time is not listed again."""
_MAX_INSTRUCTIONS_CHARS = 4_000
_MAX_CALLERS = 1_000
_NO_VARIANTS: Mapping[str, str] = MappingProxyType({})
_REQUEST_SECONDS = 75.0
"""Above the time limit of the request itself, whose reason is better."""
_CHANGES_QUERY = f"WorkflowType = '{mcp.SERVER_WORKFLOW}' AND ExecutionStatus = 'Running'"
ListKind = Literal["tools", "resources", "prompts"]
ListKinds = frozenset[ListKind]
ALL_LISTS: ListKinds = frozenset({"tools", "resources", "prompts"})


@dataclass(frozen=True)
class ServerNote:
    """What the instructions of a connection say of a server."""

    instructions: str | None = None
    is_missing: bool = False
    """True if its tools are not known."""
    error: str | None = None
    """Why they could not be listed the last time."""


@dataclass(frozen=True)
class OfferedServers:
    """The tools of all servers by name, and a note on each server."""

    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    notes: Mapping[str, ServerNote] = field(default_factory=dict[str, ServerNote])

    def names_of(self, selector: str) -> tuple[str, ...]:
        """Return the names of the tools of the server that `selector` names; empty if it names none."""
        return tuple(name for name, tool in self.tools.items() if tool.server and tool.server.server == selector)

    def instructions_for(self, tools: Iterable[Tool]) -> dict[str, str]:
        """Return the instructions of the servers of `tools`, by server."""
        used = {tool.server.server for tool in tools if tool.server is not None}
        return {name: note.instructions for name, note in self.notes.items() if name in used and note.instructions}

    @property
    def missing(self) -> tuple[str, ...]:
        """The servers whose tools are not known."""
        return tuple(name for name, note in self.notes.items() if note.is_missing)


NO_SERVERS = OfferedServers()


@dataclass(frozen=True)
class ServerReview:
    """What a person should look at before models get the tools of a server."""

    pin: ServerPin | None = None
    listed: ServerPin = field(default_factory=ServerPin)
    quarantined: Mapping[str, QuarantineReason] = field(default_factory=dict[str, QuarantineReason])
    """By the names that tools have on the server."""
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Suspicious parts of tools, by the names of the tools on the server. Tools without any are left out."""
    instruction_flags: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[PinChange, ...]:
        """The differences between the server and its pin; empty without a pin."""
        return changes_of(self.pin, self.listed) if self.pin is not None else ()

    @property
    def package_change(self) -> str | None:
        """How the package differs from that of the pin; None if it is the same."""
        if self.pin is None or self.pin.package == self.listed.package:
            return None
        was, now = (one.shown if one is not None else "none" for one in (self.pin.package, self.listed.package))
        return f"{was} → {now}"


@dataclass
class _Known:
    """The latest list of a server, and the state of reading it."""

    digest: str = ""
    options: ServerOptions | None = None
    listing: mcp.ServerListing | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    pin: ServerPin | None = None
    """The pin that decided which tools are offered."""
    quarantined: Mapping[str, QuarantineReason] = field(default_factory=dict[str, QuarantineReason])
    """Tools that are not offered, by their names on the server."""
    read_at: float | None = None
    """`time.monotonic()`, in seconds."""
    failures: int = 0
    retry_at: float = 0.0
    error: str | None = None
    is_up: bool | None = None
    """Whether the last attempt of a worker to list its tools succeeded; None before the first attempt."""
    reading: "asyncio.Task[None] | None" = None
    told: int | None = None
    """`ServerChanges.lists` as last seen."""
    heeded: int | None = None
    """`told` when the latest list was requested."""

    def is_current(self, digest: str, options: ServerOptions) -> bool:
        return (self.digest, self.options) == (digest, options) and self.read_at is not None

    @property
    def note(self) -> ServerNote:
        text = (self.listing.instructions or "").strip() if self.listing is not None else ""
        if self.pin is not None and self.listing is not None and self.pin.instructions != self.listing.instructions:
            text = ""
        text = without_hidden(text)
        cut = f"{text[: _MAX_INSTRUCTIONS_CHARS - 1]}…" if len(text) > _MAX_INSTRUCTIONS_CHARS else text
        return ServerNote(cut or None, is_missing=self.listing is None, error=self.error)


class ServerTools:
    """The servers of the file and their tools. Every worker and API process has the same file."""

    def __init__(
        self,
        file: ServersFile,
        client: Client,
        sealer: SecretSealer,
        *,
        caller: Caller | None = None,
        variants: Mapping[str, str] = _NO_VARIANTS,
    ) -> None:
        """With `caller`, these are the tools of servers that list them only with the secrets of that caller;
        `variants` are the names of its lists.
        """
        self._file = file
        self._client = client
        self._pins = file.lock.current
        self._sealer = sealer
        self._caller = caller
        self._variants = variants
        self._of_callers = TTLCache[tuple[object, ...], ServerTools](_MAX_CALLERS, _MAX_AGE_SECONDS)
        self._known: dict[str, _Known] = {}
        self._seen = frozenset(file.current)
        self._asked_at = float("-inf")
        self._listeners: list[Callable[[ListKinds], None]] = []
        self.revision = 0
        """It changes with each change of the tools."""

    @property
    def servers(self) -> Servers:
        """The servers of the file as it is now."""
        return self._file.current

    @property
    def problem(self) -> str | None:
        """Why the current file is not used; None if it is."""
        return self._file.problem

    @property
    def lock_problem(self) -> str | None:
        """Why the pins in force are not those of the lock file; None if they are."""
        _ = self._file.lock.current
        return self._file.lock.problem

    def on_change(self, listener: Callable[[ListKinds], None]) -> None:
        """Call `listener` after each change, with the lists that have changed."""
        self._listeners.append(listener)

    def listing_of(self, name: str) -> mcp.ServerListing | None:
        """Return the latest list of a server; None if it never was listed, or is not in the file."""
        known = self._known.get(name)
        return known.listing if known is not None else None

    async def request(
        self, name: str, method: mcp.RequestMethod, params: JsonObject, *, caller: Caller, conversation: str | None
    ) -> mcp.ServerReply:
        """Make a request that reads, in the session of the caller's calls. Raises `ServerNotFound`, and
        `PlatformUnavailable` if no worker answers in time.
        """
        server, known = self._server(name), self._known.get(name)
        listed = known.listing.tools if known is not None and known.listing is not None else ()
        offered = (tool for tool in listed if server.options.offers(tool.name))
        is_stateless = all(tool.read_only or tool.idempotent for tool in offered)
        scope = server.options.session or ("shared" if is_stateless else None)
        request_id = uuid.uuid4().hex
        call = ServerTarget(server=name, tool="", session=scope).for_call(
            caller_id=caller.id, conversation=conversation, task=request_id
        )
        request = mcp.RequestServerInput(
            caller_id=caller.id,
            caller_secrets=caller.server_secrets,
            server=name,
            session=call.session,
            session_key=call.session_key,
            tells_loss=False,
            method=method,
            params=params,
        )
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                return await self._client.execute_workflow(
                    mcp.REQUEST_WORKFLOW,
                    request,
                    id=mcp.REQUEST_WORKFLOW_PREFIX + request_id,
                    task_queue=TOOLS_TASK_QUEUE,
                    execution_timeout=timedelta(seconds=_REQUEST_SECONDS),
                    result_type=mcp.ServerReply,
                )
        except (TemporalError, TimeoutError) as error:
            raise PlatformUnavailable(f"The MCP server {name!r} has not answered: {_words(error)}") from error

    async def offered(self, names: Iterable[str] | None = None, caller: Caller | None = None) -> OfferedServers:
        """Return the tools of these servers (default: all), by their latest lists; waits for those without a list.

        With `caller`, also those of servers that list them only with the secrets of a caller.
        """
        common = await self._offered(names)
        own = await self._offered_to(caller, common) if caller is not None else NO_SERVERS
        if not own.notes:
            return common
        return OfferedServers(MappingProxyType({**common.tools, **own.tools}), {**common.notes, **own.notes})

    async def _offered_to(self, caller: Caller, common: OfferedServers) -> OfferedServers:
        servers = self.servers
        unlisted = [name for name in common.notes if name in servers and not common.names_of(name)]
        variants = {
            name: variant
            for name in unlisted
            if (variant := variant_of(servers[name], caller, self._sealer)) is not None
        }
        if not variants:
            return NO_SERVERS
        key = (caller.id, *sorted(variants.items()))
        own = self._of_callers.get(key)
        if own is None:
            own = ServerTools(self._file, self._client, self._sealer, caller=caller, variants=variants)
            self._of_callers[key] = own
        return await own._offered(variants)

    async def _offered(self, names: Iterable[str] | None = None) -> OfferedServers:
        self._asked_at = time.monotonic()
        self._apply_pins()
        servers = self.servers
        named = set(servers if names is None else names)
        wanted = [name for name in servers if name in named]
        reading = [task for name in wanted if (task := self._missing(name, servers)) is not None]
        if reading:
            await asyncio.wait(reading, timeout=FIRST_LIST_SECONDS)
        present = {name: self._known[name] for name in wanted if name in self._known}  # the file may have changed
        tools: dict[str, Tool] = {}
        for known in present.values():
            for tool_name, tool in known.tools.items():
                tools.setdefault(tool_name, tool)
        return OfferedServers(MappingProxyType(tools), {name: known.note for name, known in present.items()})

    async def find(self, tool_name: str, caller: Caller) -> Tool | None:
        """Return the tool of this name. Raises `ToolQuarantined`, `PlatformUnavailable` if its server has not been
        listed yet, and `InvalidCall` if it is listed only with secrets that the caller lacks.
        """
        servers = [name for name in self.servers if tool_name.startswith(f"{name}{SEPARATOR}")]
        if not servers:
            return None
        offered = await self.offered(servers, caller)
        found = offered.tools.get(tool_name)
        if found is None and (refusal := self.refusal(tool_name)) is not None:
            raise ToolQuarantined(refusal)
        for name in servers if found is None else ():
            lacking = [one for one in self.servers[name].caller_secrets if one not in caller.server_secrets]
            if lacking and not offered.names_of(name):
                raise InvalidCall(without_secrets(name, lacking, tool=tool_name).envelope)
        missing = [name for name, note in offered.notes.items() if note.is_missing]
        if found is None and missing:
            reason = offered.notes[missing[0]].error or "it has not answered yet"
            raise PlatformUnavailable(f"The tools of the MCP server {missing[0]!r} are not known: {reason}")
        return found

    async def listing(self, name: str, *, max_age_seconds: float) -> mcp.ServerListing:
        """Return a list that is not older. Raises `ServerNotFound`, and `PlatformUnavailable` without a worker."""
        server = self._server(name)
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                listing = await self._list(server, self.servers.digest(name), max_age_seconds)
        except (TemporalError, TimeoutError) as error:
            raise PlatformUnavailable(f"The MCP server {name!r} cannot be listed now: {_words(error)}") from error
        self._take(name, self.servers.digest(name), server.options, listing)
        return listing

    async def status(self, name: str) -> mcp.ServerStatus:
        """Return the state of a server. Raises `ServerNotFound`."""
        server = self._server(name)
        handle = self._client.get_workflow_handle(mcp.server_workflow_id(name))
        with suppress(TemporalError):
            return await handle.query(
                mcp.STATUS_QUERY, result_type=mcp.ServerStatus, rpc_timeout=timedelta(seconds=_STATUS_SECONDS)
            )
        return mcp.ServerStatus(server=name, kind=server.kind)

    async def statuses(self) -> tuple[mcp.ServerStatus, ...]:
        """Return the states of all servers, in the order of the file."""
        return tuple(await asyncio.gather(*(self.status(name) for name in self.servers)))

    def refusal(self, tool_name: str) -> ErrorEnvelope | None:
        """Return the error for a call of this name, if a tool that is quarantined would have it."""
        for server, known in self._known.items():
            for tool, reason in known.quarantined.items():
                if server_tool_name(server, tool) == tool_name:
                    message, hint = refusal_of(server, tool, reason)
                    return ErrorEnvelope.permanent(ErrorCategory.PERMISSION, tool_name, message, hint=hint)
        return None

    async def remember(self, statuses: Iterable[mcp.ServerStatus]) -> None:
        """Read the lists of servers that are up and that this process has not used yet."""
        servers = self.servers
        unread = [one.server for one in statuses if one.state == "up" and one.server in servers]
        reading = [
            self._read(name, servers) for name in unread if name not in self._known or not self._known[name].listing
        ]
        if reading:
            await asyncio.wait(reading, timeout=_STATUS_SECONDS)

    async def review(self, name: str) -> ServerReview:
        """Return what a person should look at, by the latest list; an empty review without a list."""
        self._apply_pins()
        known = self._known.get(name)
        if known is None or known.listing is None:
            return ServerReview()
        listing = known.listing
        own = {tool.name for tool in listing.tools}
        others = {
            called
            for other, one in self._known.items()
            if other != name
            for tool in one.tools.values()
            if tool.server is not None
            for called in (tool.name, tool.server.tool)
            if called not in own
        }

        def reviewed() -> ServerReview:
            flags = {tool.name: found for tool in listing.tools if (found := flags_of(tool, others))}
            instruction_flags = flags_of_text(listing.instructions or "", others)
            return ServerReview(known.pin, pin_of(listing), known.quarantined, flags, instruction_flags)

        return await asyncio.to_thread(reviewed)

    def listed(self, name: str, tool: str) -> mcp.ServerTool | None:
        """Return the tool as the server describes it, also if it is not offered."""
        known = self._known.get(name)
        tools = known.listing.tools if known is not None and known.listing is not None else ()
        return next((one for one in tools if one.name == tool), None)

    def states(self) -> dict[str, bool]:
        """Return whether each server could be listed at the last attempt; nothing while nobody uses the servers."""
        if not self._are_used():
            return {}
        return {name: known.is_up for name, known in self._known.items() if known.is_up is not None}

    def tools_of(self, name: str) -> Sequence[Tool]:
        """Return the tools of a server by its latest list."""
        return tuple(self._known[name].tools.values()) if name in self._known else ()

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Keep the lists of servers in use current, during the block."""
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            reading = [known.reading for known in self._known.values() if known.reading is not None]
            for task in (watch, *reading):
                task.cancel()
            await asyncio.gather(watch, *reading, return_exceptions=True)

    def _server(self, name: str) -> McpServer:
        servers = self.servers
        if name not in servers:
            known = ", ".join(servers) or "none"
            raise ServerNotFound(f"There is no MCP server {name[:64]!r} in the servers file. Servers: {known}.")
        return servers[name]

    def _apply_pins(self) -> None:
        """Decide again which tools are offered, if the pins have changed."""
        pins = self._file.lock.current
        if pins is self._pins:
            return
        self._pins = pins
        changed = [name for name, known in self._known.items() if known.pin != pins.get(name)]
        for name in changed:
            self._offer(name)
        if changed:
            self._changed(frozenset({"tools"}))

    def _offer(self, name: str) -> None:
        """Offer the tools of the latest list that are not quarantined."""
        known = self._known[name]
        known.pin = self._file.lock.current.get(name)
        if known.listing is None or known.options is None:
            return
        listing, quarantined = without_quarantined(known.listing, known.pin)
        for tool, reason in quarantined.items():
            if known.quarantined.get(tool) != reason:
                log.warning("%s", printable(refusal_of(name, tool, reason)[0]))
        known.quarantined = quarantined
        offered = tools_from(name, listing, known.options, known.digest)
        known.tools = MappingProxyType({tool.name: tool for tool in offered})

    def _missing(self, name: str, servers: Servers) -> "asyncio.Task[None] | None":
        """Begin to read the list of a server without one, and return the work; None for one with a current list."""
        known = self._known.setdefault(name, _Known())
        if known.is_current(servers.digest(name), servers[name].options):
            return None
        if known.reading is None and time.monotonic() < known.retry_at and known.digest == servers.digest(name):
            return None
        return self._read(name, servers)

    def _read(self, name: str, servers: Servers) -> "asyncio.Task[None]":
        known = self._known.setdefault(name, _Known())
        if known.reading is None:
            known.reading = asyncio.create_task(self._reading(name, servers[name], servers.digest(name)))
        return known.reading

    async def _reading(self, name: str, server: McpServer, digest: str) -> None:
        known = self._known[name]
        told = known.told
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                # Workers list only the tools that the options offer, and the digest does not contain these.
                has_other_options = known.options is not None and known.options != server.options
                max_age_seconds = 0.0 if has_other_options else _MAX_AGE_SECONDS / 2
                listing = await self._list(server, digest, max_age_seconds)
        except (TemporalError, TimeoutError) as error:
            self._failed(name, digest, _words(error))
        else:
            self._take(name, digest, server.options, listing)
            known.heeded = told
        finally:
            known.reading = None

    async def _list(self, server: McpServer, digest: str, max_age_seconds: float) -> mcp.ServerListing:
        variant = self._variants.get(server.name)
        return await listing_of(self._client, server, digest, max_age_seconds, self._caller, variant)

    def _take(self, name: str, digest: str, options: ServerOptions, listing: mcp.ServerListing) -> None:
        """Keep a list. One without tools because of an error does not replace another."""
        known = self._known.setdefault(name, _Known())
        known.is_up = listing.error is None
        if listing.error is not None and not listing.tools:
            self._failed(name, digest, listing.error)
            return
        for note in listing.notes if known.listing is None or known.listing.notes != listing.notes else ():
            log.warning("MCP server %s: %s", name, note)
        is_other = (known.digest, known.options) != (digest, options)
        changed = ALL_LISTS if is_other else _changed_lists(known.listing, listing)
        known.failures, known.error = (known.failures + 1, listing.error) if listing.error else (0, None)
        known.retry_at = _retry_at(known.failures)
        known.digest, known.options, known.listing, known.read_at = digest, options, listing, time.monotonic()
        if changed:
            if "tools" in changed:
                self._offer(name)
            self._changed(changed)

    def _failed(self, name: str, digest: str, reason: str) -> None:
        known = self._known.setdefault(name, _Known())
        known.failures += 1
        known.retry_at, known.error = _retry_at(known.failures), reason
        log.warning("The tools of the MCP server %s are not listed: %s", name, reason)
        if known.digest != digest:
            known.digest, known.read_at = digest, None

    def _changed(self, kinds: ListKinds) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener(kinds)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self._read_changes()
            except Exception as error:  # noqa: BLE001 (lists are read again without it, only later)
                log.debug("Changes of MCP servers cannot be read: %r", error)
            try:
                self._look()
            except Exception:
                log.exception("The MCP servers cannot be looked after")

    def _are_used(self) -> bool:
        return time.monotonic() - self._asked_at <= _IN_USE_SECONDS

    async def _read_changes(self) -> None:
        """Read what servers have told workers of. Nothing is read while nobody uses a server."""
        if not self._known or not self._are_used():
            return
        async for found in self._client.list_workflows(_CHANGES_QUERY):
            known = self._known.get(found.id.removeprefix(mcp.SERVER_WORKFLOW_PREFIX))
            if known is not None:
                changes = await found.memo_value(mcp.CHANGES_MEMO, mcp.ServerChanges(), type_hint=mcp.ServerChanges)
                known.told = changes.lists

    def _look(self) -> None:
        """Read the lists that are due and those of new servers, and forget servers that the file no longer has."""
        servers, now = self.servers, time.monotonic()
        self._apply_pins()
        gone = [name for name in self._known if name not in servers]
        for name in gone:
            known = self._known.pop(name)
            if known.reading is not None:
                known.reading.cancel()
        if any(gone):
            self._changed(ALL_LISTS)
        new, self._seen = servers.keys() - self._seen, frozenset(servers)
        if not self._are_used():
            return
        for name in servers:
            known = self._known.get(name)
            if known is None and name in new:
                self._read(name, servers)
            if known is None or now < known.retry_at:
                continue
            is_old = known.read_at is None or now - known.read_at > _MAX_AGE_SECONDS or known.failures > 0
            is_old = is_old or known.heeded != known.told
            if is_old or not known.is_current(servers.digest(name), servers[name].options):
                self._read(name, servers)


def _changed_lists(before: mcp.ServerListing | None, now: mcp.ServerListing) -> ListKinds:
    if before is None:
        return ALL_LISTS
    parts: tuple[tuple[ListKind, bool], ...] = (
        ("tools", (before.tools, before.instructions) != (now.tools, now.instructions)),
        ("resources", (before.resources, before.resource_templates) != (now.resources, now.resource_templates)),
        ("prompts", before.prompts != now.prompts),
    )
    return frozenset(kind for kind, has_changed in parts if has_changed)


def _retry_at(failures: int) -> float:
    if failures == 0:
        return 0.0
    return time.monotonic() + min(_FIRST_PAUSE_SECONDS * 2 ** (failures - 1), _LAST_PAUSE_SECONDS)


def _words(error: Exception) -> str:
    """Return the reason in words that hold nothing of the file."""
    match error:
        case TimeoutError():
            return "no worker with the servers file has answered in time"
        case WorkflowUpdateFailedError():
            return str(error.cause or error)[:300]
        case _:
            return f"Temporal cannot be reached ({type(error).__name__})"
