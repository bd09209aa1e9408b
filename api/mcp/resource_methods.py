"""`resources/list`, `resources/templates/list`, `resources/read`: tasks, rows, widgets, the platform, extensions."""

import base64
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from email.message import Message
from typing import Any, cast
from urllib.parse import parse_qs

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from outlast.activities.platform_requests.activities import PlatformBody, PlatformRefusal
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.audit.records import AuditEvent
from outlast.api.catalog.mcp_results import visible_meta
from outlast.api.errors import ApiError, BadRequest, InvalidCall, TaskNotFound
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.dialects.dialect import Dialect
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol.task_shapes import STATE_EVENTS, detailed_task
from outlast.api.mcp.protocol.versions import Context, is_modern, with_mcp_errors
from outlast.api.mcp.resource_definitions import READ_PARAMETERS, Resource, is_web_address, segments_below
from outlast.api.mcp.server_features import ServerFeatures, page, target_in
from outlast.api.services import Services
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.live_rows import LastRow, TaskRows
from outlast.workflows.tools.extensions import extension_entries
from outlast.workflows.tools.registry import selection_rules

log = logging.getLogger("outlast.mcp")
JsonObject = dict[str, Any]
ROWS_MIME_TYPE = "application/x-ndjson"
MAX_READ_BYTES = 64 * 1024
"""Size limit of the rows in one answer. A larger row is sent alone."""
MAX_ROW_BYTES = 1024 * 1024
NEXT_META = "outlast/next"
"""Key in the contents' meta: the URI of the rows after these."""
COMPLETE_META = "outlast/complete"
"""Key in the contents' meta: true after the last row."""
_ROWS_URI = re.compile(r"outlast://tasks/([^/?#]{1,200})/rows(?:\?([^#]{1,300}))?")
TASK_MIME_TYPE = "application/json"
_UNCACHED: JsonObject = {"ttlMs": 0, "cacheScope": "private"}
_TASK_URI = re.compile(r"outlast://tasks/([^/?#]{1,200})")
_MAX_NAME_CHARS = 100
_TOO_MANY_REQUESTS, _SERVER_ERRORS = 429, 500
_TEXTS = ("application/json", "application/xml", "application/javascript")
_TEXT_ENDS = ("+json", "+xml")
_TASK_TEMPLATES: tuple[JsonObject, ...] = (
    {
        "uriTemplate": "outlast://tasks/{id}",
        "name": "task",
        "title": "Task",
        "description": "One of your tasks: its state, its open questions, and its result once it has ended. "
        "Supports subscriptions.",
        "mimeType": TASK_MIME_TYPE,
    },
    {
        "uriTemplate": "outlast://tasks/{id}/rows{?after}",
        "name": "task-rows",
        "title": "Rows of a task",
        "description": "Rows that the runs of one of your tasks have written so far, as lines of JSON, 64 KB at a "
        f"time: `{NEXT_META}` in the contents' `_meta` is the URI of the rows after them. Supports subscriptions.",
        "mimeType": ROWS_MIME_TYPE,
    },
)


@dataclass(frozen=True)
class RowsUri:
    """The rows of a task, after the one with id `after`."""

    task_id: str
    after: str | None = None

    @classmethod
    def parse(cls, uri: str) -> "RowsUri | None":
        """Parse a URI; None for one without rows."""
        found = _ROWS_URI.fullmatch(uri)
        if found is None:
            return None
        after = parse_qs(found[2] or "").get("after")
        return cls(found[1], after[0] if after else None)

    def __str__(self) -> str:
        after = f"?after={self.after}" if self.after else ""
        return f"outlast://tasks/{self.task_id}/rows{after}"


