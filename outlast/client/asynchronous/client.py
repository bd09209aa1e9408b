"""`outlast.AsyncClient`."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from pydantic import JsonValue

from outlast.client.asynchronous.areas import AsyncAreas
from outlast.client.asynchronous.transport import AsyncStream, AsyncTransport
from outlast.client.connection import Connection, find_connection
from outlast.client.contracts.events import Event, TaskRow
from outlast.client.contracts.providers import Provider
from outlast.client.contracts.tasks import Task, TaskAnswer, TaskPage
from outlast.client.contracts.tools import Readiness, Tool
from outlast.client.flows import operations as operating
from outlast.client.flows import task_rows, tasks
from outlast.client.flows import usage as usages
from outlast.client.flows.requests import (
    BatchOptions,
    CallOptions,
    ResurrectOptions,
    batch_settings,
    call_body,
    resurrect_body,
)
from outlast.client.flows.server import Server
from outlast.client.flows.tasks import PAGE_SIZE, TaskFilter
from outlast.client.flows.usage import UsageOptions
from outlast.client.retries import OnWaiting, RetryPolicy, ignore_waiting

if TYPE_CHECKING:
    from outlast.client.contracts.batches import BatchRow
    from outlast.client.contracts.handoffs import HandoffEvent, OpenHandoff
    from outlast.client.contracts.operations import CallerHoldings, Operations
    from outlast.client.contracts.usage import UsageReport
    from outlast.client.flows.batches import Items


class AsyncClient(AsyncAreas):
    """Talks to one Outlast server.

        async with AsyncClient() as client:
            print((await client.call("outlast--sleeper", {"seconds": 1})).text)

    Every method raises `ApiError` for what the server refuses and `ConnectionFailed` when it does not answer, after
    the retries of `RetryPolicy`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data_dir: Path | None = None,
        connection: Connection | None = None,
        timeout_seconds: float = 30.0,
        retries: RetryPolicy | None = None,
        on_waiting: OnWaiting = ignore_waiting,
    ) -> None:
        """Talk to `url`, or to OUTLAST_URL, or to the stack that runs on the data directory, with `token` or
        OUTLAST_TOKEN.

        `timeout_seconds` is the longest silence of the server within one request; waiting for results has its own
        limits. Raises `BadSettings` and `NoServer`.
        """
        self.connection = connection or find_connection(url, token, data_dir)
        self._server = Server(self.connection, retries or RetryPolicy(), on_waiting)
        self._transport = AsyncTransport(self.connection, timeout_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    @property
    def on_waiting(self) -> OnWaiting:
        """Called before a request is repeated, and with None when the server answers again."""
        return self._server.on_waiting

    @on_waiting.setter
    def on_waiting(self, on_waiting: OnWaiting) -> None:
        self._server.on_waiting = on_waiting

    async def start(
        self, tool: str, arguments: Mapping[str, JsonValue] | None = None, **options: Unpack[CallOptions]
    ) -> Task:
        """Start a call of `tool` (or of an Actor, as `user/name`) as a task, and return at once.

        A lost answer never starts the task twice: the request carries an idempotency key, your own or a new one.
        """
        body = call_body(tool, arguments, options)
        return await self._transport.run(tasks.start(self._server, body, options.get("idempotency_key")))

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        timeout_seconds: float | None = None,
        **options: Unpack[CallOptions],
    ) -> TaskAnswer:
        """Start a call of `tool` and wait for its answer, also across restarts of the server.

        Raises `TaskFailed` when the tool answers with an error, and `WaitTimedOut` after `timeout_seconds`; the task
        goes on then.
        """
        body = call_body(tool, arguments, options)
        return await self._transport.run(
            tasks.call(self._server, body, options.get("idempotency_key"), timeout_seconds)
        )

    def map(
        self,
        tool: str,
        items: "Items",
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> "AsyncStream[BatchRow]":
        """Start a batch of `items` when the first row is asked for, and iterate over its results as they come.

        The batch goes on when nobody reads on: `batches.cancel` stops it. See `batches.start` for what items are.
        """
        from outlast.client.flows.batches import mapped  # noqa: PLC0415 (as the areas)

        settings = batch_settings(tool, arguments, options)
        return self._transport.stream(mapped(self._server, settings, items, options.get("idempotency_key")))

    async def wait(self, task_id: str, *, timeout_seconds: float | None = None) -> TaskAnswer:
        """Wait for the answer of a task. Raises `TaskFailed`, `WaitTimedOut`."""
        return await self._transport.run(tasks.wait(self._server, task_id, timeout_seconds))

    async def get(self, task_id: str) -> Task:
        """Return a task as it is now."""
        return await self._transport.run(tasks.get(self._server, task_id))

    async def result(self, task_id: str, *, wait_seconds: float = 0) -> TaskAnswer:
        """Return the result of a task, after waiting for it at most `wait_seconds`. An error of the tool is a
        result.
        """
        return await self._transport.run(tasks.result(self._server, task_id, wait_seconds))

    def events(self, task_id: str, *, after: str | None = None) -> AsyncStream[Event]:
        """Iterate over a task's events, or those after the one with id `after`, until its workflow has ended."""
        return self._transport.stream(tasks.events(self._server, task_id, after))

    def rows(self, task_id: str, *, after: str | None = None, follow: bool = True) -> AsyncStream[TaskRow]:
        """Iterate over the rows of a task as its runs produce them, or over those after the row with id `after`.

        Each comes once, also across cut connections and restarts of the server. It ends when no further row comes;
        without `follow`, with the rows that there are now.
        """
        return self._transport.stream(task_rows.rows(self._server, task_id, after=after, goes_on=follow))

    async def answer(
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
        (the client fails), and `message` says why, in at most 500 characters.

        An approval takes `{"decision": "yes"}` or `{"decision": "no"}`, and a `note`.
        """
        return await self._transport.run(tasks.answer(self._server, task_id, content, key, action, message))

    async def cancel(self, task_id: str) -> Task:
        """Ask for a task to be cancelled; it is when the platform says that its run has ended."""
        return await self._transport.run(tasks.cancel(self._server, task_id))

    async def resurrect(self, task_id: str, **options: Unpack[ResurrectOptions]) -> Task:
        """Have the run of an ended task go on, instead of paying a new one. Gives the new task that it goes on for."""
        return await self._transport.run(tasks.resurrect(self._server, task_id, resurrect_body(options)))

    def list_tasks(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        session_id: str | None = None,
        batch_id: str | None = None,
        schedule_id: str | None = None,
        limit: int | None = None,
    ) -> AsyncStream[Task]:
        """Iterate over your tasks: open ones first, then those that ended last. Pages are read as needed."""
        wanted = TaskFilter(status, tool, session_id, batch_id, schedule_id)
        return self._transport.stream(tasks.listed(self._server, wanted, limit))

    async def list_page(
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
        wanted = TaskFilter(status, tool, session_id, batch_id, schedule_id)
        return await self._transport.run(tasks.page(self._server, wanted, page_size, page_token))

    async def tools(self, *, mode: str | None = None) -> tuple[Tool, ...]:
        """Return the tools that can be called."""
        return (await self._transport.run(tasks.tools(self._server, mode))).tools

    async def tool(self, name: str, *, mode: str | None = None) -> Tool:
        """Return one tool, by its name or as the Actor `user/name`."""
        return await self._transport.run(tasks.tool(self._server, name, mode))

    async def providers(self) -> tuple[Provider, ...]:
        """Return the providers of models: whether a worker has their keys, their controls, their known models."""
        return (await self._transport.run(tasks.providers(self._server))).providers

    async def handoffs(self, *tools: str) -> "tuple[OpenHandoff, ...]":
        """Return what waits for you, of these tools (of all, without any): what your own tasks ask you to do or to
        approve, then the approvals of other callers' calls that you may give. The newest thousand of each.

        `answer(handoff.task_id, {"decision": "yes"}, key=handoff.key)` approves one.
        """
        from outlast.client.flows import handoffs  # noqa: PLC0415 (as the areas)

        return (await self._transport.run(handoffs.handoffs(self._server, tools))).handoffs

    def follow_handoffs(self, *tools: str) -> "AsyncStream[HandoffEvent]":
        """Iterate over what `handoffs` returns, as it opens and closes. Never ends."""
        from outlast.client.flows import handoffs  # noqa: PLC0415 (as the areas)

        return self._transport.stream(handoffs.follow_handoffs(self._server, tools))

    async def usage(self, **options: Unpack[UsageOptions]) -> "UsageReport":
        """Return what you have spent on runs and models: this month's days, or as asked."""
        return await self._transport.run(usages.usage(self._server, options))

    async def usage_csv(self, *, csv_safe: bool = True, **options: Unpack[UsageOptions]) -> str:
        """Return the rows of `usage` as CSV, with a header line.

        With `csv_safe`, an apostrophe stands before text that a spreadsheet would compute.
        """
        return await self._transport.run(usages.usage_csv(self._server, options, csv_safe=csv_safe))

    async def operations(self) -> "Operations":
        """Return how the server is doing: your open tasks; with the scope `admin` all tasks, queues and workers."""
        return await self._transport.run(operating.operations(self._server))

    async def holdings(self, caller: str | None = None) -> "CallerHoldings":
        """Return what stays when a caller's keys are revoked: yours, or with the scope `admin` that of `caller`."""
        return await self._transport.run(operating.holdings(self._server, caller))

    async def metrics(self) -> str:
        """Return the metrics of the process that answers, in the text format of Prometheus. Asks once, without a
        token.
        """
        return await self._transport.run(operating.metrics(self._server))

    async def server_time(self) -> datetime | None:
        """Return what time the server's clock shows, in whole seconds; None when it does not say. Asks once, without a
        token.
        """
        return await self._transport.run(operating.server_time(self._server))

    async def readiness(self) -> Readiness:
        """Return whether the server can take tasks. Asks once, without a token."""
        return await self._transport.run(tasks.readiness(self._server))
