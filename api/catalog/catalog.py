"""The catalog: tools that a caller is offered, direct Actor tools included, and the masks that narrow them."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from cachetools import LRUCache, TTLCache
from pydantic import JsonValue

from outlast.activities.actors.activities import ActorDefinition, actor_of_saved_task, fetch_actor_definition
from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.classify import classify
from outlast.activities.mcp_servers.activities import fetch_mcp_tools
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.api.catalog.builtin_tools import EVERY_BUILTIN_TOOL, OWN_TOOLS, BuiltinTools
from outlast.api.catalog.servers import NO_SERVERS, OfferedServers, ServerTools
from outlast.api.errors import (
    BadRequest,
    InvalidCall,
    MaskedToolCalled,
    PlatformUnavailable,
    Unauthenticated,
    UnknownToolCalled,
)
from outlast.api.metrics import MASK_RESOLUTIONS
from outlast.api.settings import ApiSettings
from outlast.workflows.contracts.tool_masks import Outcome, Resolution, canonical, masked_tool, resolve
from outlast.workflows.tools import registry
from outlast.workflows.tools.common.invalid import unknown_tool_envelope
from outlast.workflows.tools.core.actor_mcp import proxied_tools, standby_without_server, tool_not_named
from outlast.workflows.tools.core.actor_names import (
    actor_tool_name,
    normalised_actor,
    possible_servers,
    split_actor_tool,
    without_address,
)
from outlast.workflows.tools.core.server_tools import SEPARATOR
from outlast.workflows.tools.core.standard_selection import STANDARD
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.selection import DEFAULT_SELECTORS, TOOL_ALIASES, Selection, UnknownTag
from outlast.workflows.tools.framework.tool import Category, Tool, values_at

log = logging.getLogger("outlast.api")
_MAX_NAMES = 50
_DEFINITION_SECONDS = 300
_MAX_DEFINITIONS = 5_000
_BUILD_NUMBER = re.compile(r"\d+\.\d+(?:\.\d+)?")


@dataclass(frozen=True)
class CalledActor:
    """The Actor that a call runs: `user/name`, or `user/name:tool` for a tool of an Actor that is an MCP server.

    `input_schema` is None for tools of MCP servers, whose Actor checks the input. Each field is None while unknown.
    """

    name: str
    input_schema: dict[str, JsonValue] | None
    actor_id: str | None = None
    is_standby: bool = False
    is_mcp_server: bool = False
    build_number: str | None = None
    """Of the build that runs by default; None while it is not known."""
    named_build: str | None = None
    """The build in the Actor's name, as in `user/name:latest`."""