class RowResources:
    """Reads and watches the rows of callers' tasks."""

    def __init__(self, rows: TaskRows, limits: CallerLimits) -> None:
        self._rows = rows
        self._limits = limits

    async def read(self, client: Client, wanted: RowsUri) -> JsonObject:
        """Return as many rows as fit, and the URI of the next ones. Raises an `ApiError`."""
        lines: list[bytes] = []
        size, after, is_complete = 0, wanted.after, False
        async with aclosing(await self._rows.stream(client.caller, wanted.task_id, after=after, follow=False)) as parts:
            async for part in parts:
                if isinstance(part, LastRow):
                    is_complete = part.end.is_complete
                    break
                for row_id, line in part.rows():
                    if lines and size + len(line) > MAX_READ_BYTES:
                        return _row_contents(wanted, lines, after, is_complete=False)
                    if len(line) > MAX_ROW_BYTES:
                        raise _too_large(wanted, row_id, len(line))
                    lines.append(line)
                    size, after = size + len(line) + 1, row_id
        return _row_contents(wanted, lines, after, is_complete=is_complete)

    async def changes(self, client: Client, wanted: RowsUri) -> AsyncGenerator[None]:
        """Yield when there are more rows than now, or than `after`, and after the last row.

        Ends early, with a log line, when they cannot be read or the caller has too many streams.
        """
        caller = client.caller
        try:
            with self._limits.slot(caller.id, "open_streams"):
                after = wanted.after or await self._rows.latest(caller, wanted.task_id)
                async with aclosing(await self._rows.stream(caller, wanted.task_id, after=after)) as parts:
                    async for _ in parts:
                        yield
        except ApiError as error:
            log.info("Stopped sending updates of %s: %s", wanted, error)


class TaskResources:
    """Reads and watches the tasks of callers."""

    def __init__(self, tasks: TaskClient) -> None:
        self._tasks = tasks

    async def read(self, client: Client, uri: str, task_id: str) -> JsonObject:
        """Return the task as `tasks/get` of 2026-07-28, with its tool, Actor and run. Raises `TaskNotFound`."""
        answer = await self._tasks.answer(client.caller, task_id)
        state = detailed_task(answer, mode=client.mode, caller_id=client.caller.id)
        state.pop("resultType")
        task = answer.task
        details = {"tool": task.tool, "actor": task.actor, "runId": task.run.run_id if task.run else None}
        shown = {**{name: value for name, value in details.items() if value is not None}, **state}
        return {"uri": uri, "mimeType": TASK_MIME_TYPE, "text": json.dumps(shown, ensure_ascii=False)}

    async def check(self, client: Client, task_id: str) -> None:
        """Raise `TaskNotFound` unless the task belongs to the client's caller."""
        await self._tasks.describe(client.caller, task_id)

    async def changes(self, client: Client, task_id: str) -> AsyncIterator[None]:
        """Yield for each change of the task from now on, until its workflow has ended."""
        last_seen = await self._tasks.describe(client.caller, task_id)
        async for event in await self._tasks.events(client.caller, task_id):
            # The events begin with the task's past: only those that differ from the last seen state are changes.
            if event.name not in STATE_EVENTS:
                continue
            now = await self._tasks.describe(client.caller, task_id)
            if now != last_seen:
                last_seen = now
                yield
        if await self._tasks.describe(client.caller, task_id) != last_seen:
            yield


