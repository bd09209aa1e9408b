"""Notifications to clients: task status, resource updates, and `subscriptions/listen` (2026-07-28).

In 2025-11-25, background tasks watch for a session and end with it. In 2026-07-28, one stream has all notifications.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Literal, cast

import mcp_types as types
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST

from outlast.api.access.principal import Principal
from outlast.api.catalog.servers import ALL_LISTS, ListKind, ListKinds
from outlast.api.errors import ApiError, CredentialEnded
from outlast.api.mcp.connections import Client, Connections, ListChanges
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol.request_meta import ProgressSteps, progress_notification, wants_progress
from outlast.api.mcp.protocol.task_shapes import RELATED_TASK_META, STATE_EVENTS, detailed_task, legacy_task
from outlast.api.mcp.protocol.versions import Context, require_legacy, require_tasks
from outlast.api.mcp.resource_methods import ResourceMethods, RowsUri, task_id_of
from outlast.api.tasks.client import TaskClient
from outlast.contracts.tasks import Task, TaskEvent

_STATE = "outlast_watchers"
_Watchers = dict[str, "asyncio.Task[None]"]
log = logging.getLogger("outlast.mcp")
MAX_SUBSCRIPTIONS = 100
"""Resources that one session, or one stream, can subscribe to."""
_KEY_PREFIX = "resource "
_LISTS_KEY = "lists"
_LIST_CHANGED: Mapping[ListKind, Callable[..., types.ServerNotification]] = {
    "tools": types.ToolListChangedNotification,
    "resources": types.ResourceListChangedNotification,
    "prompts": types.PromptListChangedNotification,
}
_MAX_TASK_IDS = 100


class ResourceUpdates:
    """Subscriptions to resources. Only tasks and their rows change: one to any other resource sends nothing."""

    def __init__(self, connections: Connections, resources: ResourceMethods) -> None:
        self._connections = connections
        self._resources = resources

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> dict[str, Any]:
        """`resources/subscribe`. Raises -32002 for an unknown resource, -32602 above 100 subscriptions."""
        require_legacy(ctx)
        uri, client = str(params.uri), await self._connections.client(ctx)
        await self._resources.require(ctx, client, uri)
        if sum(key.startswith(_KEY_PREFIX) for key in _watchers_of(ctx)) >= MAX_SUBSCRIPTIONS:
            raise MCPError(INVALID_PARAMS, f"A session can subscribe to at most {MAX_SUBSCRIPTIONS} resources.")
        changes = self._changes(client, uri)
        if changes is not None:
            start_watcher(ctx, client.principal, _KEY_PREFIX + uri, self._notify_session(ctx, uri, changes))
        return {}

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> dict[str, Any]:
        """`resources/unsubscribe`. Does nothing for a resource without a subscription."""
        require_legacy(ctx)
        stop_watcher(ctx, _KEY_PREFIX + str(params.uri))
        return {}

    async def existing(self, ctx: Context, client: Client, uris: list[str] | None) -> list[str]:
        """Return those of the first 100 `uris` that name a resource of this client."""
        found: list[str] = []
        for uri in dict.fromkeys((uris or [])[:MAX_SUBSCRIPTIONS]):
            with suppress(MCPError):
                await self._resources.require(ctx, client, uri)
                found.append(uri)
        return found

    async def notify_stream(self, ctx: Context, client: Client, uri: str, meta: dict[str, Any]) -> None:
        """Notify the stream of `ctx` of each change of the resource, until the resource can no longer change."""
        changes = self._changes(client, uri)
        if changes is None:
            return
        async for _ in changes:
            params = types.ResourceUpdatedNotificationParams(uri=uri, _meta=cast(Any, meta))
            updated = types.ResourceUpdatedNotification(params=params)
            await ctx.session.send_notification(updated, related_request_id=ctx.request_id)

    def _changes(self, client: Client, uri: str) -> AsyncIterator[None] | None:
        """The changes of the resource from now on; None for one that does not change."""
        if (rows := RowsUri.parse(uri)) is not None:
            return self._resources.rows.changes(client, rows)
        task_id = task_id_of(uri)
        return self._resources.tasks.changes(client, task_id) if task_id is not None else None

    async def _notify_session(self, ctx: Context, uri: str, changes: AsyncIterator[None]) -> None:
        try:
            async for _ in changes:
                await ctx.session.send_resource_updated(uri)
        except ApiError as error:
            log.info("Stopped sending updates of %s: %s", uri, error)
        except Exception as error:  # noqa: BLE001  # a closed transport raises exceptions of many types
            log.debug("The session that subscribed to %s has ended: %s", uri, error)


class LegacyTaskStatus(types.Notification[dict[str, Any], Literal["notifications/tasks/status"]]):
    """`TaskStatusNotification`, with parameters that keep their nulls."""

    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"
    params: dict[str, Any]


class TaskStatusNotifier:
    """Notifications of the status of tasks to sessions, and of their progress if requested."""

    def __init__(self, tasks: TaskClient) -> None:
        self._tasks = tasks

    def watch(self, ctx: Context, client: Client, task: Task) -> None:
        """Notify the session of `ctx` of each change of the task, until the task or the session ends."""
        start_watcher(ctx, client.principal, f"task {task.id}", self._send_changes(ctx, client, task))

    async def _send_changes(self, ctx: Context, client: Client, task: Task) -> None:
        steps = ProgressSteps(dialect_of(task.mode).progress, task.actor)
        try:
            async for event in await self._tasks.events(client.caller, task.id):
                note = steps.after(event.name, event.data) if wants_progress(ctx) else None
                if note is not None:
                    # The token of the request that became the task is valid until the task ends (MCP 2025-11-25).
                    meta = {**(note.meta or {}), RELATED_TASK_META: {"taskId": task.id}}
                    if not await _sent(ctx, task, progress_notification(ctx, note, meta)):
                        return
                if event.name in STATE_EVENTS and not await self._send_status(ctx, client, task, event):
                    return
        except ApiError as error:
            log.info("Stopped sending the status of task %s: %s", task.id, error)

    async def _send_status(self, ctx: Context, client: Client, task: Task, event: TaskEvent) -> bool:
        """Send the task's status. Returns False after the last one, or if the session has ended."""
        now = await self._tasks.describe(client.caller, task.id)
        is_sent = await _sent(ctx, task, cast(Any, LegacyTaskStatus(params=legacy_task(now))))
        return is_sent and event.name != "task_completed"


