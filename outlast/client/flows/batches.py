"""Batches: start them of items, files and rows, look at them, follow their results, stop them and go on."""

import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import quote

from pydantic import JsonValue

from outlast.client.contracts.batches import Batch, BatchPage, BatchRow
from outlast.client.errors import BadSettings, Conflict, WaitTimedOut
from outlast.client.flows.commands import Emitting, Flow, HttpRequest, Item, Pause, each
from outlast.client.flows.lines import read_lines
from outlast.client.flows.requests import Body, given
from outlast.client.flows.server import Attempts, Server, request
from outlast.client.problems import parsed

START_SECONDS = 600.0
"""How long the server may take to check the items of a batch: a hundred thousand take it a minute or two."""
PAGE_SIZE = 50
_LOOK_SECONDS = 1.0
JSON_LINES = "application/x-ndjson"
_MEDIA = {".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".csv": "text/csv"}

Arguments = Mapping[str, JsonValue]
Items = Iterable[Arguments] | Mapping[str, Arguments]
"""The arguments of each item; by its key, in a mapping."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows of results are wanted. `offset` counts from 0; with `status`, rows of that status."""

    status: str | None = None
    offset: int = 0
    limit: int | None = None


def start(server: Server, settings: Body, items: Items, idempotency_key: str | None) -> Flow[Batch]:
    """Start a batch of items. With a `mapping` or a `key` in the settings, each is a row; else its arguments."""
    are_rows = "mapping" in settings or "key" in settings
    content = b"".join(_line(item) for item in _entries(items, are_rows=are_rows))
    return (yield from upload(server, settings, content, JSON_LINES, idempotency_key))


def start_file(server: Server, settings: Body, path: Path, idempotency_key: str | None) -> Flow[Batch]:
    """Start a batch of the items in a file: `.jsonl`, `.ndjson` or `.csv`. Raises `BadSettings` for another one."""
    media = _MEDIA.get(path.suffix.lower())
    if media is None:
        raise BadSettings(f"{path} is neither JSON lines nor CSV.", hint="Its name must end with .jsonl or .csv.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadSettings(f"{path} cannot be read: {error.strerror}.") from error
    return (yield from upload(server, settings, content, media, idempotency_key))


def upload(server: Server, settings: Body, content: bytes, media: str, idempotency_key: str | None) -> Flow[Batch]:
    """Start a batch of the items in a file's content."""
    headers = {"Content-Type": media, "Outlast-Batch": json.dumps(settings), **_key(idempotency_key)}
    wanted = HttpRequest("POST", "/v1/batches/uploads", headers=headers, content=content, timeout_seconds=START_SECONDS)
    return parsed(Batch, (yield from request(server, wanted)), server.url)


def start_rows(server: Server, settings: Body, rows: Body, idempotency_key: str | None) -> Flow[Batch]:
    """Start a batch of rows that are stored."""
    body: Body = {**settings, "rows": rows}
    wanted = HttpRequest("POST", "/v1/batches", headers=_key(idempotency_key), body=body, timeout_seconds=START_SECONDS)
    return parsed(Batch, (yield from request(server, wanted)), server.url)


def get(server: Server, batch_id: str, patience_seconds: float | None = None) -> Flow[Batch]:
    """A batch as it is now."""
    attempts = Attempts(server, patience_seconds) if patience_seconds is not None else None
    return parsed(Batch, (yield from request(server, HttpRequest("GET", _path(batch_id)), attempts)), server.url)


def page(server: Server, only_open: bool, page_size: int, page_token: str | None) -> Flow[BatchPage]:
    """One page of batches: open ones first, then those that ended last."""
    values = {"only_open": "true" if only_open else None, "page_size": str(page_size), "page_token": page_token}
    params = tuple((name, value) for name, value in values.items() if value is not None)
    return parsed(BatchPage, (yield from request(server, HttpRequest("GET", "/v1/batches", params=params))), server.url)


def listed(server: Server, only_open: bool, limit: int | None) -> Emitting[Batch]:
    """The batches, page by page as they are read, `limit` at most."""
    left, token = limit, None
    while left is None or left > 0:
        found = yield from page(server, only_open, min(left or PAGE_SIZE, PAGE_SIZE), token)
        for batch in found.batches[:left]:
            yield Item(batch)
        left = None if left is None else left - len(found.batches)
        token = found.next_page_token
        if token is None:
            return


def wait(server: Server, batch_id: str, timeout_seconds: float | None) -> Flow[Batch]:
    """The batch when it has ended. Raises `WaitTimedOut`."""
    deadline = time.monotonic() + (float("inf") if timeout_seconds is None else timeout_seconds)
    while True:
        batch = yield from get(server, batch_id, server.policy.wait_seconds)
        if batch.has_ended:
            return batch
        if time.monotonic() >= deadline:
            raise WaitTimedOut(
                f"Batch {batch_id} is at work after {timeout_seconds:g} s.",
                hint="The batch goes on; wait for it again by its id.",
            )
        yield Pause(_LOOK_SECONDS)


def cancel(server: Server, batch_id: str) -> Flow[Batch]:
    """Have a batch cancelled. When an earlier attempt was lost, a batch that has ended is no error."""
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        response = yield from request(server, HttpRequest("POST", f"{_path(batch_id)}/cancel"), attempts)
    except Conflict:
        if not attempts.may_have_arrived:
            raise
        return (yield from get(server, batch_id))
    return parsed(Batch, response, server.url)


def go_on(server: Server, batch_id: str, verb: str, changes: Body) -> Flow[Batch]:
    """Resume or retry a batch. When an earlier attempt was lost, a batch that is at work is no error."""
    attempts = Attempts(server, server.policy.request_seconds)
    wanted = HttpRequest("POST", f"{_path(batch_id)}/{verb}", body=changes)
    try:
        response = yield from request(server, wanted, attempts)
    except Conflict:
        if not attempts.may_have_arrived:
            raise
        return (yield from get(server, batch_id))
    return parsed(Batch, response, server.url)


def changes(
    concurrency: int | None,
    budget_usd: float | None,
    stop: Mapping[str, JsonValue] | None,
    categories: Sequence[str] = (),
) -> Body:
    """Changed settings, and which failed items run again."""
    return given(
        concurrency=concurrency,
        budget_usd=None if budget_usd is None else str(budget_usd),
        stop=None if stop is None else dict(stop),
        categories=list(categories) or None,
    )


def lines(
    server: Server, batch_id: str, wanted: RowFilter, form: str = "jsonl", *, csv_safe: bool = False
) -> Emitting[bytes]:
    """The results so far, as lines of JSON or of CSV; with `csv_safe`, for spreadsheets."""

    def left(done: int) -> HttpRequest | None:
        if wanted.limit is not None and done >= wanted.limit:
            return None
        values = {
            "format": form,
            "csv_safe": "true" if csv_safe and form == "csv" else None,
            "status": wanted.status,
            "offset": str(wanted.offset + done),
            "limit": None if wanted.limit is None else str(wanted.limit - done),
        }
        params = tuple((name, value) for name, value in values.items() if value is not None)
        return HttpRequest("GET", f"{_path(batch_id)}/results", params=params, headers={"Accept": "*/*"})

    # A value of CSV may have a line end in it, so lines say nothing of rows.
    yield from read_lines(server, left, goes_on=form == "jsonl")


def rows(server: Server, batch_id: str, wanted: RowFilter) -> Emitting[BatchRow]:
    """The results so far."""
    yield from each(lines(server, batch_id, wanted), BatchRow.model_validate_json)


def followed(server: Server, batch_id: str, status: str | None = None) -> Emitting[BatchRow]:
    """The results as they come, until the batch has ended."""
    seen = 0

    def counted(line: bytes) -> BatchRow:
        nonlocal seen
        seen += 1
        return BatchRow.model_validate_json(line)

    while True:
        batch = yield from get(server, batch_id, server.policy.wait_seconds)
        yield from each(lines(server, batch_id, RowFilter(status=status, offset=seen)), counted)
        if batch.has_ended:
            return
        yield Pause(_LOOK_SECONDS)


def mapped(server: Server, settings: Body, items: Items, idempotency_key: str | None) -> Emitting[BatchRow]:
    """Start a batch, and give its results as they come."""
    batch = yield from start(server, settings, items, idempotency_key)
    yield from followed(server, batch.id)


def _entries(items: Items, *, are_rows: bool) -> Iterable[JsonValue]:
    """The items as lines have them."""
    if isinstance(items, Mapping):
        for key, arguments in cast(Mapping[str, Arguments], items).items():
            yield {"key": key, "arguments": dict(arguments)}
        return
    for item in items:
        yield dict(item) if are_rows else {"arguments": dict(item)}


def _line(item: JsonValue) -> bytes:
    return json.dumps(item).encode() + b"\n"


def _key(given_key: str | None) -> dict[str, str]:
    """The key makes the request safe to repeat when its answer is lost; without one it gets a new one."""
    return {"Idempotency-Key": given_key or secrets.token_hex(16)}


def _path(batch_id: str) -> str:
    return f"/v1/batches/{quote(batch_id, safe='')}"
