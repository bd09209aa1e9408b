"""Rows of tasks, which go on after cut connections and restarted servers: each row once."""

from http import HTTPStatus

from outlast.client.contracts.events import Event, TaskRow
from outlast.client.contracts.tasks import ToolError
from outlast.client.errors import ApiError, Conflict, InvalidRequest, NotFound, Unauthenticated
from outlast.client.flows.commands import Emitting, Flow, Item, chosen
from outlast.client.flows.events import follow
from outlast.client.flows.server import Server
from outlast.client.flows.tasks import task_path

_KINDS: dict[str, tuple[type[ApiError], HTTPStatus]] = {
    "conflict": (Conflict, HTTPStatus.CONFLICT),
    "authentication": (Unauthenticated, HTTPStatus.UNAUTHORIZED),
    "not_found": (NotFound, HTTPStatus.GONE),
}


def rows(server: Server, task_id: str, *, after: str | None, goes_on: bool) -> Emitting[TaskRow]:
    """The rows after the one with id `after`: with `goes_on` those to come, too, to the last one.

    The end of a connection is not the end of the rows, which the server tells. Raises `ApiError` for rows that cannot
    be read, and `ConnectionFailed` or `Unavailable` when the server stays away for too long.
    """
    params = () if goes_on else (("follow", "false"),)
    path = f"{task_path(task_id)}/rows"
    events = follow(server, path, after=after, is_last=_is_end, has_ended=_never, params=params)
    yield from chosen(events, _row_of)


def _is_end(event: Event) -> bool:
    return event.name == "end"


def _never() -> Flow[bool]:
    yield from ()
    return False


def _row_of(event: Event) -> Item[TaskRow] | None:
    if event.name == "error" and event.data.get("retryable") is False:
        raise _refusal(ToolError.model_validate(event.data))
    return Item(TaskRow(event.id, event.data)) if event.name == "row" and event.id is not None else None


def _refusal(error: ToolError) -> ApiError:
    kind, status = _KINDS.get(error.category, (InvalidRequest, HTTPStatus.UNPROCESSABLE_ENTITY))
    return kind(error.message, status=status, hint=error.hint)
