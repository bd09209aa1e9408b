"""Resources, prompts and completion of the operator's MCP servers, for clients of Outlast."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mcp_types as types
from cachetools import LRUCache
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from outlast.activities.contracts import JsonObject
from outlast.activities.mcp_servers.contracts import RequestMethod, ServerListing
from outlast.api.access.permissions import CallName, PermissionRules
from outlast.api.audit.records import AuditEvent
from outlast.api.catalog.server_uris import AmbiguousUri, OwnUri, ServerUris
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.protocol.versions import with_mcp_errors
from outlast.api.services import Services
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.core.server_tools import SEPARATOR, server_tool_name
from outlast.workflows.tools.framework.tool import Tool

PAGE_ENTRIES = 500
_MAX_OFFERS = 64


@dataclass(frozen=True)
class OfferedPrompt:
    """A prompt of a server, and its entry in `prompts/list`."""

    server: str
    name: str
    entry: JsonObject


@dataclass(frozen=True)
class Offer:
    """What a client is offered of servers beside their tools."""

    listings: Mapping[str, ServerListing]
    uris: ServerUris
    resources: tuple[JsonObject, ...]
    """The entries of `resources/list`."""
    templates: tuple[JsonObject, ...]
    """The entries of `resources/templates/list`."""
    prompts: Mapping[str, OfferedPrompt]
    """By their names in `prompts/list`."""

    @classmethod
    def of(cls, listings: Mapping[str, ServerListing], is_ours: Callable[[str], bool]) -> "Offer":
        """Build the offer of these servers. `is_ours` is true for the URIs of Outlast's own resources."""
        uris = ServerUris(listings, is_ours)
        resources = (
            {**entry, "uri": uris.shown(name, str(entry["uri"]))}
            for name, listing in listings.items()
            for entry in listing.resources
        )
        templates = (
            {**entry, "uriTemplate": uris.shown_template(name, str(entry["uriTemplate"]))}
            for name, listing in listings.items()
            for entry in listing.resource_templates
        )
        return cls(listings, uris, tuple(resources), tuple(templates), _prompts(listings))


class ServerFeatures:
    """What clients get of MCP servers beside tools: of servers in their selection of which they may use a tool."""

    def __init__(self, services: Services, connections: Connections, is_ours: Callable[[Client, str], bool]) -> None:
        """`is_ours` is true for the URIs of Outlast's own resources, as the client sees them."""
        self._is_ours = is_ours
        self._services = services
        self._connections = connections
        self._servers = services.server_tools
        self._offers: LRUCache[tuple[object, ...], Offer] = LRUCache(_MAX_OFFERS)

    async def offer(self, client: Client) -> Offer:
        """Return what the client is offered."""
        if self._servers is None:
            return _NOTHING
        tools = await with_mcp_errors(self._connections.tools(client))
        selected = self._services.catalogue.servers_of(client.connection.selection, tools)
        offered = (await self._servers.offered(selected, client.caller)).tools.values()
        rules = PermissionRules.of(self._services.policy.current)
        by_server = {
            name: [tool for tool in offered if tool.server and tool.server.server == name] for name in selected
        }
        allowed = [name for name in selected if _may_use(rules, client.caller.id, name, by_server[name])]
        key = (self._servers.revision, client.mode, *allowed)
        known = self._offers.get(key)
        if known is None:
            listings = {name: found for name in allowed if (found := self._servers.listing_of(name)) is not None}
            known = self._offers[key] = Offer.of(listings, lambda uri: self._is_ours(client, uri))
        return known

    async def read(self, client: Client, offer: Offer, uri: str) -> JsonObject | None:
        """Answer `resources/read`; None for a URI of no server. Raises `MCPError`, also of the server."""
        target = target_in(offer, uri)
        if target is None:
            return None
        found = await self._request(client, target.server, "resources/read", {"uri": target.uri})
        for content in _objects(found.get("contents")):
            own = str(content.get("uri"))
            content["uri"] = uri if own == target.uri else offer.uris.shown(target.server, own)
        return found

    async def prompt(
        self, client: Client, offer: Offer, prompt: OfferedPrompt, arguments: Mapping[str, str]
    ) -> JsonObject:
        """Answer `prompts/get`. Raises `MCPError`, also of the server."""
        params: JsonObject = {"name": prompt.name, "arguments": dict(arguments)}
        found = await self._request(client, prompt.server, "prompts/get", params)
        for message in _objects(found.get("messages")):
            _show_link(offer, prompt.server, message.get("content"))
        return found

    async def complete(self, client: Client, offer: Offer, params: types.CompleteRequestParams) -> JsonObject | None:
        """Answer `completion/complete`; None for a prompt or template of no server. Raises `MCPError`."""
        if isinstance(params.ref, types.PromptReference):
            prompt = offer.prompts.get(params.ref.name)
            if prompt is None:
                return None
            server, ref = prompt.server, types.PromptReference(name=prompt.name)
        else:
            target = offer.uris.target_of_template(params.ref.uri)
            if target is None:
                return None
            server, ref = target.server, types.ResourceTemplateReference(uri=target.uri)
        if not offer.listings[server].completes:
            return {"completion": {"values": [], "hasMore": False}}
        asked = types.CompleteRequestParams(ref=ref, argument=params.argument, context=params.context)
        own = asked.model_dump(by_alias=True, mode="json", exclude_none=True)
        return await self._request(client, server, "completion/complete", own)

    async def with_shown_links(self, client: Client, tool: str, result: ToolResult) -> ToolResult:
        """Return an answer of a tool of a server with links to resources that the client can read."""
        blocks = result.raw_content or ()
        if self._servers is None or not any(block.get("type") == "resource_link" for block in blocks):
            return result
        definition = (await self._connections.tools(client)).tools.get(tool)
        if definition is None or definition.server is None:
            return result
        offer, shown = await self.offer(client), [dict(block) for block in blocks]
        for block in shown:
            _show_link(offer, definition.server.server, block)
        return result.model_copy(update={"raw_content": tuple(shown)})

    async def _request(self, client: Client, server: str, method: RequestMethod, params: JsonObject) -> dict[str, Any]:
        assert self._servers is not None
        request = self._servers.request(
            server, method, params, caller=client.caller, conversation=client.connection.session
        )
        async with self._services.audit.action(
            AuditEvent.RESOURCE_READ, client.caller, tool=f"{server}{SEPARATOR}{method}"
        ) as record:
            reply = await with_mcp_errors(request)
            if reply.error is not None:
                record.note(outcome="refused")
        if reply.error is not None:
            raise MCPError(reply.error.code, reply.error.message, data={"server": server})
        return dict(reply.result or {})


