"""The MCP server: one lowlevel `Server` for both eras, over streamable HTTP and stdio."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from outlast.activities.contracts import Caller
from outlast.api.errors import ApiError
from outlast.api.mcp.calls.calls import Calls
from outlast.api.mcp.calls.tasks import McpTasks, TaskParams, UpdateTaskParams, refused_as_mcp
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.protocol.eras import TASKS_EXTENSION, UI_EXTENSION, Context, is_modern
from outlast.api.mcp.protocol.listing import listed_tools
from outlast.api.mcp.protocol.task_shapes import legacy_task
from outlast.api.mcp.resources.prompts import Prompts
from outlast.api.mcp.resources.resources import Resource, Resources
from outlast.api.mcp.resources.task_resources import TaskResources
from outlast.api.mcp.subscriptions.resource_updates import ResourceUpdates
from outlast.api.mcp.subscriptions.status_push import StatusPush
from outlast.api.offer.instructions import offered_skills, server_instructions
from outlast.api.services import Services
from outlast.workflows.tools.loader import Selection

log = logging.getLogger("outlast.mcp")

VERSION = "0.1.0"
APP_MIME_TYPE = "text/html;profile=mcp-app"
_LISTS = CacheHint(ttl_ms=60_000, scope="private")
_CACHED = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")


Handler = Callable[[Context, Any], Awaitable[dict[str, Any]]]


class OutlastServer(Server[Any]):
    """Says in each era's words what it has."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """`Server.get_capabilities`, with tasks: an extension in the newer era, a capability in the older."""
        options = notification_options or NotificationOptions(tools_changed=True)
        modern = protocol_version in MODERN_PROTOCOL_VERSIONS
        offered: dict[str, dict[str, Any]] = {UI_EXTENSION: {"mimeTypes": [APP_MIME_TYPE]}, **(extensions or {})}
        if modern:
            offered[TASKS_EXTENSION] = {}
        capabilities = super().get_capabilities(
            options, experimental_capabilities, offered, protocol_version=protocol_version
        )
        own: dict[str, Any] = {
            "prompts": types.PromptsCapability(list_changed=False),
            "resources": types.ResourcesCapability(subscribe=True, list_changed=False),
        }
        return capabilities.model_copy(update=own if modern else {**own, "tasks": _legacy_tasks()})