class PlatformResources:
    """Addresses of the platform API as resources, within the rules for the tool that reads the same."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._bodies = services.platform_bodies
        self._max_bytes = services.settings.output_inline_limit_bytes
        """Size limit of a body in an answer; larger ones are replaced with a link."""

    def templates(self, client: Client) -> list[JsonObject]:
        """Return the entries of `resources/templates/list`."""
        listed = [address for address in dialect_of(client.mode).addresses if address.name is not None]
        return [dict(address.template(self._bodies.api_base_url)) for address in listed]

    async def read(self, client: Client, uri: str) -> JsonObject:
        """Return the contents. Raises `MCPError` with -32602, and with -32603 for an error that may pass."""
        root = self._bodies.api_base_url
        found = segments_below(uri, root)
        if found is None:
            raise unreadable(uri, f"only Apify API URLs ({root}) are resources here.")
        segments, parameters = found
        address = next((one for one in dialect_of(client.mode).addresses if one.matches(segments)), None)
        if address is None:
            raise unreadable(uri, "HTTP 404: only storages, runs and logs are resources here.")
        unknown = sorted(parameters.keys() - READ_PARAMETERS)
        if unknown:
            raise unreadable(uri, f"HTTP 400: reads take no parameter {unknown[0][:_MAX_NAME_CHARS]!r}.")
        tool = await self._services.catalogue.resolve(client.mode, address.tool, client.caller)
        try:
            self._services.tasks.check_front_door_tool(client.caller, tool)
        except InvalidCall as error:
            raise unreadable(uri, f"HTTP 403: {error.envelope.message}") from error
        async with self._services.audit.action(AuditEvent.RESOURCE_READ, client.caller, tool=address.tool) as record:
            try:
                body = await self._bodies.read(
                    client.caller, segments, parameters, max_bytes=self._max_bytes, is_object=address.is_object
                )
            except PlatformRefusal as error:
                record.note(outcome="refused")
                refused = _refused(uri, error)
            else:
                return await self._note(client, uri) if body.data is None else _contents(uri, body, body.data)
        raise refused

    async def _note(self, client: Client, uri: str) -> JsonObject:
        """Return a link in place of a large body. A signed address needs no token."""
        link = (
            await self._services.record_links.signed(client.caller, uri) if dialect_of(client.mode).signs_links else uri
        )
        where = f"get it at {link}" if link != uri else f"get it at {uri} with your Apify token"
        text = f"It has more than {self._max_bytes} bytes. Read a part of it, with limit and offset, or {where}."
        return {"uri": uri, "mimeType": "text/plain", "text": text}


class ResourceMethods:
    """The handlers of `resources/*`, without subscriptions: tasks, rows, pages, the platform, and MCP servers."""

    def __init__(self, services: Services, connections: Connections, widgets: Sequence[Resource] = ()) -> None:
        self._connections = connections
        self.tasks = TaskResources(services.tasks)
        self.rows = RowResources(services.task_rows, services.limits)
        self.servers = ServerFeatures(services, connections, self._is_own)
        self._platform = PlatformResources(services)
        self._resources = (*widgets, *cast(tuple[Resource, ...], extension_entries("RESOURCES")))

    async def list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        """`resources/list`."""
        client = await self._connections.client(ctx)
        offered = self._offered_to(client)
        own = [_resource_entry(entry, "uri", client.mode) for entry in offered if not entry.is_template]
        return page("resources", [*own, *(await self.servers.offer(client)).resources], params)

    async def templates(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        """`resources/templates/list`."""
        client = await self._connections.client(ctx)
        offered = self._offered_to(client)
        templates = [_resource_entry(entry, "uriTemplate", client.mode) for entry in offered if entry.is_template]
        served = (await self.servers.offer(client)).templates
        entries = [*self._platform.templates(client), *_TASK_TEMPLATES, *templates, *served]
        return page("resourceTemplates", entries, params)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> JsonObject:
        """`resources/read`. Raises -32602 (2025-11-25: -32002) for an unknown resource."""
        uri, client = str(params.uri), await self._connections.client(ctx)
        if (task_id := task_id_of(uri)) is not None:
            return await self._changing(ctx, client, uri, self.tasks.read(client, uri, task_id))
        if (rows := RowsUri.parse(uri)) is not None:
            return await self._changing(ctx, client, uri, self.rows.read(client, rows))
        for resource in self._offered_to(client):
            parts = resource.match(uri)
            if parts is not None:
                return {"contents": [_resource_contents(resource, uri, resource.read(parts), client.mode)]}
        served = await self.servers.read(client, await self.servers.offer(client), uri)
        if served is not None:
            return {**served, **_UNCACHED} if is_modern(ctx) else served
        dialect = dialect_of(client.mode)
        note = dialect.absent_page(uri) if _shows_apps(client) else None
        if note is not None:
            return _uncached(ctx, {"uri": uri, "mimeType": "text/plain", "text": note})
        if dialect.addresses and is_web_address(uri):
            return _uncached(ctx, await with_mcp_errors(self._platform.read(client, uri)))
        raise dialect.unknown_resource(uri, is_modern=is_modern(ctx))

    async def require(self, ctx: Context, client: Client, uri: str) -> None:
        """Raise what `read` raises for an unknown resource."""
        rows = RowsUri.parse(uri)
        task_id = rows.task_id if rows is not None else task_id_of(uri)
        if task_id is not None:
            try:
                await with_mcp_errors(self.tasks.check(client, task_id), except_for=TaskNotFound)
            except TaskNotFound as error:
                raise no_such_resource(ctx, uri) from error
        elif not (
            any(resource.match(uri) is not None for resource in self._offered_to(client))
            or target_in(await self.servers.offer(client), uri)
        ):
            raise no_such_resource(ctx, uri)

    async def _changing(self, ctx: Context, client: Client, uri: str, read: Awaitable[JsonObject]) -> JsonObject:
        """Return the contents of a task or of its rows."""
        try:
            return _uncached(ctx, await with_mcp_errors(read, except_for=TaskNotFound))
        except TaskNotFound as error:
            raise dialect_of(client.mode).unknown_resource(uri, is_modern=is_modern(ctx)) from error

    def _is_own(self, client: Client, uri: str) -> bool:
        """Return whether a URI is read as one of Outlast's own resources."""
        is_platform = bool(dialect_of(client.mode).addresses) and is_web_address(uri)
        return is_platform or any(one.match(uri) is not None for one in self._offered_to(client))

    def _offered_to(self, client: Client) -> tuple[Resource, ...]:
        pays = client.connection.selection.payment
        paid_by = (None, pays.name if pays is not None else None)
        return tuple(
            resource
            for resource in (*dialect_of(client.mode).resources, *self._resources)
            if resource.mode in (None, client.mode)
            and resource.payment in paid_by
            and (not resource.is_app or _shows_apps(client))
        )


