"""The MCP server: one lowlevel `Server` for both eras, over streamable HTTP and stdio."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from api.mcp.calls import Calls
from api.mcp.connections import Connections
from api.mcp.eras import TASKS_EXTENSION, UI_EXTENSION, Context, is_modern, require_legacy
from api.mcp.instructions import server_instructions
from api.mcp.listing import listed_tools
from api.mcp.status_push import StatusPush
from api.mcp.task_shapes import legacy_task
from api.mcp.tasks import McpTasks, TaskParams, UpdateTaskParams, refused_as_mcp
from api.services import Services
from workflows.tools.loader import Selection

VERSION = "0.1.0"
_LISTS = CacheHint(ttl_ms=60_000, scope="private")
APP_MIME_TYPE = "text/html;profile=mcp-app"


class OutlastServer(Server[Any]):
    """Says in each era's words that it has tasks."""

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
        return capabilities if modern else capabilities.model_copy(update={"tasks": _legacy_tasks()})


class McpDoor:
    """The handlers, put together."""

    def __init__(self, services: Services, *, local: Selection | None = None) -> None:
        """`local` is the selection of a connection without a URL (stdio)."""
        self._services = services
        self._connections = Connections(services, local=local)
        self._bus = InMemorySubscriptionBus()
        self._calls = Calls(services, self._connections, self._tell_tools_changed)
        self._tasks = McpTasks(services, self._connections)
        self._push = StatusPush(services.tasks, self._connections, ListenHandler(self._bus))
        self.server = self._build()

    def _build(self) -> OutlastServer:
        server = OutlastServer(
            "outlast",
            version=VERSION,
            title="Outlast",
            instructions=server_instructions(self._services.settings.mode),
            cache_hints={"tools/list": _LISTS, "resources/list": _LISTS, "resources/read": _LISTS},
            on_subscriptions_listen=self._push.listen,
        )
        server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        server.add_request_handler("tasks/get", TaskParams, self._tasks.get)
        server.add_request_handler("tasks/cancel", TaskParams, self._tasks.cancel)
        server.add_request_handler("tasks/update", UpdateTaskParams, self._tasks.update)
        server.add_request_handler("tasks/list", types.PaginatedRequestParams, self._tasks.list)
        server.add_request_handler("tasks/result", TaskParams, self._tasks.result)
        server.add_notification_handler("notifications/cancelled", types.CancelledNotificationParams, self._cancelled)
        server.middleware.append(self._legacy_task_calls)
        return server

    async def _list_tools(self, ctx: Context, _params: types.PaginatedRequestParams | None) -> dict[str, Any]:
        client = await self._connections.client(ctx)
        tools = await refused_as_mcp(self._connections.tools(client))
        return _complete(ctx, {"tools": listed_tools(tools, legacy=not is_modern(ctx))})

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        return _complete(ctx, await refused_as_mcp(self._calls.call(ctx, params)))

    async def _legacy_task_calls(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """2025-11-25: a `tools/call` with `params.task` is answered with the task itself."""
        if ctx.method != "tools/call" or is_modern(ctx) or not _wants_task(ctx.params):
            return await call_next(ctx)
        require_legacy(ctx)
        params = types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
        task = await refused_as_mcp(self._calls.start(ctx, params))
        self._push.follow(ctx, await self._connections.client(ctx), task.id)
        return {"task": legacy_task(task), "_meta": {"outlast/tools": {task.id: task.tool}}}

    async def _cancelled(self, ctx: Context, params: types.CancelledNotificationParams) -> None:
        if params.request_id is not None:
            await self._calls.cancel_plain(ctx, str(params.request_id))

    async def _tell_tools_changed(self, ctx: Context) -> None:
        await self._bus.publish(ToolsListChanged())
        if not is_modern(ctx):
            await ctx.session.send_tool_list_changed()


def _complete(ctx: Context, result: dict[str, Any]) -> dict[str, Any]:
    """2026-07-28 says of every result what kind it is."""
    return {"resultType": "complete", **result} if is_modern(ctx) else result


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
