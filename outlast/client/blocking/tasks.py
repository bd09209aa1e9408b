# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""Tasks and batches of tasks."""

import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Unpack

from pydantic import JsonValue

from outlast.client import requests
from outlast.client.blocking.concurrency import sleep, write_file
from outlast.client.blocking.transport import Stream, Transport, follow, follow_handoffs, follow_rows
from outlast.client.errors import Conflict, TaskFailed
from outlast.client.http import HttpRequest, idempotency, path, query
from outlast.contracts.answers import TaskAnswer
from outlast.contracts.batches import Batch, BatchPage, BatchRow
from outlast.contracts.handoffs import HandoffEvent, HandoffList, OpenHandoff
from outlast.contracts.options import (
    BatchOptions,
    Body,
    CallOptions,
    ResurrectOptions,
    SharedOptions,
    TaskFilter,
    to_wire,
)
from outlast.contracts.tasks import Event, Task, TaskCall, TaskPage, TaskRow

_LOOK_SECONDS = 1.0
"""Pause between two looks at a batch that runs."""


class Batches:
    """One tool for many inputs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def start(
        self,
        tool: str,
        items: requests.Items,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch: `tool` (or an Actor, as `user/name`) with the arguments of each of `items`, over the
        `arguments` that all have. A mapping names the items by its keys.

        With the option `mapping` or `key`, items are rows. Raises `InvalidRequest`, whose violations name the numbers
        of items that do not fit; nothing is started then.
        """
        settings = requests.batch_settings(tool, arguments, options)
        return self._transport.fetch(Batch, requests.upload_items(settings, items, options.get("idempotency_key")))

    def start_file(
        self,
        tool: str,
        path: Path | str,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch of the items in a file, `.jsonl` or `.csv`. Raises `InvalidRequest`, whose violations name the
        lines that do not fit, and `BadSettings` for a file that cannot be read.
        """
        settings = requests.batch_settings(tool, arguments, options)
        return self._transport.fetch(Batch, requests.upload_file(settings, Path(path), options.get("idempotency_key")))

    def start_lines(
        self,
        tool: str,
        lines: bytes,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch of lines of JSON, each an item or a row. Raises `InvalidRequest` as `start` does."""
        settings = requests.batch_settings(tool, arguments, options)
        return self._transport.fetch(
            Batch, requests.upload(settings, lines, requests.JSON_LINES, options.get("idempotency_key"))
        )

    def start_rows(
        self,
        tool: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        output: str | None = None,
        dataset: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch of the rows of a stored output or of a dataset, `limit` of them from `offset` on."""
        settings = requests.batch_settings(tool, arguments, options, known=("output", "dataset", "offset", "limit"))
        body: Body = {**settings, "rows": requests.given(output=output, dataset=dataset, offset=offset, limit=limit)}
        headers = idempotency(options.get("idempotency_key"))
        wanted = HttpRequest(
            "POST", path("batches"), headers=headers, body=body, timeout_seconds=requests.START_SECONDS
        )
        return self._transport.fetch(Batch, wanted)

    def get(self, batch_id: str) -> Batch:
        """Return a batch as it is now."""
        return self._transport.fetch(Batch, HttpRequest("GET", path("batches", batch_id)))

    def wait(self, batch_id: str, *, timeout_seconds: float | None = None) -> Batch:
        """Wait until a batch has ended, also across restarts of the server. Raises `WaitTimedOut`."""
        deadline = time.monotonic() + (float("inf") if timeout_seconds is None else timeout_seconds)
        while not (batch := self._look(batch_id)).has_ended:
            if time.monotonic() >= deadline:
                raise requests.timed_out(f"Batch {batch_id} still runs", timeout_seconds)
            sleep(_LOOK_SECONDS)
        return batch

    def list(self, *, only_open: bool = False, limit: int | None = None) -> Stream[Batch]:
        """Iterate over your batches: open ones first, then the most recently ended. Pages are read as needed."""
        return self._transport.listed(
            BatchPage,
            lambda size, token: _page(only_open, size, token),
            lambda page: (page.batches, page.next_page_token),
            limit=limit,
            page_size=requests.BATCHES_PAGE_SIZE,
        )

    def list_page(
        self, *, only_open: bool = False, page_size: int = requests.BATCHES_PAGE_SIZE, page_token: str | None = None
    ) -> BatchPage:
        """Return one page of your batches, and the token of the next one."""
        return self._transport.fetch(BatchPage, _page(only_open, page_size, page_token))

    def rows(
        self, batch_id: str, *, status: str | None = None, offset: int = 0, limit: int | None = None
    ) -> Stream[BatchRow]:
        """Iterate over the results so far: `limit` rows from `offset` on, only those of one `status` if given."""
        return Stream(self._rows(batch_id, requests.RowFilter(status, offset, limit)))

    def follow(self, batch_id: str, *, status: str | None = None) -> Stream[BatchRow]:
        """Iterate over the results as they come, until the batch has ended."""
        return Stream(self._follow(batch_id, status))

    def lines(
        self, batch_id: str, wanted: requests.RowFilter, form: str = "jsonl", *, csv_safe: bool = False
    ) -> Stream[bytes]:
        """Iterate over the results so far as lines of JSON, or of CSV (`form="csv"`), each with its line end.

        With `csv_safe`, an apostrophe precedes text of CSV that a spreadsheet would compute.
        """
        # A value of CSV may contain a line end, so lines of CSV do not count rows.
        return self._transport.lines(
            requests.batch_lines(batch_id, wanted, form, csv_safe=csv_safe), can_resume=form == "jsonl"
        )

    def save(
        self,
        batch_id: str,
        path: Path | str,
        *,
        status: str | None = None,
        csv_safe: bool = False,
        columns: Sequence[str] = (),
        with_input: bool = False,
    ) -> int:
        """Write the results so far to a file, as CSV if its name ends with `.csv`, else as lines of JSON; return its
        size in bytes. The file appears when it is complete. `csv_safe` is that of `lines`.

        `columns` are columns of CSV, and paths such as `result.title` and `input.url`; all by default. `with_input`
        adds the rows that the items were made from.
        """
        form = "csv" if Path(path).suffix.lower() == ".csv" else "jsonl"
        wanted = requests.RowFilter(status, columns=columns, with_input=with_input)
        with self.lines(batch_id, wanted, form, csv_safe=csv_safe) as pieces:
            return write_file(Path(path), pieces)

    def cancel(self, batch_id: str) -> Batch:
        """Start no further items and cancel those that run; the batch ends with the results so far."""
        return self._change(batch_id, "cancel", None)

    def resume(
        self,
        batch_id: str,
        *,
        concurrency: int | None = None,
        budget_usd: float | None = None,
        stop: Mapping[str, JsonValue] | None = None,
    ) -> Batch:
        """Continue a batch that has stopped: with its cancelled items, and those that were not started."""
        changes = requests.batch_changes({"concurrency": concurrency, "budget_usd": budget_usd, "stop": stop})
        return self._change(batch_id, "resume", changes)

    def retry(
        self,
        batch_id: str,
        categories: Sequence[str] = (),
        *,
        concurrency: int | None = None,
        budget_usd: float | None = None,
        stop: Mapping[str, JsonValue] | None = None,
    ) -> Batch:
        """Run the failed items of a batch that has ended again; only those that failed with one of `categories`, if any
        are given.
        """
        changes = requests.batch_changes(
            {"concurrency": concurrency, "budget_usd": budget_usd, "stop": stop, "categories": categories}
        )
        return self._change(batch_id, "retry", changes)

    def _look(self, batch_id: str) -> Batch:
        """The batch; patient when the server is away."""
        attempts = self._transport.attempts(self._transport.server.policy.wait_seconds)
        return self._transport.fetch(Batch, HttpRequest("GET", path("batches", batch_id)), attempts)

    def _change(self, batch_id: str, verb: str, changes: Body | None) -> Batch:
        """Cancel, resume or retry. When an earlier attempt was lost, a batch that is in that state is no error."""
        attempts = self._transport.attempts()
        wanted = HttpRequest("POST", path("batches", batch_id, verb), body=changes)
        try:
            return self._transport.fetch(Batch, wanted, attempts)
        except Conflict:
            if not attempts.may_have_arrived:
                raise
            return self.get(batch_id)

    def _rows(self, batch_id: str, wanted: requests.RowFilter) -> Generator[BatchRow]:
        with self.lines(batch_id, wanted) as lines:
            for line in lines:
                yield BatchRow.model_validate_json(line, extra="allow")

    def _follow(self, batch_id: str, status: str | None) -> Generator[BatchRow]:
        seen = 0
        while True:
            batch = self._look(batch_id)
            with self.rows(batch_id, status=status, offset=seen) as rows:
                for row in rows:
                    seen += 1
                    yield row
            if batch.has_ended:
                return
            sleep(_LOOK_SECONDS)


def _page(only_open: bool, page_size: int, page_token: str | None) -> HttpRequest:
    params = query(only_open=only_open or None, page_size=page_size, page_token=page_token)
    return HttpRequest("GET", path("batches"), params)


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
        wanted = requests.start_call(requests.call_body(tool, arguments, options), options.get("idempotency_key"))
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
        body = requests.call_body(tool, arguments, options, known=("timeout_seconds",))
        task = self._transport.fetch(Task, requests.start_call(body, options.get("idempotency_key")))
        return self.wait(task.id, timeout_seconds=timeout_seconds)

    def run(
        self,
        program: str,
        inputs: Mapping[str, JsonValue] | None = None,
        *,
        tools: Sequence[str] | None = None,
        timeout_seconds: float | None = None,
        **options: Unpack[CallOptions],
    ) -> TaskAnswer:
        """Run a program whose calls of tools are tasks, and wait for its value: a call of `run-program`.

        `program` is Python, `inputs` are its variables, and `tools` the tools that it may call; by default all. Raises
        as `call` does.
        """
        arguments: dict[str, JsonValue] = {"code": program, "inputs": dict(inputs or {})}
        if tools is not None:
            arguments["tools"] = list(tools)
        return self.call("run-program", arguments, timeout_seconds=timeout_seconds, **options)

    def map(
        self,
        tool: str,
        items: requests.Items,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Stream[BatchRow]:
        """Start a batch of `items` when the first row is read, and iterate over its results as they come.

        The batch continues when nobody reads on: `batches.cancel` stops it. See `batches.start` for items.
        """
        settings = requests.batch_settings(tool, arguments, options)
        return Stream(self._map(settings, items, options.get("idempotency_key")))

    def wait(self, task_id: str, *, timeout_seconds: float | None = None) -> TaskAnswer:
        """Wait for the answer of a task. Raises `TaskFailed`, `WaitTimedOut`."""
        limit = float("inf") if timeout_seconds is None else timeout_seconds
        answer = self.result(task_id, wait_seconds=limit)
        if answer.is_failure:
            raise TaskFailed(answer)
        if answer.result is None and answer.task.finished_at is None:
            raise requests.timed_out(f"Task {task_id} is {answer.task.status}", timeout_seconds)
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
            wanted = requests.waiting(path("tasks", task_id, "result"), deadline - began)
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
        key = key if key is not None else requests.only_question(self.get(task_id))
        wanted = HttpRequest(
            "POST", path("tasks", task_id, "input"), body=requests.answers(key, content, action, message)
        )
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

    def call_of(self, task_id: str) -> TaskCall:
        """Return the call behind a task: tool, arguments with masked secrets, options, the rule that decided."""
        return self._transport.fetch(TaskCall, HttpRequest("GET", path("tasks", task_id, "call")))

    def again(
        self,
        task_id: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[SharedOptions],
    ) -> Task:
        """Make the call of a task again, in a new task, with `arguments` in place of those with the same names.

        The key makes repeated requests start one task; by default, each call of this method starts one.
        """
        body = to_wire(SharedOptions, options)
        body |= {"arguments": dict(arguments)} if arguments else {}
        headers = idempotency(idempotency_key)
        wanted = HttpRequest("POST", path("tasks", task_id, "again"), headers=headers, body=body)
        return self._transport.fetch(Task, wanted)

    def resurrect(self, task_id: str, **options: Unpack[ResurrectOptions]) -> Task:
        """Resurrect the run of an ended task, instead of paying a new one. Returns the new task that continues it;
        repeated, the same one.
        """
        body = to_wire(ResurrectOptions, options)
        return self._transport.fetch(Task, HttpRequest("POST", path("tasks", task_id, "resurrect"), body=body))

    def resolve(
        self,
        task_id: str,
        outcome: Literal["done", "not_done", "retry"],
        *,
        result: JsonValue = None,
        note: str | None = None,
    ) -> Task:
        """Record whether a call that ended with `outcome_unknown` was executed, and return its task.

        `done` completes it, with `result` if it is known. After `not_done`, the call may be made again. `retry` makes
        it again, in the task that `resolution.task_id` names. The first resolution is final.
        """
        given: dict[str, JsonValue] = {"outcome": outcome, "result": result, "note": note}
        body: dict[str, JsonValue] = {name: value for name, value in given.items() if value is not None}
        return self._transport.fetch(Task, HttpRequest("POST", path("tasks", task_id, "resolve"), body=body))

    def list_tasks(self, *, limit: int | None = None, **wanted: Unpack[TaskFilter]) -> Stream[Task]:
        """Iterate over your tasks: open ones first, then the most recently ended. Pages are read as needed."""
        return self._transport.listed(
            TaskPage,
            requests.tasks_page(wanted),
            lambda page: (page.tasks, page.next_page_token),
            limit=limit,
            page_size=requests.PAGE_SIZE,
        )

    def list_page(
        self, *, page_size: int = requests.PAGE_SIZE, page_token: str | None = None, **wanted: Unpack[TaskFilter]
    ) -> TaskPage:
        """Return one page of your tasks, and the token of the next one."""
        return self._transport.fetch(TaskPage, requests.tasks_page(wanted)(page_size, page_token))

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

    def _map(self, settings: Body, items: requests.Items, idempotency_key: str | None) -> Generator[BatchRow]:
        batch = self._transport.fetch(Batch, requests.upload_items(settings, items, idempotency_key))
        with Batches(self._transport).follow(batch.id) as rows:
            yield from rows