async def _sent(ctx: Context, task: Task, notification: types.ServerNotification) -> bool:
    """Send to the session. Returns False if it has ended."""
    try:
        await ctx.session.send_notification(notification)
    except Exception as error:  # noqa: BLE001  # a closed transport raises exceptions of many types
        log.debug("The session of task %s has ended: %s", task.id, error)
        return False
    return True


class ModernTaskStatus(types.Notification[dict[str, Any], Literal["notifications/tasks"]]):
    """The notification of the tasks extension: the whole task."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class ListenStreams:
    """The handler of `subscriptions/listen`."""

    def __init__(self, tasks: TaskClient, connections: Connections, resources: ResourceUpdates) -> None:
        self._tasks = tasks
        self._connections = connections
        self._resources = resources

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """`subscriptions/listen`. A stream for tasks alone ends when all of them have ended; others stay open."""
        if ctx.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen requires a request id")
        client = await self._connections.client(ctx)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        requested_ids = _requested_task_ids(params)
        if requested_ids:
            require_tasks(ctx)
        task_ids = [task_id for task_id in requested_ids if await self._exists(client, task_id)]
        uris = await self._resources.existing(ctx, client, params.notifications.resource_subscriptions)
        kinds: ListKinds = frozenset(
            kind for kind in ALL_LISTS if getattr(params.notifications, f"{kind}_list_changed", None)
        )
        if not self._connections.may_change:
            kinds &= {"tools"}
        with client.connection.listening() as changes:
            await self._acknowledge(ctx, kinds, task_ids, uris, meta)
            async with asyncio.TaskGroup() as group:
                for task_id in task_ids:
                    group.create_task(self._send_task_changes(ctx, client, task_id, meta))
                for uri in uris:
                    group.create_task(self._resources.notify_stream(ctx, client, uri, meta))
                if kinds or uris or not requested_ids:
                    group.create_task(_send_list_changes(ctx, changes, meta, kinds))
        return types.SubscriptionsListenResult(_meta=cast(Any, meta))

    async def _acknowledge(
        self,
        ctx: Context,
        kinds: ListKinds,
        task_ids: list[str],
        uris: list[str],
        meta: dict[str, Any],
    ) -> None:
        """Send the client its active subscriptions."""
        active: dict[str, Any] = {f"{kind}ListChanged": True for kind in sorted(kinds)}
        if task_ids:
            active["taskIds"] = task_ids
        if uris:
            active["resourceSubscriptions"] = uris
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams(
            notifications=types.SubscriptionFilter.model_validate(active), _meta=cast(Any, meta)
        )
        await ctx.session.send_notification(
            types.SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=ctx.request_id
        )

    async def _send_task_changes(self, ctx: Context, client: Client, task_id: str, meta: dict[str, Any]) -> None:
        await self._send_task(ctx, client, task_id, meta)
        async for event in await self._tasks.events(client.caller, task_id):
            if event.name in STATE_EVENTS:
                await self._send_task(ctx, client, task_id, meta)
                if event.name == "task_completed":
                    return

    async def _send_task(self, ctx: Context, client: Client, task_id: str, meta: dict[str, Any]) -> None:
        answer = await self._tasks.answer(client.caller, task_id)
        state = detailed_task(answer, mode=client.mode, caller_id=client.caller.id)
        state.pop("resultType")
        notification = ModernTaskStatus(params={**state, "_meta": meta})
        await ctx.session.send_notification(cast(Any, notification), related_request_id=ctx.request_id)

    async def _exists(self, client: Client, task_id: str) -> bool:
        with suppress(ApiError):
            await self._tasks.describe(client.caller, task_id)
            return True
        return False


async def _send_list_changes(ctx: Context, changes: ListChanges, meta: dict[str, Any], kinds: ListKinds) -> None:
    """Keep the stream open until the client closes it; send changes only of the lists that the client requested."""
    while True:
        for kind in await changes.take():
            if kind in kinds:
                changed = _LIST_CHANGED[kind](params=types.NotificationParams(_meta=cast(Any, meta)))
                await ctx.session.send_notification(changed, related_request_id=ctx.request_id)


def watch_lists(ctx: Context, client: Client) -> None:
    """Notify the session of `ctx` (2025-11-25) of each change of lists of MCP servers, until the session ends."""
    if _LISTS_KEY not in _watchers_of(ctx):
        start_watcher(ctx, client.principal, _LISTS_KEY, _notify_of_lists(ctx, client))


async def _notify_of_lists(ctx: Context, client: Client) -> None:
    with client.connection.listening() as changes:
        while True:
            for kind in await changes.take():
                try:
                    await ctx.session.send_notification(_LIST_CHANGED[kind]())
                except Exception as error:  # noqa: BLE001  # a closed transport raises exceptions of many types
                    log.debug("The session that read a list has ended: %s", error)
                    return


def _requested_task_ids(params: types.SubscriptionsListenRequestParams) -> list[str]:
    """Return the first 100 of `taskIds`."""
    value: object = (params.notifications.model_extra or {}).get("taskIds")
    entries = cast(list[object], value) if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, str)][:_MAX_TASK_IDS]


def start_watcher(ctx: Context, principal: Principal, key: str, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends, or until `stop_watcher`, the session of `ctx` or the credential of `principal` ends it.

    It replaces the session's watcher with the same key.
    """
    stop_watcher(ctx, key)
    watchers = _watchers_of(ctx)

    def forget(done: "asyncio.Task[None]") -> None:
        if watchers.get(key) is done:
            del watchers[key]

    watchers[key] = watcher = asyncio.create_task(_bound(principal, work))
    watcher.add_done_callback(forget)


async def _bound(principal: Principal, work: Coroutine[Any, Any, None]) -> None:
    with suppress(CredentialEnded):
        async with principal.lease():
            await work


def stop_watcher(ctx: Context, key: str) -> None:
    """Stop the watcher with `key`, if there is one."""
    watcher = _watchers_of(ctx).pop(key, None)
    if watcher is not None:
        watcher.cancel()


def _watchers_of(ctx: Context) -> _Watchers:
    # Only the connection learns of the session's end, and the SDK gives no public way from a request to it.
    connection = ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if _STATE not in connection.state:
        watchers: _Watchers = {}
        connection.state[_STATE] = watchers
        connection.exit_stack.callback(lambda: [watcher.cancel() for watcher in list(watchers.values())])
    return cast(_Watchers, connection.state[_STATE])
