"""The MCP server: one low-level SDK `Server` for both protocol versions and both transports."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, PaginatedRequestParams, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, JsonValue, SecretStr

from outlast.api.audit.records import Origin
from outlast.api.catalog.discovery import listed
from outlast.api.catalog.instructions import offered_skills, server_instructions
from outlast.api.catalog.mcp_results import call_result
from outlast.api.errors import ApiError, TaskFinished, TaskNotFound
from outlast.api.mcp.call_tool import CallToolHandler
from outlast.api.mcp.client_questions import ClientQuestions, answerable, parsed_answers
from outlast.api.mcp.connections import Client, Connections, OpenExchanges, Sender
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.notifications import ListenStreams, ResourceUpdates, TaskStatusNotifier, watch_lists
from outlast.api.mcp.posted_message import CredentialGate, ScopeGate
from outlast.api.mcp.prompts import PromptMethods
from outlast.api.mcp.protocol import task_shapes as shapes
from outlast.api.mcp.protocol.task_shapes import TOOLS_META, legacy_task
from outlast.api.mcp.protocol.versions import (
    APP_MIME_TYPE,
    TASKS_EXTENSION,
    UI_EXTENSION,
    Context,
    hide_defects,
    is_modern,
    require_legacy,
    require_modern,
    require_tasks,
    with_mcp_errors,
)
from outlast.api.mcp.resource_definitions import Resource
from outlast.api.mcp.resource_methods import ResourceMethods
from outlast.api.mcp.tool_lists import ToolLists, tool_entries
from outlast.api.services import Services
from outlast.api.temporal.history import DESCRIPTIONS
from outlast.contracts.tasks import TaskAnswer, TaskListing
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.framework.selection import Selection
from outlast.workflows.tools.registry import tool_set

_RESULT_WAIT_SECONDS = 60.0
_QUESTION_PAUSE_SECONDS = 1.0
OnResult = Callable[[Context, Client, str, ToolResult], Awaitable[ToolResult]]


class TaskParams(RequestParams):
    """Parameters of the methods that take a task."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """Parameters of `tasks/update` (2026-07-28): answers to the task's questions."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