def _uncached(ctx: Context, content: JsonObject) -> JsonObject:
    return {"contents": [content], **(_UNCACHED if is_modern(ctx) else {})}


def _shows_apps(client: Client) -> bool:
    return selection_rules(client.mode).shows_apps(client.connection.selection)


def no_such_resource(ctx: Context, uri: str) -> MCPError:
    """Build the error for a URI that does not exist or, indistinguishably, belongs to another caller."""
    return Dialect().unknown_resource(uri, is_modern=is_modern(ctx))


def _resource_entry(resource: Resource, uri_key: str, mode: str) -> JsonObject:
    """MCP `Resource`, or `ResourceTemplate`."""
    entry: JsonObject = {
        uri_key: resource.uri,
        "name": resource.name,
        **({"title": resource.title} if resource.title else {}),
        "description": resource.description,
        "mimeType": resource.mime_type,
    }
    meta = visible_meta(dict(resource.meta), mode=mode)
    return {**entry, "_meta": meta} if meta else entry


def _resource_contents(resource: Resource, uri: str, body: str | bytes, mode: str) -> JsonObject:
    """MCP `TextResourceContents`, or `BlobResourceContents`."""
    contents: JsonObject = {"uri": uri, "mimeType": resource.mime_type}
    if isinstance(body, bytes):
        contents["blob"] = base64.b64encode(body).decode()
    else:
        contents["text"] = body
    meta = visible_meta(dict(resource.meta), mode=mode)
    return {**contents, "_meta": meta} if meta else contents


def unreadable(uri: str, reason: str, *, code: int = INVALID_PARAMS) -> MCPError:
    """Return the error of `resources/read`, in the words that clients of Apify's own server match."""
    return MCPError(code, f"Failed to read {uri}: {reason}", data={"uri": uri})


def _too_large(wanted: RowsUri, row_id: str, size: int) -> BadRequest:
    after = RowsUri(wanted.task_id, row_id)
    return BadRequest(
        f"Row {row_id} has {size} bytes. Read it with GET /v1/tasks/{wanted.task_id}/rows, or continue at {after}."
    )


def _row_contents(wanted: RowsUri, lines: list[bytes], after: str | None, *, is_complete: bool) -> JsonObject:
    """MCP `TextResourceContents`."""
    text = b"".join(line + b"\n" for line in lines).decode()
    meta = {NEXT_META: str(RowsUri(wanted.task_id, after)), COMPLETE_META: is_complete}
    return {"uri": str(wanted), "mimeType": ROWS_MIME_TYPE, "text": text, "_meta": meta}


def task_id_of(uri: str) -> str | None:
    """Return the id in a task's URI; None for any other URI."""
    found = _TASK_URI.fullmatch(uri)
    return found[1] if found else None


def _contents(uri: str, body: PlatformBody, data: bytes) -> JsonObject:
    """MCP `TextResourceContents`, or `BlobResourceContents`."""
    header = Message()
    header["Content-Type"] = body.content_type or "application/octet-stream"
    kind = header.get_content_type()
    if not data or kind.startswith("text/") or kind in _TEXTS or kind.endswith(_TEXT_ENDS):
        try:
            text = data.decode(header.get_content_charset("utf-8"))
        except (LookupError, UnicodeDecodeError):
            pass  # Bytes lose nothing; a text in the wrong encoding does.
        else:
            return {"uri": uri, "mimeType": str(header["Content-Type"]), "text": text}
    return {"uri": uri, "mimeType": kind, "blob": base64.b64encode(data).decode()}


def _refused(uri: str, error: PlatformRefusal) -> MCPError:
    passes = error.status is None or error.status == _TOO_MANY_REQUESTS or error.status >= _SERVER_ERRORS
    status = "" if error.status is None else f"HTTP {error.status}: "
    return unreadable(uri, f"{status}{error}", code=INTERNAL_ERROR if passes else INVALID_PARAMS)