class McpDoor:
    """The handlers, put together."""

    def __init__(
        self,
        services: Services,
        *,
        selection: Selection | None = None,
        caller: Caller | None = None,
        widgets: Sequence[Resource] = (),
    ) -> None:
        """`selection` and `caller` are those of a connection without HTTP requests (stdio)."""
        self._services = services
        self._mode = selection.mode if selection else services.settings.mode
        self._connections = Connections(services, selection=selection, caller=caller)
        self._calls = Calls(services, self._connections, _tell_tools_changed)
        self._tasks = McpTasks(services, self._connections, self._calls.offer_added_actor)
        self._prompts = Prompts(self._connections, services.settings.actors)
        task_resources = TaskResources(services.tasks)
        self._resources = Resources(self._connections, task_resources, widgets)
        self._updates = ResourceUpdates(self._connections, self._resources, task_resources)
        self._push = StatusPush(services.tasks, self._connections, self._updates)
        self.server = self._build()

    def _build(self) -> OutlastServer:
        server = OutlastServer(
            "outlast",
            version=VERSION,
            title="Outlast",
            instructions=server_instructions(self._mode),
            cache_hints=dict.fromkeys(_CACHED, _LISTS),
            on_subscriptions_listen=self._push.listen,
        )
        server.add_request_handler("tools/list", types.PaginatedRequestParams, _complete(self._list_tools))
        server.add_request_handler("tools/call", types.CallToolRequestParams, _complete(self._call_tool))
        server.add_request_handler("tasks/get", TaskParams, self._tasks.get)
        server.add_request_handler("tasks/cancel", TaskParams, self._tasks.cancel)
        server.add_request_handler("tasks/update", UpdateTaskParams, self._tasks.update)
        server.add_request_handler("tasks/list", types.PaginatedRequestParams, self._tasks.list)
        server.add_request_handler("tasks/result", TaskParams, self._tasks.result)
        server.add_request_handler("prompts/list", types.PaginatedRequestParams, _complete(self._prompts.list))
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, _complete(self._prompts.get))
        server.add_request_handler(
            "completion/complete", types.CompleteRequestParams, _complete(self._prompts.complete)
        )
        server.add_request_handler("resources/list", types.PaginatedRequestParams, _complete(self._resources.list))
        server.add_request_handler(
            "resources/templates/list", types.PaginatedRequestParams, _complete(self._resources.templates)
        )
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, _complete(self._resources.read))
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._updates.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._updates.unsubscribe)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_log_level)
        server.add_notification_handler("notifications/cancelled", types.CancelledNotificationParams, self._cancelled)
        server.middleware += [self._own_instructions, self._legacy_task_calls]
        return server

    async def _list_tools(self, ctx: Context, _params: types.PaginatedRequestParams | None) -> dict[str, Any]:
        client = await self._connections.client(ctx)
        tools = await refused_as_mcp(self._connections.tools(client))
        longest = self._services.settings.max_wait_seconds
        return {"tools": listed_tools(tools, legacy=not is_modern(ctx), max_wait_seconds=longest)}

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        return await refused_as_mcp(self._calls.call(ctx, params))

    async def _set_log_level(self, ctx: Context, params: types.SetLevelRequestParams) -> dict[str, Any]:
        """2025-11-25: from now on, tell what calls are doing as log messages, when `level` is `info` or finer."""
        client = await self._connections.client(ctx)
        client.connection.log_level = params.level
        return {}

    async def _own_instructions(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The instructions that fit the connection: its mode, the Actors that it lacks, the skills that it may load."""
        result = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover") or not isinstance(result, dict):
            return result
        client = await self._connections.client(ctx)
        try:
            tools = await self._connections.tools(client)
        except ApiError as error:
            log.warning("The tools of a connection cannot be loaded: %s", error)
            return {**result, "instructions": server_instructions(client.mode)}
        skills = await offered_skills(self._services.settings.skills_dir, tools)
        return {**result, "instructions": server_instructions(client.mode, tools.missing_actors, skills)}

    async def _legacy_task_calls(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """2025-11-25: a `tools/call` with `params.task` is answered with the task itself."""
        if ctx.method != "tools/call" or is_modern(ctx) or not _wants_task(ctx.params):
            return await call_next(ctx)
        try:
            params = types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
        except ValueError as error:
            raise MCPError(INVALID_PARAMS, "Invalid request parameters", data="") from error
        task = await refused_as_mcp(self._calls.start(ctx, params))
        self._push.follow(ctx, await self._connections.client(ctx), task.id)
        return {"task": legacy_task(task), "_meta": {"outlast/tools": {task.id: task.tool}}}

    async def _cancelled(self, ctx: Context, params: types.CancelledNotificationParams) -> None:
        if params.request_id is not None:
            await self._calls.cancel_plain(ctx, str(params.request_id))


def _complete(handler: Handler) -> Handler:
    """2026-07-28 says of every result what kind it is; `handler` says so where it is not complete."""

    async def handle(ctx: Context, params: Any) -> dict[str, Any]:
        result = await handler(ctx, params)
        return {"resultType": "complete", **result} if is_modern(ctx) else result

    return handle


async def _tell_tools_changed(ctx: Context, client: Client) -> None:
    """Tell this connection: its session in the older era, its open streams in the newer one."""
    if is_modern(ctx):
        client.connection.changes.tell()
    else:
        await ctx.session.send_tool_list_changed()


def _wants_task(params: Mapping[str, Any] | None) -> bool:
    return bool(params) and isinstance((params or {}).get("task"), Mapping)


def _legacy_tasks() -> types.ServerTasksCapability:
    return types.ServerTasksCapability(
        list=types.TasksListCapability(),
        cancel=types.TasksCancelCapability(),
        requests=types.ServerTasksRequestsCapability(
            tools=types.TasksToolsCapability(call=types.TasksCallCapability())
        ),
    )