class TaskMethods:
    """The handlers of `tasks/*`."""

    def __init__(
        self, services: Services, connections: Connections, questions: ClientQuestions, on_result: OnResult
    ) -> None:
        """Serve the tasks of `services`. `on_result` turns a tool's result into what the collecting client gets."""
        self._questions = questions
        self._tasks = services.tasks
        self._connections = connections
        self._on_result = on_result

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/get`."""
        client = await self._client(ctx, params.task_id)
        answer = await with_mcp_errors(self._answer(client, params.task_id))
        if is_modern(ctx):
            if answer.result is not None and answer.result.is_error:
                result = await with_mcp_errors(self._on_result(ctx, client, answer.task.tool, answer.result))
                answer = answer.model_copy(update={"result": result})
            return shapes.detailed_task(answer, mode=client.mode, caller_id=client.caller.id)
        return shapes.legacy_task(answer.task)

    async def list(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        """`tasks/list` (2025-11-25): the caller's open tasks, then ended ones, newest first."""
        require_legacy(ctx)
        client = await self._connections.client(ctx)
        page = await with_mcp_errors(self._tasks.list(client.principal, TaskListing(page_token=params.cursor)))
        result: dict[str, Any] = {
            "tasks": [shapes.legacy_task(task) for task in page.tasks],
            "_meta": {shapes.TOOLS_META: {task.id: task.tool for task in page.tasks}},
        }
        if page.next_page_token:
            result["nextCursor"] = page.next_page_token
        return result

    async def result(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/result` (2025-11-25): wait until the task has ended, and send the user its questions."""
        require_legacy(ctx)
        client = await self._client(ctx, params.task_id)
        while True:
            answer = await with_mcp_errors(
                self._tasks.answer_or_question(client.caller, params.task_id, wait_seconds=_RESULT_WAIT_SECONDS)
            )
            if answer.result is not None:
                result = await with_mcp_errors(self._on_result(ctx, client, answer.task.tool, answer.result))
                related: dict[str, JsonValue] = {shapes.RELATED_TASK_META: {"taskId": params.task_id}}
                return call_result(result, mode=client.mode, meta=related)
            questions = answerable(ctx, answer.task.input_requests, client.principal)
            if questions:
                await self._questions.ask_for_task(ctx, client.principal, params.task_id, questions)
            elif answer.task.input_requests:
                # Only another client can answer; pause before asking Temporal again.
                with DESCRIPTIONS.follower():
                    await asyncio.sleep(DESCRIPTIONS.pause_seconds(_QUESTION_PAUSE_SECONDS))

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/cancel`. For an ended task 2026-07-28 acknowledges, and 2025-11-25 raises -32602."""
        client = await self._client(ctx, params.task_id)
        task = await with_mcp_errors(self._tasks.describe(client.caller, params.task_id))
        if task.is_final or (task.is_cancelling and not is_modern(ctx)):
            if is_modern(ctx):
                return {"resultType": "complete"}
            raise dialect_of(client.mode).not_cancelled(task)
        try:
            task = await self._tasks.cancel(client.caller, params.task_id)
        except TaskFinished:
            task = await with_mcp_errors(self._tasks.describe(client.caller, params.task_id))
        return {"resultType": "complete"} if is_modern(ctx) else shapes.legacy_task(shapes.as_cancelled(task))

    async def update(self, ctx: Context, params: UpdateTaskParams) -> dict[str, Any]:
        """`tasks/update` (2026-07-28): submit answers. Answers to questions that are not open are ignored."""
        require_modern(ctx)
        client = await self._client(ctx, params.task_id)
        task = await with_mcp_errors(self._tasks.look_at(client.principal, params.task_id))
        answers = parsed_answers(params.input_responses, task.input_requests or {})
        if answers:
            await with_mcp_errors(self._tasks.submit_input(client.principal, params.task_id, answers))
        return {"resultType": "complete"}

    async def _answer(self, client: Client, task_id: str) -> TaskAnswer:
        """Return the caller's task, or another's as an approver sees it."""
        try:
            return await self._tasks.answer(client.caller, task_id)
        except TaskNotFound:
            return TaskAnswer(task=await self._tasks.look_at(client.principal, task_id))

    async def _client(self, ctx: Context, task_id: str) -> Client:
        require_tasks(ctx)
        _check_name_header(ctx, task_id)
        return await self._connections.client(ctx)


def _check_name_header(ctx: Context, task_id: str) -> None:
    """2026-07-28: when the request has the header `Mcp-Name`, it must equal the task id of the body."""
    name = getattr(ctx.request, "headers", {}).get("mcp-name") if is_modern(ctx) else None
    if name is not None and name != task_id:
        raise MCPError(HEADER_MISMATCH, f"The header Mcp-Name is {name!r}, but the body names task {task_id!r}.")


log = logging.getLogger("outlast.mcp")

