"""Tasks: start, look at, wait for, list, answer, cancel and follow them; and the tools that they call."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pydantic import JsonValue

from outlast.client.contracts.events import Event
from outlast.client.contracts.providers import ProviderList
from outlast.client.contracts.tasks import Task, TaskAnswer, TaskPage
from outlast.client.contracts.tools import Readiness, Tool, ToolList
from outlast.client.errors import Conflict, OutlastError, TaskFailed, WaitTimedOut
from outlast.client.flows.commands import Emitting, Flow, HttpRequest, Item, Params, Pause
from outlast.client.flows.events import follow
from outlast.client.flows.requests import tool_name
from outlast.client.flows.server import Attempts, Server, probe, request
from outlast.client.problems import parsed

LONGEST_WAIT_SECONDS = 60.0
"""How long one request waits for a result; longer waits are several requests."""
PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks are wanted; None is any."""

    status: str | None = None
    tool: str | None = None
    session_id: str | None = None
    batch_id: str | None = None
    schedule_id: str | None = None


def start(server: Server, body: Mapping[str, JsonValue], idempotency_key: str | None) -> Flow[Task]:
    """Start a task. The key makes the request safe to repeat when its answer is lost; without one it gets a new one."""
    headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
    response = yield from request(server, HttpRequest("POST", "/v1/tasks", headers=headers, body=dict(body)))
    return parsed(Task, response, server.url)


def call(
    server: Server, body: Mapping[str, JsonValue], idempotency_key: str | None, timeout_seconds: float | None
) -> Flow[TaskAnswer]:
    """Start a task and wait for its answer. Raises `TaskFailed`, `WaitTimedOut`."""
    task = yield from start(server, body, idempotency_key)
    return (yield from wait(server, task.id, timeout_seconds))


def get(server: Server, task_id: str) -> Flow[Task]:
    """A task as it is now."""
    response = yield from request(server, HttpRequest("GET", task_path(task_id)))
    return parsed(Task, response, server.url)


def result(server: Server, task_id: str, wait_seconds: float) -> Flow[TaskAnswer]:
    """The outcome of a task, after waiting for it at most `wait_seconds`."""
    deadline = time.monotonic() + wait_seconds
    while True:
        began = time.monotonic()
        answer = yield from _result_once(server, task_id, min(deadline - began, LONGEST_WAIT_SECONDS))
        now = time.monotonic()
        if answer.result is not None or answer.task.finished_at is not None or now >= deadline:
            return answer
        if now - began < 1:  # a server that does not wait as long as it is asked to
            yield Pause(min(1.0, deadline - now))


def wait(server: Server, task_id: str, timeout_seconds: float | None) -> Flow[TaskAnswer]:
    """The answer of a task. Raises `TaskFailed`, and `WaitTimedOut` when the time is over."""
    limit = float("inf") if timeout_seconds is None else timeout_seconds
    answer = yield from result(server, task_id, limit)
    if answer.is_failure:
        raise TaskFailed(answer)
    if answer.result is None and answer.task.finished_at is None:
        raise WaitTimedOut(
            f"Task {task_id} is {answer.task.status} after {timeout_seconds:g} s.",
            hint="The task goes on; wait for it again by its id.",
        )
    return answer


def _result_once(server: Server, task_id: str, wait_seconds: float) -> Flow[TaskAnswer]:
    wait = max(wait_seconds, 0)
    params: Params = (("wait", f"{wait:g}"),) if wait > 0 else ()
    wanted = HttpRequest("GET", f"{task_path(task_id)}/result", params=params, timeout_seconds=30 + wait)
    patience = server.policy.wait_seconds if wait > 0 else server.policy.request_seconds
    response = yield from request(server, wanted, Attempts(server, patience))
    return parsed(TaskAnswer, response, server.url)


def page(server: Server, wanted: TaskFilter, page_size: int, page_token: str | None) -> Flow[TaskPage]:
    """One page of tasks: open ones first, then those that ended last."""
    filters = {
        "status": wanted.status,
        "tool": wanted.tool,
        "session_id": wanted.session_id,
        "batch_id": wanted.batch_id,
        "schedule_id": wanted.schedule_id,
        "page_token": page_token,
    }
    params = (("page_size", str(page_size)), *((name, value) for name, value in filters.items() if value is not None))
    response = yield from request(server, HttpRequest("GET", "/v1/tasks", params=params))
    return parsed(TaskPage, response, server.url)


