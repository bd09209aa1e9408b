"""Requests of the client that take more than a line: filters, bodies and uploads. Shared by both clients."""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from outlast.client.errors import BadSettings, OutlastError, WaitTimedOut
from outlast.client.http import HttpRequest, Params, idempotency, json_lines, path, query
from outlast.contracts.options import (
    BatchChanges,
    BatchOptions,
    Body,
    CallOptions,
    MessageOptions,
    SavedCallOptions,
    ScheduleOptions,
    SessionOptions,
    TaskFilter,
    UsageOptions,
    to_wire,
)
from outlast.contracts.outputs import RowSelection
from outlast.contracts.tasks import Task

PAGE_SIZE = 100
BATCHES_PAGE_SIZE = SCHEDULES_PAGE_SIZE = 50
DELIVERIES_PAGE_SIZE = 200
LONGEST_WAIT_SECONDS = 60.0
"""Longest wait of one request for a result; longer waits are several requests."""
START_SECONDS = 600.0
"""Time for the server to check the items of a batch: 100,000 items take one to two minutes."""
OUTPUT_SECONDS = 60.0
"""The longest silence while an output is read."""
JSON_LINES = "application/x-ndjson"
_MEDIA = {".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".csv": "text/csv"}

Arguments = Mapping[str, JsonValue]
Items = Iterable[Arguments] | Mapping[str, Arguments]
"""The arguments of each item; by its key, in a mapping."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows of a batch's results. `offset` counts from 0; with `status`, rows of that status.

    `columns` are columns of CSV, and paths such as `result.title` and `input.url`; all by default. `with_input` adds
    the rows that the items were made from.
    """

    status: str | None = None
    offset: int = 0
    limit: int | None = None
    columns: Sequence[str] = ()
    with_input: bool = False


def tool_name(name: str) -> str:
    """The tool of an Actor that is named `user/name` or `user~name`; names of tools stay as they are."""
    if "/" not in name and "~" not in name:
        return name
    from outlast.workflows.tools.core.actor_names import actor_tool_name, normalised_actor  # noqa: PLC0415 (rarely)

    return actor_tool_name(normalised_actor(name))


def given(**values: JsonValue) -> Body:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def call_body(tool: str, arguments: Arguments | None, options: CallOptions, *, known: Sequence[str] = ()) -> Body:
    """The body of `POST /v1/tasks`. Raises `TypeError` for an unknown option."""
    return _called(tool, arguments) | _wire(CallOptions, options, arguments, known)


def saved_call_body(tool: str, arguments: Arguments | None, options: SavedCallOptions) -> Body:
    """The body of `PUT /v1/saved-calls/{name}`. Raises `TypeError` for an unknown option."""
    return _called(tool, arguments) | _wire(SavedCallOptions, options, arguments)


def batch_settings(tool: str, arguments: Arguments | None, options: BatchOptions, *, known: Sequence[str] = ()) -> Body:
    """The body of `POST /v1/batches`, without the items. Raises `TypeError` for an unknown option."""
    return _called(tool, arguments) | _wire(BatchOptions, options, arguments, known)


def start_call(body: Body, idempotency_key: str | None) -> HttpRequest:
    """Start a task, once also when the answer is lost."""
    return HttpRequest("POST", path("tasks"), headers=idempotency(idempotency_key), body=body)


def tasks_page(wanted: TaskFilter) -> Callable[[int, str | None], HttpRequest]:
    """From the size and the token of a page of tasks to its request. Raises `TypeError` for an unknown filter."""
    filters = _params(to_wire(TaskFilter, wanted))
    return lambda size, token: HttpRequest("GET", path("tasks"), (*query(page_size=size, page_token=token), *filters))


def waiting(resource: str, wait_seconds: float) -> HttpRequest:
    """Read a resource that the server may hold back until it has ended, for `wait_seconds` at most."""
    wait = min(max(wait_seconds, 0), LONGEST_WAIT_SECONDS)
    params = query(wait=f"{wait:g}") if wait > 0 else ()
    return HttpRequest("GET", resource, params, timeout_seconds=30 + wait)


def timed_out(what: str, seconds: float | None) -> WaitTimedOut:
    """The error of a wait that is over, such as `Task t is running`."""
    return WaitTimedOut(f"{what} after {seconds:g} s.", hint="It continues; wait for it again by its id.")


def answers(key: str, content: Arguments | None, action: str, message: str | None) -> Body:
    """The body of `POST /v1/tasks/{id}/input`."""
    chosen = given(action=action, content=None if content is None else dict(content), message=message)
    return {"answers": {key: chosen}}


def only_question(task: Task) -> str:
    """The key of the task's only question. Raises `OutlastError` when it asks none, or several."""
    asked = list(task.input_requests or {})
    if not asked:
        raise OutlastError(f"Task {task.id} asks nothing: it is {task.status}.")
    if len(asked) > 1:
        raise OutlastError(f"Task {task.id} asks several questions.", hint=f"Name one by its key: {', '.join(asked)}.")
    return asked[0]


def upload(settings: Body, content: bytes, media: str, idempotency_key: str | None) -> HttpRequest:
    """Start a batch of the items in a file's content."""
    headers = {"Content-Type": media, "Outlast-Batch": json.dumps(settings), **idempotency(idempotency_key)}
    return HttpRequest(
        "POST", path("batches", "uploads"), headers=headers, content=content, timeout_seconds=START_SECONDS
    )


def upload_items(settings: Body, items: Items, idempotency_key: str | None) -> HttpRequest:
    """Start a batch of items. With a `mapping` or a `key` in the settings, each is a row; else its arguments."""
    are_rows = "mapping" in settings or "key" in settings
    if isinstance(items, Mapping):
        keyed = cast(Mapping[str, Arguments], items)
        entries = [given(key=key, arguments=dict(arguments)) for key, arguments in keyed.items()]
    else:
        entries = [dict(item) if are_rows else given(arguments=dict(item)) for item in items]
    return upload(settings, json_lines(entries), JSON_LINES, idempotency_key)


def upload_file(settings: Body, file: Path, idempotency_key: str | None) -> HttpRequest:
    """Start a batch of the items in a file: `.jsonl`, `.ndjson` or `.csv`. Raises `BadSettings` for another one."""
    media = _MEDIA.get(file.suffix.lower())
    if media is None:
        raise BadSettings(f"{file} is neither JSON lines nor CSV.", hint="Its name must end with .jsonl or .csv.")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadSettings(f"{file} cannot be read: {error.strerror}.") from error
    return upload(settings, content, media, idempotency_key)


def batch_changes(changes: BatchChanges) -> Body:
    """The body of a request to resume or retry a batch."""
    return to_wire(BatchChanges, changes)


def batch_lines(batch_id: str, wanted: RowFilter, form: str, *, csv_safe: bool) -> Callable[[int], HttpRequest | None]:
    """From the number of lines read to the request for the rest of a batch's results; None when nothing is left."""

    def rest(done: int) -> HttpRequest | None:
        if wanted.limit is not None and done >= wanted.limit:
            return None
        params = query(
            format=form,
            csv_safe=True if csv_safe and form == "csv" else None,
            status=wanted.status,
            offset=wanted.offset + done,
            limit=None if wanted.limit is None else wanted.limit - done,
            columns=",".join(wanted.columns) or None,
            with_input=wanted.with_input or None,
        )
        return HttpRequest("GET", path("batches", batch_id, "results"), params, headers={"Accept": "*/*"})

    return rest


def schedule_body(options: ScheduleOptions, *, known: Sequence[str] = ()) -> Body:
    """The body of a request about a schedule. Raises `TypeError` for an unknown option."""
    body = to_wire(ScheduleOptions, options, known=known)
    for name in ("call", "batch"):
        target = body.get(name)
        if isinstance(target, dict) and isinstance(tool := target.get("tool"), str):
            body[name] = {**target, "tool": tool_name(tool)}
    return body


def output_range(locator: str, start: int, end: int | None) -> HttpRequest:
    """Read the bytes of an output from `start` up to and without `end`."""
    ranges = {} if start == 0 and end is None else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
    return _output(locator, (), ranges)


def output_lines(locator: str, wanted: RowSelection) -> Callable[[int], HttpRequest | None]:
    """From the number of rows read to the request for the rest of the selected rows; None when nothing is left."""

    def rest(done: int) -> HttpRequest | None:
        if wanted.limit is not None and done >= wanted.limit:
            return None
        offset = wanted.offset + done
        params = query(
            offset=offset if offset or not wanted.evaluates else None,
            limit=None if wanted.limit is None else wanted.limit - done,
            fields=",".join(wanted.fields) or None,
            filter=wanted.where,
            query=wanted.query,
        )
        return _output(locator, params, {})

    return rest


def session_body(options: SessionOptions) -> Body:
    """The body of `POST /v1/sessions`. Raises `TypeError` for an unknown option."""
    return {"sessionId": f"s-{secrets.token_hex(6)}"} | to_wire(SessionOptions, options)


def import_body(exported: Arguments, session_id: str | None) -> tuple[Body, str]:
    """The body of `POST /v1/sessions/import`, and the id of the session that it makes."""
    settings, new_id = exported.get("settings"), session_id or f"s-{secrets.token_hex(6)}"
    return {**exported, "settings": {**(settings if isinstance(settings, dict) else {}), "sessionId": new_id}}, new_id


def message_body(message: str | Sequence[Body] | None, options: MessageOptions) -> Body:
    """The body of `POST /v1/sessions/{id}/messages`. Raises `TypeError` for an unknown option."""
    text_or_parts: JsonValue = message if message is None or isinstance(message, str) else [*message]
    new_id: Body = {"messageId": f"m-{secrets.token_hex(8)}", "stream": False}
    return new_id | given(message=text_or_parts) | to_wire(MessageOptions, options)


def webhook_body(**values: Any) -> Body:
    """A webhook, or changes of one: what is given."""
    events = values.pop("events", None)
    return given(events=None if events is None else list(events), **values)


def usage_params(options: UsageOptions) -> Params:
    """The query of `GET /v1/usage`. Raises `TypeError` for an unknown option."""
    return _params(to_wire(UsageOptions, options))


def _params(wire: Body) -> Params:
    """The members of a flat body as query parameters; those of a list are repeated."""
    values = {name: value if isinstance(value, list) else [value] for name, value in wire.items()}
    return tuple(one for name, texts in values.items() for text in texts for one in query(**{name: text}))


def _wire(kind: type, options: Any, arguments: Arguments | None, known: Sequence[str] = ()) -> Body:
    try:
        return to_wire(kind, options, known=known)
    except TypeError as error:
        if arguments is not None:
            raise
        raise TypeError(f"{error} The arguments of a tool are one dict, the second parameter.") from None


def _called(tool: str, arguments: Arguments | None) -> Body:
    if not isinstance(tool, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may err
        raise TypeError(f"The tool is a name, such as 'search-actors', not {tool!r}.")
    if not isinstance(arguments, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
        raise TypeError(
            f"The arguments of {tool} are one dict, such as {{'name': value}}, not of type {type(arguments).__name__}."
        )
    return {"tool": tool_name(tool), "arguments": dict(arguments or {})}


def _output(locator: str, params: Params, headers: dict[str, str]) -> HttpRequest:
    headers = {"Accept": "*/*", **headers}
    return HttpRequest("GET", path("outputs", locator), params, headers, timeout_seconds=OUTPUT_SECONDS)
