"""Stored outputs: look at them, read them whole or in part, remove them."""

import json
from urllib.parse import quote

from pydantic import ConfigDict, JsonValue, TypeAdapter

from outlast.client.contracts.outputs import RowSelection, StoredOutput
from outlast.client.errors import OutlastError, RateLimited, Unavailable
from outlast.client.flows.commands import (
    CloseStream,
    Emitting,
    Flow,
    HttpRequest,
    Item,
    Params,
    TransportFailure,
    each,
    read_stream,
)
from outlast.client.flows.lines import read_lines
from outlast.client.flows.server import Attempts, Server, begin_stream, request
from outlast.client.problems import parsed

SILENCE_SECONDS = 60.0
_ROW: TypeAdapter[JsonValue] = TypeAdapter(JsonValue, config=ConfigDict(defer_build=True))


def info(server: Server, locator: str) -> Flow[StoredOutput]:
    """Description of an output."""
    return parsed(StoredOutput, (yield from request(server, HttpRequest("GET", f"{_path(locator)}/info"))), server.url)


def delete(server: Server, locator: str) -> Flow[None]:
    """Remove an output."""
    yield from request(server, HttpRequest("DELETE", _path(locator)))


def content(server: Server, locator: str, start: int, end: int | None) -> Emitting[bytes]:
    """The bytes from `start` up to and without `end`, in pieces. Goes on where it stopped after a cut connection."""
    attempts = Attempts(server, server.policy.request_seconds)
    position = start
    while end is None or position < end:
        try:
            yield from begin_stream(server, _request(locator, headers=_range(position, end)), attempts)
            while (piece := (yield from read_stream())) is not None:
                attempts.succeeded()
                position += len(piece)
                yield Item(piece)
            return
        except TransportFailure as failure:
            trouble: OutlastError = server.failure(failure)
        except (RateLimited, Unavailable) as busy:
            trouble = busy
        yield CloseStream()
        yield from attempts.pause(trouble)


def lines(server: Server, locator: str, wanted: RowSelection) -> Emitting[bytes]:
    """The selected rows as lines of JSON, each with its line end.

    Goes on after a cut connection, except where an expression decides and some rows came already: then nobody knows
    how far the server had read, and it raises `ConnectionFailed`.
    """

    def left(done: int) -> HttpRequest | None:
        over = wanted.limit is not None and done >= wanted.limit
        return None if over else _request(locator, params=_selection(wanted, done))

    yield from read_lines(server, left, goes_on=not wanted.evaluates)


def rows(server: Server, locator: str, wanted: RowSelection) -> Emitting[JsonValue]:
    """The selected rows."""
    yield from each(lines(server, locator, wanted), lambda line: _ROW.validate_python(json.loads(line)))


def _path(locator: str) -> str:
    return f"/v1/outputs/{quote(locator, safe='')}"


def _request(locator: str, *, params: Params = (), headers: dict[str, str] | None = None) -> HttpRequest:
    return HttpRequest(
        "GET", _path(locator), params=params, headers={"Accept": "*/*", **(headers or {})}, timeout_seconds=60
    )


def _range(start: int, end: int | None) -> dict[str, str]:
    if start == 0 and end is None:
        return {}
    return {"Range": f"bytes={start}-{'' if end is None else end - 1}"}


def _selection(wanted: RowSelection, done: int) -> Params:
    """The query parameters for what is left of `wanted` after `done` rows."""
    values = {
        "offset": str(wanted.offset + done) if wanted.offset + done or not wanted.evaluates else None,
        "limit": None if wanted.limit is None else str(wanted.limit - done),
        "fields": ",".join(wanted.fields) or None,
        "filter": wanted.where,
        "query": wanted.query,
    }
    return tuple((name, value) for name, value in values.items() if value is not None)