def target_in(offer: Offer, uri: str) -> OwnUri | None:
    """Return the server that has a resource; None if none has. Raises -32602 if several may have it."""
    try:
        return offer.uris.target(uri)
    except AmbiguousUri as error:
        raise MCPError(INVALID_PARAMS, str(error), data={"uris": list(error.uris)}) from error


def page(key: str, entries: Sequence[JsonObject], params: types.PaginatedRequestParams | None) -> dict[str, Any]:
    """Return the part of a list at a cursor. Raises -32602 for one that Outlast has not given."""
    cursor = params.cursor if params is not None else None
    if cursor is not None and not (cursor.isdecimal() and len(cursor) < 9):
        raise MCPError(INVALID_PARAMS, "The cursor is not one of this list.")
    start = int(cursor or 0)
    end = start + PAGE_ENTRIES
    return {key: list(entries[start:end]), **({"nextCursor": str(end)} if end < len(entries) else {})}


def _may_use(rules: PermissionRules, caller_id: str, server: str, tools: list[Tool]) -> bool:
    """Return whether the rules leave the caller a tool of the server; one without tools counts by its prefix."""
    if not tools:
        ruling = rules.ruling(caller_id, [CallName(f"{server}{SEPARATOR}")])
        return ruling is None or ruling.action != "deny"
    rulings = (rules.ruling_of_call(caller_id, tool, None) for tool in tools)
    return any(ruling is None or ruling.action != "deny" for ruling in rulings)


def _prompts(listings: Mapping[str, ServerListing]) -> dict[str, OfferedPrompt]:
    found: dict[str, OfferedPrompt] = {}
    for server, listing in listings.items():
        for entry in listing.prompts:
            own = str(entry["name"])
            name = server_tool_name(server, own)
            found.setdefault(name, OfferedPrompt(server, own, {**entry, "name": name}))
    return found


def _show_link(offer: Offer, server: str, block: object) -> None:
    for link in _objects([block]):
        uri = link.get("uri")
        if link.get("type") == "resource_link" and isinstance(uri, str) and not uri.startswith(("https://", "http://")):
            link["uri"] = offer.uris.shown(server, uri)


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in cast("list[Any]", value) if isinstance(one, dict)] if isinstance(value, list) else []


_NOTHING = Offer.of({}, lambda _: True)
