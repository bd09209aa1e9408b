# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""Tasks: the methods of `Client` that start, read, follow, answer and end them."""

import time
from collections.abc import Generator, Mapping
from typing import Unpack

from pydantic import JsonValue

from outlast.client.blocking.batches import Batches
from outlast.client.blocking.concurrency import sleep
from outlast.client.blocking.transport import Stream, Transport, follow, follow_handoffs, follow_rows
from outlast.client.errors import Conflict, TaskFailed
from outlast.client.http import HttpRequest, path
from outlast.client.requests import (
    PAGE_SIZE,
    Items,
    TaskFilter,
    answers,
    batch_settings,
    call_body,
    only_question,
    start_call,
    tasks_page,
    timed_out,
    upload_items,
    waiting,
)
from outlast.contracts.answers import TaskAnswer
from outlast.contracts.batches import Batch, BatchRow
from outlast.contracts.events import Event, TaskRow
from outlast.contracts.handoffs import HandoffEvent, HandoffList, OpenHandoff
from outlast.contracts.options import BatchOptions, Body, CallOptions, ResurrectOptions, to_wire
from outlast.contracts.tasks import Task, TaskPage


class Tasks:
    """Calls of tools as durable tasks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def start(
        self, tool: str, arguments: Mapping[str, JsonValue] | None = None, **options: Unpack[CallOptions]
    ) -> Task:
        """Start a call of `tool` (or of an Actor, as `user/name`) as a task, and return at once.

        A lost answer never starts the task twice: the request carries an idempotency key, your own or a new one.
        """
        wanted = start_call(call_body(tool, arguments, options), options.get("idempotency_key"))
        return self._transport.fetch(Task, wanted)

    def call(
        self,
        tool: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        timeout_seconds: float | None = None,
        **options: Unpack[CallOptions],
    ) -> TaskAnswer:
        """Start a call of `tool` and wait for its answer, also across restarts of the server.

        Raises `TaskFailed` when the tool answers with an error, and `WaitTimedOut` after `timeout_seconds`; the task
        continues then.
        """
        body = call_body(tool, arguments, options, known=("timeout_seconds",))
        task = self._transport.fetch(Task, start_call(body, options.get("idempotency_key")))
        return self.wait(task.id, timeout_seconds=timeout_seconds)

    def map(
        self,
        tool: str,
        items: Items,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Stream[BatchRow]:
        """Start a batch of `items` when the first row is read, and iterate over its results as they come.

        The batch continues when nobody reads on: `batches.cancel` stops it. See `batches.start` for items.
        """
        settings = batch_settings(tool, arguments, options)
        return Stream(self._map(settings, items, options.get("idempotency_key")))

    def wait(self, task_id: str, *, timeout_seconds: float | None = None) -> TaskAnswer:
        """Wait for the answer of a task. Raises `TaskFailed`, `WaitTimedOut`."""
        limit = float("inf") if timeout_seconds is None else timeout_seconds
        answer = self.result(task_id, wait_seconds=limit)
        if answer.is_failure:
            raise TaskFailed(answer)
        if answer.result is None and answer.task.finished_at is None:
            raise timed_out(f"Task {task_id} is {answer.task.status}", timeout_seconds)
        return answer

    def get(self, task_id: str) -> Task:
        """Return a task as it is now."""
        return self._transport.fetch(Task, HttpRequest("GET", path("tasks", task_id)))

    def result(self, task_id: str, *, wait_seconds: float = 0) -> TaskAnswer:
        """Return the result of a task, after waiting for it at most `wait_seconds`. An error of the tool is a
        result.
        """
        policy = self._transport.server.policy
        deadline = time.monotonic() + wait_seconds
        while True:
            began = time.monotonic()
            wanted = waiting(path("tasks", task_id, "result"), deadline - began)
            attempts = self._transport.attempts(policy.wait_seconds if wanted.params else policy.request_seconds)
            answer = self._transport.fetch(TaskAnswer, wanted, attempts)
            now = time.monotonic()
            if answer.result is not None or answer.task.finished_at is not None or now >= deadline:
                return answer
            if now - began < 1:  # the server does not wait as long as it was told to
                sleep(min(1.0, deadline - now))

    def events(self, task_id: str, *, after: str | None = None) -> Stream[Event]:
        """Iterate over a task's events, or those after the one with id `after`, until its workflow has ended."""
        events_path = path("tasks", task_id, "events")
        return Stream(follow(self._transport, events_path, after=after, until_task_ends=task_id))

    def rows(self, task_id: str, *, after: str | None = None, follow: bool = True) -> Stream[TaskRow]:
        """Iterate over the rows of a task as its runs produce them, or over those after the row with id `after`.

        Each comes once, also across cut connections and restarts of the server. It ends when no further row comes;
        without `follow`, with the rows that there are now.
        """
        return Stream(follow_rows(self._transport, task_id, after=after, waits=follow))

    def answer(
        self,
        task_id: str,
        content: Mapping[str, JsonValue] | None = None,
        *,
        key: str | None = None,
        action: str = "accept",
        message: str | None = None,
    ) -> Task:
        """Answer a question of a task; `key` is needed when it asks several.

        Without content, `action` is `decline` (the user says no), `cancel` (the user closes the question) or `error`
        (the client fails), and `message` gives the reason, in at most 500 characters.

        An approval takes `{"decision": "yes"}` or `{"decision": "no"}`, and a `note`.
        """
        key = key if key is not None else only_question(self.get(task_id))
        wanted = HttpRequest("POST", path("tasks", task_id, "input"), body=answers(key, content, action, message))
        attempts = self._transport.attempts()
        try:
            return self._transport.fetch(Task, wanted, attempts)
        except Conflict:  # an earlier attempt, whose answer was lost, may have answered the question
            task = self.get(task_id)
            if not attempts.may_have_arrived or key in (task.input_requests or {}):
                raise
            return task

    def cancel(self, task_id: str) -> Task:
        """Request the cancellation of a task; it is cancelled when the platform reports that its run has ended."""
        attempts = self._transport.attempts()
        try:
            return self._transport.fetch(Task, HttpRequest("POST", path("tasks", task_id, "cancel")), attempts)
        except Conflict:  # an earlier attempt, whose answer was lost, may have cancelled it
            if not attempts.may_have_arrived:
                raise
            return self.get(task_id)

    def resurrect(self, task_id: str, **options: Unpack[ResurrectOptions]) -> Task:
        """Resurrect the run of an ended task, instead of paying a new one. Returns the new task that continues it;
        repeated, the same one.
        """
        body = to_wire(ResurrectOptions, options)
        return self._transport.fetch(Task, HttpRequest("POST", path("tasks", task_id, "resurrect"), body=body))

    def list_tasks(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        session_id: str | None = None,
        batch_id: str | None = None,
        schedule_id: str | None = None,
        limit: int | None = None,
    ) -> Stream[Task]:
        """Iterate over your tasks: open ones first, then those that ended last. Pages are read as needed."""
        return self._transport.listed(
            TaskPage,
            tasks_page(TaskFilter(status, tool, session_id, batch_id, schedule_id)),
            lambda page: (page.tasks, page.next_page_token),
            limit=limit,
            page_size=PAGE_SIZE,
        )

    def list_page(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        session_id: str | None = None,
        batch_id: str | None = None,
        schedule_id: str | None = None,
        page_size: int = PAGE_SIZE,
        page_token: str | None = None,
    ) -> TaskPage:
        """Return one page of your tasks, and the token of the next one."""
        page_request = tasks_page(TaskFilter(status, tool, session_id, batch_id, schedule_id))
        return self._transport.fetch(TaskPage, page_request(page_size, page_token))

    def handoffs(self, *tools: str) -> tuple[OpenHandoff, ...]:
        """Return the hand-offs and approvals that wait for you, of these tools (of all, without any): those of your own
        tasks, then the approvals of other callers' calls that you may give. The newest thousand of each.

        `answer(handoff.task_id, {"decision": "yes"}, key=handoff.key)` approves one.
        """
        wanted = HttpRequest("GET", path("handoffs"), tuple(("tool", tool) for tool in tools))
        return (self._transport.fetch(HandoffList, wanted)).handoffs

    def follow_handoffs(self, *tools: str) -> Stream[HandoffEvent]:
        """Iterate over what `handoffs` returns, as it opens and closes. Never ends."""
        return Stream(follow_handoffs(self._transport, tools))

    def _map(self, settings: Body, items: Items, idempotency_key: str | None) -> Generator[BatchRow]:
        batch = self._transport.fetch(Batch, upload_items(settings, items, idempotency_key))
        with Batches(self._transport).follow(batch.id) as rows:
            yield from rows
