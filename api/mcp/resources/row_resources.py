"""Rows of tasks as resources: `outlast://tasks/{id}/rows`, read in parts and watched while a run produces them."""

import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.errors import ApiError, BadRequest
from outlast.api.mcp.connections import Client
from outlast.api.tasks.live_rows.row_stream import LastRow, TaskRows

log = logging.getLogger("outlast.mcp")

JsonObject = dict[str, Any]
ROWS_MIME_TYPE = "application/x-ndjson"
MAX_READ_BYTES = 64 * 1024
"""Of the rows in one answer. A row that is larger comes alone."""
MAX_ROW_BYTES = 1024 * 1024
NEXT_META = "outlast/next"
"""Key in the contents' meta: the URI of the rows after these."""
COMPLETE_META = "outlast/complete"
"""Key in the contents' meta: whether no further row comes."""
_ROWS_URI = re.compile(r"outlast://tasks/([^/?#]{1,200})/rows(?:\?([^#]{1,300}))?")


@dataclass(frozen=True)
class RowsUri:
    """The rows of a task, after the one with id `after`."""

    task_id: str
    after: str | None = None

    @classmethod
    def parse(cls, uri: str) -> "RowsUri | None":
        """What a URI names; None for one that names no rows."""
        found = _ROWS_URI.fullmatch(uri)
        if found is None:
            return None
        after = parse_qs(found[2] or "").get("after")
        return cls(found[1], after[0] if after else None)

    def __str__(self) -> str:
        after = f"?after={self.after}" if self.after else ""
        return f"outlast://tasks/{self.task_id}/rows{after}"


def rows_template() -> JsonObject:
    """The entry of `resources/templates/list`."""
    return {
        "uriTemplate": "outlast://tasks/{id}/rows{?after}",
        "name": "task-rows",
        "title": "Rows of a task",
        "description": "Rows that the runs of one of your tasks have written so far, as lines of JSON, 64 KB at a "
        f"time: `{NEXT_META}` in the contents' `_meta` is the URI of the rows after them. Supports subscriptions.",
        "mimeType": ROWS_MIME_TYPE,
    }


class RowResources:
    """Reads and watches the rows of callers' tasks."""

    def __init__(self, rows: TaskRows, limits: CallerLimits) -> None:
        """Read `rows`. Who watches them holds one of the caller's streams."""
        self._rows = rows
        self._limits = limits

    async def read(self, client: Client, wanted: RowsUri) -> JsonObject:
        """The contents: as many rows as fit, and where they go on. Raises an `ApiError`."""
        lines: list[bytes] = []
        size, after, is_complete = 0, wanted.after, False
        async with aclosing(await self._rows.stream(client.caller, wanted.task_id, after=after, follow=False)) as parts:
            async for part in parts:
                if isinstance(part, LastRow):
                    is_complete = part.end.is_complete
                    break
                for row_id, line in part.rows():
                    if lines and size + len(line) > MAX_READ_BYTES:
                        return _contents(wanted, lines, after, is_complete=False)
                    if len(line) > MAX_ROW_BYTES:
                        raise _too_large(wanted, row_id, len(line))
                    lines.append(line)
                    size, after = size + len(line) + 1, row_id
        return _contents(wanted, lines, after, is_complete=is_complete)

    async def changes(self, client: Client, wanted: RowsUri) -> AsyncGenerator[None]:
        """Yield each time that there are more rows than now, or than `after`, and when no further row comes.

        Ends early, with a line in the log, when they cannot be read, or the caller has too many streams.
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


def _too_large(wanted: RowsUri, row_id: str, size: int) -> BadRequest:
    after = RowsUri(wanted.task_id, row_id)
    return BadRequest(
        f"Row {row_id} alone has {size} bytes. Read it with GET /v1/tasks/{wanted.task_id}/rows, or go on at {after}."
    )


def _contents(wanted: RowsUri, lines: list[bytes], after: str | None, *, is_complete: bool) -> JsonObject:
    """MCP `TextResourceContents`."""
    text = b"".join(line + b"\n" for line in lines).decode()
    meta = {NEXT_META: str(RowsUri(wanted.task_id, after)), COMPLETE_META: is_complete}
    return {"uri": str(wanted), "mimeType": ROWS_MIME_TYPE, "text": text, "_meta": meta}
