"""Resources: tasks, the widgets of the UI mode (MCP Apps, `ui://`), and what extensions offer."""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from outlast.api.errors import TaskNotFound
from outlast.api.mcp.calls.tasks import refused_as_mcp
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.protocol.eras import Context, is_modern
from outlast.api.mcp.resources.task_resources import TASK_MIME_TYPE, TaskResources, task_of, task_template
from outlast.workflows.tools.extensions import extension_entries

JsonObject = dict[str, Any]
LEGACY_NOT_FOUND = -32002
"""MCP 2025-11-25, resources, error handling; the newer era says -32602."""


@dataclass(frozen=True)
class Resource:
    """A resource. In `uri` `{name}` stands for a part that `read` is given: the URI is then a template (RFC 6570)."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    read: Callable[[Mapping[str, str]], str | bytes]
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    mode: str | None = None
    """The one mode in which it is offered; None for all."""

    @property
    def is_template(self) -> bool:
        """Whether the URI has parts to be filled in."""
        return "{" in self.uri

    def match(self, uri: str) -> dict[str, str] | None:
        """The parts of `uri`, when it is one of this resource."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.uri))
        found = re.fullmatch(pattern, uri)
        return found.groupdict() if found else None


class Resources:
    """The handlers of `resources/*`."""

    def __init__(self, connections: Connections, tasks: TaskResources, widgets: Sequence[Resource] = ()) -> None:
        """Offer `tasks`, `widgets` and the resources of extensions."""
        self._connections = connections
        self._tasks = tasks
        self._resources = (*widgets, *cast(tuple[Resource, ...], extension_entries("RESOURCES")))

    async def list(self, ctx: Context, _params: types.PaginatedRequestParams | None) -> JsonObject:
        """`resources/list`."""
        offered = self._offered(await self._connections.client(ctx))
        return {"resources": [_listed(entry, "uri") for entry in offered if not entry.is_template]}

    async def templates(self, ctx: Context, _params: types.PaginatedRequestParams | None) -> JsonObject:
        """`resources/templates/list`."""
        offered = self._offered(await self._connections.client(ctx))
        own = [_listed(entry, "uriTemplate") for entry in offered if entry.is_template]
        return {"resourceTemplates": [task_template(), *own]}

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> JsonObject:
        """`resources/read`. Raises -32602 (in the older era -32002) for an unknown resource."""
        uri, client = str(params.uri), await self._connections.client(ctx)
        task_id = task_of(uri)
        if task_id is not None:
            return await self._read_task(ctx, client, uri, task_id)
        for resource in self._offered(client):
            parts = resource.match(uri)
            if parts is not None:
                return {"contents": [_content(resource, uri, resource.read(parts))]}
        raise no_such_resource(ctx, uri)

    async def require(self, ctx: Context, client: Client, uri: str) -> None:
        """Raise what `read` raises for an unknown resource."""
        task_id = task_of(uri)
        if task_id is not None:
            try:
                await refused_as_mcp(self._tasks.check(client, task_id), passing=TaskNotFound)
            except TaskNotFound as error:
                raise no_such_resource(ctx, uri) from error
        elif not any(resource.match(uri) is not None for resource in self._offered(client)):
            raise no_such_resource(ctx, uri)

    async def _read_task(self, ctx: Context, client: Client, uri: str, task_id: str) -> JsonObject:
        try:
            state = await refused_as_mcp(self._tasks.read(client, task_id), passing=TaskNotFound)
        except TaskNotFound as error:
            raise no_such_resource(ctx, uri) from error
        content = {"uri": uri, "mimeType": TASK_MIME_TYPE, "text": json.dumps(state, ensure_ascii=False)}
        fresh = {"ttlMs": 0, "cacheScope": "private"} if is_modern(ctx) else {}
        return {"contents": [content], **fresh}

    def _offered(self, client: Client) -> tuple[Resource, ...]:
        return tuple(resource for resource in self._resources if resource.mode in (None, client.mode))


def no_such_resource(ctx: Context, uri: str) -> MCPError:
    """The refusal of a URI that leads nowhere, or to what is somebody else's."""
    code = INVALID_PARAMS if is_modern(ctx) else LEGACY_NOT_FOUND
    return MCPError(code, f"There is no resource {uri}.", data={"uri": uri})


def _listed(resource: Resource, uri_key: str) -> JsonObject:
    listed: JsonObject = {
        uri_key: resource.uri,
        "name": resource.name,
        "title": resource.title,
        "description": resource.description,
        "mimeType": resource.mime_type,
    }
    return {**listed, "_meta": dict(resource.meta)} if resource.meta else listed


def _content(resource: Resource, uri: str, read: str | bytes) -> JsonObject:
    content: JsonObject = {"uri": uri, "mimeType": resource.mime_type}
    if isinstance(read, bytes):
        content["blob"] = base64.b64encode(read).decode()
    else:
        content["text"] = read
    return {**content, "_meta": dict(resource.meta)} if resource.meta else content
