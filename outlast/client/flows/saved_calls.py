"""Saved calls: keep them under a name, show them, and start them by name."""

import secrets
from collections.abc import Mapping
from urllib.parse import quote

from pydantic import JsonValue

from outlast.client.contracts.schedules import SavedCall, SavedCallList
from outlast.client.contracts.tasks import Task, TaskAnswer
from outlast.client.errors import NotFound
from outlast.client.flows.commands import Flow, HttpRequest
from outlast.client.flows.requests import Body, CallOptions, call_body
from outlast.client.flows.server import Attempts, Server, request
from outlast.client.flows.tasks import wait
from outlast.client.problems import parsed


def save(server: Server, name: str, body: Body) -> Flow[SavedCall]:
    """Keep a call under a name."""
    return parsed(SavedCall, (yield from request(server, HttpRequest("PUT", _path(name), body=body))), server.url)


def get(server: Server, name: str) -> Flow[SavedCall]:
    """One saved call."""
    return parsed(SavedCall, (yield from request(server, HttpRequest("GET", _path(name)))), server.url)


def listed(server: Server) -> Flow[tuple[SavedCall, ...]]:
    """All saved calls, by name."""
    response = yield from request(server, HttpRequest("GET", "/v1/saved-calls"))
    return parsed(SavedCallList, response, server.url).saved_calls


def delete(server: Server, name: str) -> Flow[None]:
    """Delete a saved call. When an earlier attempt was lost, one that is gone is no error."""
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        yield from request(server, HttpRequest("DELETE", _path(name)), attempts)
    except NotFound:
        if not attempts.may_have_arrived:
            raise


def start(
    server: Server, name: str, arguments: Mapping[str, JsonValue] | None, idempotency_key: str | None
) -> Flow[Task]:
    """Start a saved call, once also when the answer is lost."""
    headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
    body: Body = {"arguments": dict(arguments or {})}
    response = yield from request(server, HttpRequest("POST", f"{_path(name)}/run", headers=headers, body=body))
    return parsed(Task, response, server.url)


def call(
    server: Server,
    name: str,
    arguments: Mapping[str, JsonValue] | None,
    idempotency_key: str | None,
    timeout_seconds: float | None,
) -> Flow[TaskAnswer]:
    """Start a saved call and wait for its answer. Raises `TaskFailed`, `WaitTimedOut`."""
    task = yield from start(server, name, arguments, idempotency_key)
    return (yield from wait(server, task.id, timeout_seconds))


def saved_body(tool: str, arguments: Mapping[str, JsonValue] | None, note: str | None, options: CallOptions) -> Body:
    """The body of `PUT /v1/saved-calls/{name}`."""
    return {**call_body(tool, arguments, options), **({"note": note} if note is not None else {})}


def _path(name: str) -> str:
    return f"/v1/saved-calls/{quote(name, safe='')}"