class Catalogue:
    """Loads Actor definitions on first use and caches them for five minutes."""

    def __init__(
        self,
        platform: ApifyPlatform,
        *,
        actors: tuple[str, ...],
        selectors: tuple[str, ...] = DEFAULT_SELECTORS,
        builtin: BuiltinTools = EVERY_BUILTIN_TOOL,
        defaults_need_token: bool = False,
        servers: ServerTools | None = None,
    ) -> None:
        """Offer `actors` as separate tools, and `selectors` to connections without a selection, as far as `builtin`
        has them. With `defaults_need_token`, and once the operator has loaded tools or has MCP servers, offer these
        and the operator's to callers with an Apify token, and only the operator's to all others.
        """
        self._platform = platform
        self.builtin = builtin
        self.servers = servers
        """The MCP servers in the operator's file; None without a file."""
        self._defaults_need_token = defaults_need_token
        self._actors = tuple(actor for actor in actors if builtin.has_actor(actor))
        self._selectors = selectors
        self._definitions = TTLCache[_CallersActor, ActorDefinition | None](_MAX_DEFINITIONS, _DEFINITION_SECONDS)
        self._loaded = LRUCache[tuple[str, str], str](_MAX_DEFINITIONS)
        """The Actors of tools, by caller and tool: a shortened tool name does not contain its Actor."""
        self._proxied = TTLCache[_CallersActor, tuple[Tool, ...]](_MAX_DEFINITIONS, _DEFINITION_SECONDS)

    @property
    def server_names(self) -> tuple[str, ...]:
        """The MCP servers in the operator's file."""
        return tuple(self.servers.servers) if self.servers is not None else ()

    async def tools(self, mode: str, caller: Caller) -> registry.ToolSet:
        """Return all tools of `mode`, of MCP servers, and of the default Actors that can be loaded. Raises
        `UnknownToolCalled` for an unknown mode.
        """
        tools, served = self._base(mode), await self._server_tools(caller)
        loaded = [definition for actor in self._actors for definition in await self._load_actor(mode, actor, caller)]
        return registry.tool_set(mode, [*_served(tools).tools.values(), *served.tools.values(), *loaded])

    async def listed(self, mode: str, caller: Caller) -> registry.ToolSet:
        """Return the tools for a list of them without a selection: all, or the operator's. Raises as `tools` does."""
        self._base(mode)  # raises for an unknown mode
        if self._has_defaults(mode, caller):
            return await self.tools(mode, caller)
        served = await self._server_tools(caller)
        own = OWN_TOOLS.offered(mode, served.tools.values())
        return registry.tool_set(mode, [*_served(own).tools.values(), *served.tools.values()])

    def _has_defaults(self, mode: str, caller: Caller) -> bool:
        """Return whether Apify's tools are in the default set. Modes with other rules have their own defaults."""
        has_own_defaults = registry.selection_rules(mode) is not STANDARD
        has_account = not self._defaults_need_token or caller.apify_token is not None
        has_own_tools = bool(registry.loaded_tools() or self.server_names)
        return has_own_defaults or has_account or not has_own_tools

    async def load(self, selection: Selection, caller: Caller) -> registry.ToolSet:
        """Return the tools of a connection's `selection`. Raises `UnknownToolCalled` for an unknown mode, and
        `BadRequest` for an unknown tag.
        """
        chosen = replace(selection, default_selectors=self._selectors, default_actors=self._actors)
        self._base(selection.mode)  # raises for an unknown mode
        served = await self._server_tools(caller, self._selected_servers(chosen.selectors))
        available = self._base(selection.mode, served.tools.values()).tools
        if selection.selectors is None and not self._has_defaults(selection.mode, caller):
            chosen = replace(selection, default_selectors=(), default_actors=())
            available = OWN_TOOLS.offered(selection.mode, served.tools.values()).tools
        if chosen.selectors is not None and served.notes:
            chosen = replace(chosen, selectors=_with_server_tools(chosen.selectors, served, available))

        async def load_actor(actor: str) -> tuple[Tool, ...]:
            return await self._load_actor(selection.mode, normalised_actor(actor), caller)

        try:
            loaded = await registry.load_tools(chosen, load_actor, {**available, **served.tools})
        except UnknownTag as error:
            raise BadRequest(str(error)) from error
        return replace(
            loaded,
            server_instructions=served.instructions_for(loaded.tools.values()),
            missing_servers=served.missing,
        )

    async def actor_tools(self, mode: str, actor: str, caller: Caller) -> tuple[Tool, ...]:
        """Return the tool of `actor`, or its tools if it is an MCP server; empty, with a warning, if it cannot be
        loaded.
        """
        return await self._load_actor(mode, normalised_actor(actor), caller)

    async def resolve(self, mode: str, name: str, caller: Caller) -> Tool:
        """Return the tool called `name`, also of Actors: `user--name`, or `user--name-tool` for an MCP server's tool.

        Raises `UnknownToolCalled`, or `PlatformUnavailable` when an Actor cannot be looked up.
        """
        base = self._base(mode)
        name = name if name in base.tools else TOOL_ALIASES.get(name, name)
        if name not in base.tools and self.server_names and name in registry.base_tools(mode).tools:
            # It may collect results of servers' tools, although it is switched off.
            base = self._base(mode, (await self._server_tools(caller)).tools.values())
        if name in base.tools:
            return base.tools[name]
        found = await self.servers.find(name, caller) if self.servers is not None else None
        if found is not None:
            return found
        actor = self._loaded.get((caller.id, name)) or _actor_named(name, self._actors)
        definition = await self._offered_actor(actor, caller) if actor else None
        if definition is not None and standby_refusal(mode, name, _called(definition)) is None:
            return _tool_of(mode, definition)
        proxied = await self._proxied_tool(mode, name, caller)
        if proxied is not None:
            return proxied
        try:
            return base.get(name)
        except registry.UnknownTool as error:
            raise UnknownToolCalled(error.envelope) from error

    async def called_actor(
        self, tool: Tool, arguments: Mapping[str, JsonValue], caller: Caller, *, by_full_name: bool
    ) -> CalledActor | None:
        """Return the Actor that a call of `tool` runs; None if it runs none.

        With `by_full_name`, raises `PlatformUnavailable` if the platform cannot resolve the Actor; otherwise the result
        then has the name as written, and no schema.
        """
        if tool.actor is not None:
            found = await self._definition(split_actor_tool(tool.actor)[0], caller) if by_full_name else None
            actor_id, build_number = (found.actor_id, found.build_number) if found else (None, None)
            return CalledActor(tool.actor, tool.input_schema, actor_id, build_number=build_number)
        written = arguments.get("actor")
        if not tool.calls_actor or not isinstance(written, str):
            return None
        name, mcp_tool = split_actor_tool(written)
        try:
            definition = await self._definition(name, caller)
        except PlatformUnavailable:
            if by_full_name:
                raise
            definition = None
        if definition is None:
            return CalledActor(f"{name}:{mcp_tool}" if mcp_tool is not None else name, None)
        if mcp_tool is not None and _is_build(mcp_tool, definition):
            return replace(_called(definition), named_build=mcp_tool)
        if mcp_tool is not None:
            return CalledActor(f"{definition.full_name}:{mcp_tool}", None, definition.actor_id, definition.is_standby)
        return _called(definition)

    async def actor(self, written: str, caller: Caller) -> CalledActor | None:
        """Return the Actor with this name or id; None if the caller has no access. Raises `PlatformUnavailable`."""
        found = await self._definition(normalised_actor(written), caller)
        return CalledActor(found.full_name, found.input_schema, found.actor_id) if found is not None else None

    async def actor_of_task(self, written: str, caller: Caller) -> CalledActor | None:
        """Return the Actor of a saved task; None if absent. Raises `PlatformUnavailable`, and `InvalidCall` without
        access.
        """
        try:
            actor_id = await actor_of_saved_task(self._platform.client(caller), without_address(unquoted(written)))
        except Exception as error:
            envelope = classify(error)
            if envelope.category is ErrorCategory.PERMISSION:
                raise InvalidCall(envelope) from error
            if envelope.category is not ErrorCategory.NOT_FOUND:
                raise PlatformUnavailable(f"Cannot look up the saved task {written}: {envelope.message}") from error
            return None
        return await self.actor(actor_id, caller) if actor_id is not None else None

    async def full_names(self, ids: Iterable[str], caller: Caller) -> dict[str, str]:
        """Return the full names of those Actors that the caller has access to. Raises `PlatformUnavailable`."""
        found = {actor_id: await self._definition(actor_id, caller) for actor_id in ids}
        return {actor_id: definition.full_name for actor_id, definition in found.items() if definition is not None}

    def servers_of(self, selection: Selection, tools: registry.ToolSet) -> tuple[str, ...]:
        """Return the servers of which a connection has a tool in `tools`, or selects all and there are no tools."""
        used = {tool.server.server for tool in tools.tools.values() if tool.server is not None}
        selectors = selection.selectors
        is_all = selectors is None or Category.SERVERS in selectors
        return tuple(
            name
            for name in self.server_names
            if name in used
            or ((is_all or name in (selectors or ())) and self.servers is not None and not self.servers.tools_of(name))
        )

    def _selected_servers(self, selectors: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return the servers of which a selection may have tools."""
        if selectors is None or Category.SERVERS in selectors:
            return self.server_names
        return tuple(name for name in self.server_names if any(_means_server(selector, name) for selector in selectors))

    async def _server_tools(self, caller: Caller, names: Iterable[str] | None = None) -> OfferedServers:
        return await self.servers.offered(names, caller) if self.servers is not None else NO_SERVERS

    def _base(self, mode: str, beside: Iterable[Tool] = ()) -> registry.ToolSet:
        """Return Outlast's tools that are offered, and those that collect the results of tools `beside` them."""
        try:
            return self.builtin.offered(mode, beside)
        except registry.UnknownTool as error:
            raise UnknownToolCalled(error.envelope) from error

    async def _load_actor(self, mode: str, actor: str, caller: Caller) -> tuple[Tool, ...]:
        if actor in registry.base_tools(mode).tools:
            return ()  # The selection names a tool that is switched off.
        try:
            definition = await self._offered_actor(actor, caller)
            if definition is not None and definition.mcp_path is not None:
                return registry.mcp_tools_of(
                    mode, definition.full_name, await self._mcp_tools(definition.full_name, caller)
                )
        except (PlatformUnavailable, Unauthenticated) as error:
            log.warning("Actor %s is not offered: %s", actor, error)
            return ()
        if definition is None:
            reason = "the platform has no such Actor" if self.builtin.has_actors else "OUTLAST_BUILTIN_TOOLS"
            log.warning("Actor %s is not offered: %s", actor, reason)
            return ()
        if standby_refusal(mode, actor, _called(definition)) is not None:
            log.warning("Actor %s is not offered: it runs in standby mode without an MCP server", actor)
            return ()
        tool = _tool_of(mode, definition)
        self._loaded[caller.id, tool.name] = definition.full_name
        return (tool,)

    async def _mcp_tools(self, actor: str, caller: Caller) -> tuple[Tool, ...]:
        """Return the tools of an Actor that is an MCP server; cached for five minutes."""
        key = (caller.id, actor)
        known = self._proxied.get(key)
        if known is not None:
            return known
        try:
            listed = await fetch_mcp_tools(self._platform, caller, actor)
        except Exception as error:
            raise PlatformUnavailable(f"Cannot list the tools of {actor}: {classify(error).message}") from error
        for note in listed.notes:
            log.warning("MCP server %s: %s", actor, note)
        tools = self._proxied[key] = proxied_tools(actor, listed.tools)
        return tools

    async def _proxied_tool(self, mode: str, name: str, caller: Caller) -> Tool | None:
        """Return a tool of a known MCP server, or of the Actor whose name begins `name`."""
        known = [
            actor
            for (caller_id, actor), tools in list(self._proxied.items())
            if caller_id == caller.id and any(tool.name == name for tool in registry.mcp_tools_of(mode, actor, tools))
        ]
        for actor in (*known, *possible_servers(name)):
            definition = await self._offered_actor(actor, caller)
            if definition is None or definition.mcp_path is None:
                continue
            tools = registry.mcp_tools_of(
                mode, definition.full_name, await self._mcp_tools(definition.full_name, caller)
            )
            found = next((tool for tool in tools if tool.name == name), None)
            if found is not None:
                return found
        return None

    async def _offered_actor(self, actor: str, caller: Caller) -> ActorDefinition | None:
        """Return an Actor that may be offered as a tool; None if absent or switched off."""
        definition = await self._definition(actor, caller) if self.builtin.has_actors else None
        return definition if definition is not None and self.builtin.has_actor(definition.full_name) else None

    async def _definition(self, actor: str, caller: Caller) -> ActorDefinition | None:
        key = (caller.id, actor)
        with suppress(KeyError):  # a missing Actor is kept too, as None
            return self._definitions[key]
        try:
            definition = await fetch_actor_definition(self._platform.client(caller), actor)
        except Exception as error:
            envelope = classify(error)
            if envelope.category is ErrorCategory.AUTHENTICATION:
                raise Unauthenticated(
                    f"Cannot look up the Actor {actor}: {envelope.message} {envelope.hint}"
                ) from error
            if envelope.category is not ErrorCategory.NOT_FOUND:
                raise PlatformUnavailable(f"Cannot look up the Actor {actor}: {envelope.message}") from error
            definition = None
        self._definitions[key] = definition
        return definition


def _means_server(selector: str, server: str) -> bool:
    """Return whether a selector is the server or one of its tools."""
    return selector == server or selector.startswith(f"{server}{SEPARATOR}")


def _with_server_tools(
    selectors: tuple[str, ...], served: OfferedServers, available: Mapping[str, Tool]
) -> tuple[str, ...]:
    """Replace servers, and the category of all, with the names of their tools. A server without a list has none."""
    names: list[str] = []
    for selector in selectors:
        if selector == Category.SERVERS:
            own = (name for name, tool in available.items() if tool.category is Category.SERVERS)
            names += [*own, *served.tools]
        elif selector in served.notes:
            is_more = selector in available or selector in set(Category)
            names += [*((selector,) if is_more else ()), *served.names_of(selector)]
        elif selector in served.tools or not any(_means_server(selector, name) for name in served.notes):
            names.append(selector)
        else:
            log.warning("The tool %s is not offered: its MCP server has no such tool", selector)
    return tuple(dict.fromkeys(names))


def _served(tools: registry.ToolSet) -> registry.ToolSet:
    """Return the tools that need no connection."""
    return registry.tool_set(tools.mode, (one for one in tools.tools.values() if not one.needs_connection))


_CallersActor = tuple[str, str]
"""A caller's id, and an Actor as it was named."""


def standby_refusal(mode: str, tool: str, actor: CalledActor) -> ErrorEnvelope | None:
    """Explain why `tool` may not run the Actor itself in this mode (`Mode.runs_standby`); None if it may."""
    name, mcp_tool = split_actor_tool(actor.name)
    if not actor.is_standby or mcp_tool is not None or registry.MODES[mode].runs_standby:
        return None
    if actor.is_mcp_server:
        return tool_not_named(tool, name)
    return None if (actor.input_schema or {}).get("properties") else standby_without_server(tool, name)


def _is_build(suffix: str, definition: ActorDefinition) -> bool:
    """Check that `user/name:suffix` names a build, not a tool: the Actor is not an MCP server."""
    return definition.mcp_path is None and (suffix in definition.build_tags or bool(_BUILD_NUMBER.fullmatch(suffix)))


def _called(definition: ActorDefinition) -> CalledActor:
    return CalledActor(
        definition.full_name,
        definition.input_schema,
        definition.actor_id,
        definition.is_standby,
        definition.mcp_path is not None,
        definition.build_number,
    )


def _tool_of(mode: str, definition: ActorDefinition) -> Tool:
    return registry.actor_tool_of(
        mode,
        definition.full_name,
        title=definition.title,
        description=definition.description,
        schema=definition.input_schema,
        picture_url=definition.picture_url,
        default_memory_mbytes=definition.default_memory_mbytes,
    )


def _actor_named(tool_name: str, known: tuple[str, ...]) -> str | None:
    """Return the Actor whose direct tool has this name."""
    user, separator, name = tool_name.replace("-dot-", ".").partition("--")
    written = f"{user}/{name}" if separator and user and name else None
    return next((actor for actor in known if actor_tool_name(actor) == tool_name), written)


async def planned_actors(
    catalogue: Catalogue, tool: Tool, arguments: JsonObject, caller: Caller
) -> tuple[CalledActor, ...]:
    """Return the Actors that the call will run later. Raises `PlatformUnavailable`, and `InvalidCall` for unknown ones,
    to which no rule can be applied.
    """
    found: list[CalledActor] = []
    for places, look_up, kind in (
        (tool.planned_actors, catalogue.actor, "Actor"),
        (tool.planned_tasks, catalogue.actor_of_task, "saved task"),
    ):
        named = [str(value) for place in places for value in values_at(arguments, place)]
        for name in dict.fromkeys(named):
            actor = await look_up(name, caller)
            if actor is None:
                raise _unknown(tool, kind, name)
            found.append(actor)
    return tuple(found)


def _unknown(tool: Tool, kind: str, name: str) -> InvalidCall:
    message = f"There is no {kind} {name[:200]!r} here, and this server's permissions depend on the Actor."
    hint = "Name it in full, as `user/name`, or by its id."
    return InvalidCall(ErrorEnvelope.permanent(ErrorCategory.NOT_FOUND, tool.name, message, hint=hint))


class MaskGate:
    """Masks at the entry points: on or off by the settings, resolved in one way, logged and counted."""

    def __init__(self, settings: ApiSettings) -> None:
        self._on = settings.masks_are_heeded

    def effective(
        self, mask: Mapping[str, bool] | None, names: Mapping[str, str] = TOOL_ALIASES
    ) -> dict[str, bool] | None:
        """Return `mask` by the tools' own names, which `names` has by shown name; None without a mask or with masking
        off.
        """
        if mask and not self._on:
            record(Resolution((), {}, Outcome.SWITCHED_OFF))
            return None
        return canonical(mask, {**TOOL_ALIASES, **names}) if mask else None

    def admit(self, tool: str, mask: Mapping[str, bool] | None, available: Iterable[str]) -> None:
        """Raise `MaskedToolCalled`, which names the active tools, unless an effective `mask` leaves `tool` active."""
        resolution = resolve((*available, tool), mask)
        record(resolution, tool)
        if tool not in resolution.active:
            raise MaskedToolCalled(masked_tool(tool, resolution))


def record(resolution: Resolution, tool: str | None = None) -> None:
    """Log what was selected, what was skipped and why, and count the outcome."""
    MASK_RESOLUTIONS.labels(resolution.outcome.value).inc()
    level = logging.DEBUG if resolution.outcome is Outcome.UNMASKED else logging.INFO
    log.log(level, "tool mask resolved", extra={"tool": tool, **resolution.facts()})


def narrowed(unknown: ErrorEnvelope, mask: Mapping[str, bool] | None) -> ErrorEnvelope:
    """Return the error for a tool that does not exist; it names only tools that an effective `mask` leaves active."""
    if mask is None or unknown.allowed_tools is None:
        return unknown
    return unknown_tool_envelope(unknown.tool, resolve(unknown.allowed_tools, mask).active)


def log_listing(tools: registry.ToolSet, selectors: Sequence[str] | None, *, caller: str) -> None:
    """Log the number, selection and origin of listed tools, and missing ones.

    `selectors` is None for the default selection. `hidden` counts the mode's own tools that are not listed.
    """
    listed = tools.tools.values()
    servers = Counter(split_actor_tool(one.actor)[0] for one in listed if one.actor and not one.calls_actor)
    servers.update(one.server.server for one in listed if one.server is not None)
    facts = {
        "caller": caller,
        "mode": tools.mode,
        "tools": len(listed),
        "hidden": len(registry.base_tools(tools.mode).tools.keys() - tools.tools.keys()),
        "selected": "default" if selectors is None else list(selectors[:_MAX_NAMES]),
        "actors": sum(1 for one in listed if one.actor and one.calls_actor),
        "mcp_servers": dict(servers),
        "not_loaded": list((*tools.missing_actors, *tools.missing_servers)[:_MAX_NAMES]),
    }
    log.info("tools listed", extra=facts)