def listed(server: Server, wanted: TaskFilter, limit: int | None) -> Emitting[Task]:
    """The tasks, page by page as they are read, `limit` at most."""
    left, token = limit, None
    while left is None or left > 0:
        found = yield from page(server, wanted, min(left or PAGE_SIZE, PAGE_SIZE), token)
        for task in found.tasks:
            yield Item(task)
        left = None if left is None else left - len(found.tasks)
        token = found.next_page_token
        if token is None:
            return


def cancel(server: Server, task_id: str) -> Flow[Task]:
    """Ask for a task to be cancelled. When an earlier attempt was lost, a task that has ended is no error."""
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        response = yield from request(server, HttpRequest("POST", f"{task_path(task_id)}/cancel"), attempts)
    except Conflict:
        if not attempts.may_have_arrived:
            raise
        return (yield from get(server, task_id))
    return parsed(Task, response, server.url)


def resurrect(server: Server, task_id: str, body: Mapping[str, JsonValue]) -> Flow[Task]:
    """Have the run of an ended task go on, for a new task. Repeated, it gives the same task."""
    response = yield from request(server, HttpRequest("POST", f"{task_path(task_id)}/resurrect", body=dict(body)))
    return parsed(Task, response, server.url)


def answer(
    server: Server,
    task_id: str,
    content: Mapping[str, JsonValue] | None,
    key: str | None,
    action: str,
    message: str | None = None,
) -> Flow[Task]:
    """Answer a question of a task; without `key` the only one that it asks.

    An answer that is refused because the question was answered counts as taken when an earlier attempt was lost.
    """
    if key is None:
        key = only_question((yield from get(server, task_id)))
    given: dict[str, JsonValue] = {"action": action}
    given |= {"content": dict(content)} if content is not None else {}
    given |= {"message": message} if message is not None else {}
    wanted = HttpRequest("POST", f"{task_path(task_id)}/input", body={"answers": {key: given}})
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        response = yield from request(server, wanted, attempts)
    except Conflict:
        task = yield from get(server, task_id)
        if not attempts.may_have_arrived or key in (task.input_requests or {}):
            raise
        return task
    return parsed(Task, response, server.url)


def only_question(task: Task) -> str:
    """The key of the task's only question. Raises `OutlastError` when it asks none, or several."""
    asked = list(task.input_requests or {})
    if not asked:
        raise OutlastError(f"Task {task.id} asks nothing: it is {task.status}.")
    if len(asked) > 1:
        raise OutlastError(f"Task {task.id} asks several questions.", hint=f"Name one by its key: {', '.join(asked)}.")
    return asked[0]


def events(server: Server, task_id: str, after: str | None) -> Emitting[Event]:
    """The events of a task until its workflow has ended."""

    def has_ended() -> Flow[bool]:
        return (yield from get(server, task_id)).finished_at is not None

    return follow(server, f"{task_path(task_id)}/events", after=after, is_last=lambda _: False, has_ended=has_ended)


def tools(server: Server, mode: str | None) -> Flow[ToolList]:
    """The tools that can be called."""
    response = yield from request(server, HttpRequest("GET", "/v1/tools", params=_mode(mode)))
    return parsed(ToolList, response, server.url)


def tool(server: Server, name: str, mode: str | None) -> Flow[Tool]:
    """One tool."""
    wanted = HttpRequest("GET", f"/v1/tools/{quote(tool_name(name), safe='')}", params=_mode(mode))
    return parsed(Tool, (yield from request(server, wanted)), server.url)


def providers(server: Server) -> Flow[ProviderList]:
    """The providers of models."""
    response = yield from request(server, HttpRequest("GET", "/v1/providers"))
    return parsed(ProviderList, response, server.url)


def readiness(server: Server) -> Flow[Readiness]:
    """Whether the server can take tasks, asked once."""
    return parsed(Readiness, (yield from probe(server, "/readyz")), server.url)


def task_path(task_id: str) -> str:
    """The path of a task."""
    return f"/v1/tasks/{quote(task_id, safe='')}"


def _mode(mode: str | None) -> Params:
    return (("mode", mode),) if mode else ()
