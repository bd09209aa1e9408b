"""`/v1/tasks/{task_id}/rows`: the rows of a task as its runs produce them."""

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from outlast.api.http.dependencies import CallerDep, ServicesDep
from outlast.api.http.event_stream import begun_soon, lines_response, sse_response
from outlast.api.http.known_parameters import KnownParametersRoute
from outlast.api.http.problems import documented_problems
from outlast.api.rest.task_routes import TaskId
from outlast.api.tasks.live_rows.row_stream import LastRow, RowChunk, Rows
from outlast.contracts.rows import RowsWanted

router = APIRouter(prefix="/v1/tasks", tags=["tasks"], route_class=KnownParametersRoute)

_LINES = "application/x-ndjson"
_LINES_TYPES = (_LINES, "application/jsonl", "application/json-lines")
_FRAMES_AT_ONCE = 16 * 1024
"""Bytes of frames that are put together to one piece of the response."""


@router.get(
    "/{task_id}/rows",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {}, _LINES: {}},
            "description": "Server-sent events, or the rows as lines of JSON, until no further row comes.",
        },
        **documented_problems(400, 401, 404, 409, 410, 422, 503),
    },
)
async def stream_rows(
    task_id: TaskId,
    services: ServicesDep,
    caller: CallerDep,
    wanted: Annotated[RowsWanted, Query()],
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    last_event_id: Annotated[
        str | None, Header(max_length=200, description="Id of the last row received; counts before `after`.")
    ] = None,
) -> StreamingResponse:
    """The rows of a task's runs, from the first on or after any row, each once, as the runs produce them.

    As server-sent events, every row is an event `row` with an id, under which the stream goes on after it
    (`Last-Event-ID`), and the last event is `end`. With `Accept: application/x-ndjson` the answer has the bare rows as
    lines of JSON. The stream begins before the run does, and ends when the task has done with its runs and all that
    they have written was sent. Of a task that has ended it is all of its rows.
    """
    rows = await services.task_rows.stream(caller, task_id, after=last_event_id or wanted.after, follow=wanted.follow)
    rows = await begun_soon(rows)
    if wanted.form == "jsonl" or (wanted.form is None and _accepts_lines(accept)):
        return lines_response(_lines(rows), _LINES)
    return sse_response(_frames(rows))


def _accepts_lines(accept: str) -> bool:
    return any(kind in accept.lower() for kind in _LINES_TYPES)


async def _lines(rows: Rows) -> AsyncGenerator[bytes]:
    async with aclosing(rows):
        async for part in rows:
            if isinstance(part, RowChunk):
                yield part.lines
            del part


async def _frames(rows: Rows) -> AsyncGenerator[bytes]:
    async with aclosing(rows):
        async for part in rows:
            if isinstance(part, LastRow):
                yield _end_frame(part)
                continue
            for frames in _together(_row_frame(row_id, line) for row_id, line in part.rows()):
                yield frames
                del frames
            del part


def _together(frames: Iterable[bytes]) -> Iterator[bytes]:
    """The frames, as many at once as make a piece of the response."""
    pieces: list[bytes] = []
    size = 0
    for frame in frames:
        pieces.append(frame)
        size += len(frame)
        if size > _FRAMES_AT_ONCE:
            together, size = b"".join(pieces), 0
            pieces.clear()
            yield together
    if pieces:
        yield b"".join(pieces)


def _row_frame(row_id: str, line: bytes) -> bytes:
    """The row is JSON already, as the platform wrote it. A carriage return would end the line in server-sent events."""
    return b'id: %s\nevent: row\ndata: {"data":%s}\n\n' % (row_id.encode(), line.replace(b"\r", b" "))


def _end_frame(last: LastRow) -> bytes:
    identity = f"id: {last.id}\n" if last.id else ""
    data = last.end.model_dump_json(exclude_none=True)
    return f'{identity}event: end\ndata: {{"data":{data}}}\n\n'.encode()