_LISTS = CacheHint(ttl_ms=60_000, scope="private")
_CACHED = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
_LISTED = frozenset(method for method in _CACHED if method.endswith("/list"))
_IN_DIALECT = frozenset({"tools/call", "resources/read", "prompts/get"})
"""Methods whose errors clients match."""
_LEGACY_TASKS = types.ServerTasksCapability.model_validate(
    {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
)
Handler = Callable[[Context, Any], Awaitable[dict[str, Any]]]


class OutlastServer(Server[Any]):
    """The SDK's server, with the capabilities of Outlast in the form of each protocol version."""

    def __init__(self, *args: Any, lists_change: bool, **options: Any) -> None:
        """With `lists_change`, resources and prompts may change, too."""
        super().__init__(*args, **options)
        self._lists_change = lists_change

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """`Server.get_capabilities`, and tasks: an extension in 2026-07-28, a capability in 2025-11-25."""
        options = notification_options or NotificationOptions(tools_changed=True)
        modern = protocol_version in MODERN_PROTOCOL_VERSIONS
        offered: dict[str, dict[str, Any]] = {UI_EXTENSION: {"mimeTypes": [APP_MIME_TYPE]}, **(extensions or {})}
        if modern:
            offered[TASKS_EXTENSION] = {}
        capabilities = super().get_capabilities(
            options, experimental_capabilities, offered, protocol_version=protocol_version
        )
        own: dict[str, Any] = {
            "prompts": types.PromptsCapability(list_changed=self._lists_change),
            "resources": types.ResourcesCapability(subscribe=True, list_changed=self._lists_change),
        }
        return capabilities.model_copy(update=own if modern else {**own, "tasks": _LEGACY_TASKS})


class McpServer:
    """Connects the handlers to `server`, the SDK's server."""

    def __init__(
        self,
        services: Services,
        *,
        selection: Selection | None = None,
        token: SecretStr | None = None,
        widgets: Sequence[Resource] = (),
    ) -> None:
        """`selection` and `token` are those of the only connection over stdio."""
        self._services = services
        self._mode = selection.mode if selection else services.settings.mode
        self._connections = connections = Connections(services, selection=selection, token=token)
        self.exchanges = OpenExchanges()
        """Admission of responses and notifications, for the transport."""
        questions = ClientQuestions(services.tasks, self.exchanges)
        self._resources = ResourceMethods(services, connections, widgets)
        servers = self._resources.servers
        self._calls = CallToolHandler(services, connections, questions, _notify_tools_changed, servers)
        self._tasks = TaskMethods(services, connections, questions, self._calls.result_for_client)
        self._prompts = PromptMethods(connections, questions, services.settings.actors, servers)
        self._updates = ResourceUpdates(connections, self._resources)
        self._streams = ListenStreams(services.tasks, connections, self._updates)
        self._task_status = TaskStatusNotifier(services.tasks)
        self.server = self._build_server()

    async def local_sender(self) -> Sender:
        """Return the sender of the messages over stdio. Raises `Unauthenticated`."""
        principal = await self._connections.local_principal()
        return Sender(principal, Origin("mcp-stdio", key=principal.key_id))

    def _build_server(self) -> OutlastServer:
        server = OutlastServer(
            "outlast",
            lists_change=self._connections.may_change,
            version=version("outlast"),
            title="Outlast",
            instructions=server_instructions(tool_set(self._mode, ())),
            cache_hints=dict.fromkeys(_CACHED, _LISTS),
            on_subscriptions_listen=self._streams.listen,
        )
        paginated = types.PaginatedRequestParams
        for method, params, handler in (
            ("tools/list", paginated, _with_result_type(self._list_tools)),
            ("tools/call", types.CallToolRequestParams, _with_result_type(self._call_tool)),
            ("tasks/get", TaskParams, self._tasks.get),
            ("tasks/cancel", TaskParams, self._tasks.cancel),
            ("tasks/update", UpdateTaskParams, self._tasks.update),
            ("tasks/list", paginated, self._tasks.list),
            ("tasks/result", TaskParams, self._tasks.result),
            ("prompts/list", paginated, _with_result_type(self._prompts.list)),
            ("prompts/get", types.GetPromptRequestParams, _with_result_type(self._prompts.get)),
            ("completion/complete", types.CompleteRequestParams, _with_result_type(self._prompts.complete)),
            ("resources/list", paginated, _with_result_type(self._resources.list)),
            ("resources/templates/list", paginated, _with_result_type(self._resources.templates)),
            ("resources/read", types.ReadResourceRequestParams, _with_result_type(self._resources.read)),
            ("resources/subscribe", types.SubscribeRequestParams, self._updates.subscribe),
            ("resources/unsubscribe", types.UnsubscribeRequestParams, self._updates.unsubscribe),
            ("logging/setLevel", types.SetLevelRequestParams, self._set_log_level),
        ):
            server.add_request_handler(method, params, handler)
        server.add_notification_handler(
            "notifications/cancelled", types.CancelledNotificationParams, self._cancel_request
        )
        server.middleware += [
            hide_defects,
            CredentialGate(self._connections),
            ScopeGate(self._connections, self.exchanges),
            self._connection_instructions,
            self._in_dialect,
            self._legacy_task_calls,
            self._watch_lists,
            ToolLists(self._connections),
        ]
        return server

    async def _list_tools(self, ctx: Context, _params: types.PaginatedRequestParams | None) -> dict[str, Any]:
        """Build the first list of an offer, for `ToolLists`."""
        client = await self._connections.client(ctx)
        tools = listed(await with_mcp_errors(self._connections.tools(client)))
        max_wait = self._services.settings.max_wait_seconds
        return {"tools": tool_entries(tools, legacy=not is_modern(ctx), max_wait_seconds=max_wait)}

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        return await with_mcp_errors(self._calls.call(ctx, params))

    async def _set_log_level(self, ctx: Context, params: types.SetLevelRequestParams) -> dict[str, Any]:
        """2025-11-25: send the progress of later calls as log messages, too, if `level` is `info` or `debug`."""
        client = await self._connections.client(ctx)
        client.connection.log_level = params.level
        return {}

    async def _connection_instructions(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: the instructions of the connection, with its mode, its missing Actors and its skills."""
        result = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover") or not isinstance(result, dict):
            return result
        client = await self._connections.client(ctx)
        try:
            tools = await self._connections.tools(client)
        except ApiError as error:
            log.warning("Cannot load the tools of a connection: %s", error)
            return {**result, "instructions": server_instructions(tool_set(client.mode, ()))}
        skills = await offered_skills(self._services.settings.skills_dir, tools)
        return {**result, "instructions": server_instructions(tools, skills)}

    async def _watch_lists(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: a session of 2025-11-25 that reads a list is notified of changes of lists from then on."""
        if ctx.method in _LISTED and self._connections.may_change and not is_modern(ctx):
            watch_lists(ctx, await self._connections.client(ctx))
        return await call_next(ctx)

    async def _in_dialect(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: protocol errors of calls and tasks in the mode's dialect."""
        try:
            return await call_next(ctx)
        except MCPError as error:
            if ctx.method not in _IN_DIALECT and not ctx.method.startswith("tasks/"):
                raise
            dialect, modern = dialect_of((await self._connections.client(ctx)).mode), is_modern(ctx)
            if ctx.method in _IN_DIALECT:
                raise dialect.adapted_error(error, is_modern=modern) from error
            task_id = (ctx.params or {}).get("taskId")
            raise dialect.adapted_task_error(error, str(task_id), is_modern=modern) from error

    async def _legacy_task_calls(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: in 2025-11-25 the result of a `tools/call` with `params.task` is the task."""
        if ctx.method != "tools/call" or is_modern(ctx) or not isinstance((ctx.params or {}).get("task"), Mapping):
            return await call_next(ctx)
        try:
            params = types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
        except ValueError as error:
            raise MCPError(INVALID_PARAMS, "Invalid request parameters", data="") from error
        task = await with_mcp_errors(self._calls.start_task(ctx, params))
        self._task_status.watch(ctx, await self._connections.client(ctx), task)
        return {"task": legacy_task(task), "_meta": {TOOLS_META: {task.id: task.tool}}}

    async def _cancel_request(self, ctx: Context, params: types.CancelledNotificationParams) -> None:
        client = await self._connections.client(ctx)
        # Without the scope `cancel` only the client's wait ends, which the SDK has done before.
        if params.request_id is not None and "cancel" in client.principal.scopes:
            await self._calls.cancel_request(ctx, str(params.request_id))


def _with_result_type(handler: Handler) -> Handler:
    """2026-07-28 requires `resultType` in every result: `complete`, unless `handler` returns another one."""

    async def handle(ctx: Context, params: Any) -> dict[str, Any]:
        result = await handler(ctx, params)
        return {"resultType": "complete", **result} if is_modern(ctx) else result

    return handle


async def _notify_tools_changed(ctx: Context, client: Client) -> None:
    """Notify the connection: its session in 2025-11-25, its open streams in 2026-07-28."""
    if is_modern(ctx):
        client.connection.announce(frozenset({"tools"}))
    else:
        await ctx.session.send_tool_list_changed()
