"""Requests to one server: with retries, as models, page by page, and as streams that survive cut connections.

Streams of events, rows and hand-offs continue after restarts of the server, too.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

import httpx
from pydantic import BaseModel

from outlast.client.asynchronous.concurrency import sleep
from outlast.client.errors import NotFound
from outlast.client.http import (
    NO_CONTENT,
    HttpRequest,
    Params,
    SseParser,
    build,
    event_of,
    handoff_event,
    is_unresumable,
    path,
    query,
    row_of,
    settings,
    stream_request,
)
from outlast.client.retries import Attempts, Server, parsed
from outlast.contracts.handoffs import HandoffEvent
from outlast.contracts.tasks import Event, Task, TaskRow

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Entries = Callable[[M], tuple[Sequence[T], str | None]]
"""The entries of a page, and the token of the next page."""


class AsyncStream(AsyncIterator[T], Generic[T]):
    """An iterator that holds a connection until its end, `aclose`, or the end of its `async with` block."""

    def __init__(self, items: AsyncGenerator[T]) -> None:
        self._items = items

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await anext(self._items)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release the connection; nothing more comes."""
        await self._items.aclose()


class AsyncTransport:
    """One pool of connections to a server."""

    def __init__(self, server: Server, timeout_seconds: float) -> None:
        self.server = server
        self._http = httpx.AsyncClient(**settings(server.connection, timeout_seconds))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def attempts(self, limit_seconds: float | None = None) -> Attempts:
        """Attempts at a request, by default as long as the policy has it for one."""
        return Attempts(self.server, self.server.policy.request_seconds if limit_seconds is None else limit_seconds)

    async def fetch(self, model: type[M], request: HttpRequest, attempts: Attempts | None = None) -> M:
        """The answer to a request, as `model`. Raises as `send`, and `UnexpectedAnswer`."""
        return parsed(model, await self.send(request, attempts), self.server.url)

    async def send(self, request: HttpRequest, attempts: Attempts | None = None) -> httpx.Response:
        """The successful response to a request that may be repeated. Raises `ApiError`, `ConnectionFailed`."""
        attempts = attempts or self.attempts()
        while True:
            with attempts:
                await self._verify()
                return attempts.accept(await self._http.send(build(self._http, request, self.server.headers)))
            await sleep(attempts.pause_seconds())

    async def delete(self, path: str) -> None:
        """Delete a resource. When an earlier attempt was lost, a resource that is gone is no error."""
        attempts = self.attempts()
        try:
            await self.send(HttpRequest("DELETE", path), attempts)
        except NotFound:
            if not attempts.may_have_arrived:
                raise

    async def probe(self, path: str) -> httpx.Response:
        """The response to one request without a credential, whatever its status. Raises `ConnectionFailed`."""
        try:
            await self._verify()
            return await self._http.send(build(self._http, HttpRequest("GET", path, timeout_seconds=5), {}))
        except httpx.TransportError as error:
            raise self.server.failure(error) from error

    def listed(
        self,
        model: type[M],
        page_request: Callable[[int, str | None], HttpRequest],
        entries: Entries[M, T],
        *,
        limit: int | None = None,
        page_size: int,
    ) -> AsyncStream[T]:
        """The entries of all pages, `limit` at most. `page_request` takes the size and the token of a page."""
        return AsyncStream(self._listed(model, page_request, entries, limit, page_size))

    def lines(
        self, request_after: Callable[[int], HttpRequest | None], *, can_resume: bool = True
    ) -> AsyncStream[bytes]:
        """Lines of a body, each with its end.

        `request_after` makes the request for the rest after so many lines, or None when nothing is left. Without
        `can_resume`, a cut after the first line is raised as `ConnectionFailed`.
        """
        return AsyncStream(self._lines(request_after, can_resume))

    @asynccontextmanager
    async def open(
        self, request: HttpRequest, attempts: Attempts
    ) -> AsyncGenerator[tuple[httpx.Response, AsyncGenerator[bytes]]]:
        """One attempt at a request whose body is read in pieces. Raises `ApiError`, `httpx.TransportError`."""
        await self._verify()
        # Ranges count the bytes of the content itself.
        headers = self.server.headers | {"Accept-Encoding": "identity"}
        async with aclosing(await self._http.send(build(self._http, request, headers), stream=True)) as response:
            if response.is_error:
                await response.aread()
            attempts.accept(response)
            # A generator in fact, which has to be closed before its response.
            async with aclosing(cast(AsyncGenerator[bytes], response.aiter_bytes())) as pieces:
                yield response, pieces

    async def _verify(self) -> None:
        """Make sure, without a credential, that the right stack answers. Raises `ForeignServer`."""
        if self.server.must_be_verified:
            self.server.verify(await self._http.send(build(self._http, HttpRequest("GET", "/healthz"), {})))

    async def _listed(
        self,
        model: type[M],
        page_request: Callable[[int, str | None], HttpRequest],
        entries: Entries[M, T],
        limit: int | None,
        page_size: int,
    ) -> AsyncGenerator[T]:
        left, token = limit, None
        while left is None or left > 0:
            page = await self.fetch(model, page_request(min(left or page_size, page_size), token))
            found, token = entries(page)
            for entry in found[:left]:
                yield entry
            left = None if left is None else left - len(found)
            if token is None:
                return

    async def _lines(
        self, request_after: Callable[[int], HttpRequest | None], can_resume: bool
    ) -> AsyncGenerator[bytes]:
        attempts, count = self.attempts(), 0
        while (request := request_after(count)) is not None:
            with attempts:
                rest = b""
                async with self.open(request, attempts) as (_, pieces):
                    async for piece in pieces:
                        *whole, rest = (rest + piece).split(b"\n")
                        for line in whole:
                            count += 1
                            yield line + b"\n"
                if rest:
                    yield rest
                return
            if count and not can_resume and attempts.trouble is not None:
                raise attempts.trouble
            await sleep(attempts.pause_seconds())


async def follow(
    transport: AsyncTransport,
    events_path: str,
    *,
    after: str | None,
    is_last: Callable[[Event], bool] = lambda _: False,
    until_task_ends: str | None = None,
    params: Params = (),
) -> AsyncGenerator[Event]:
    """The events after the one with id `after`, each durable one once, to the last one.

    The end of a connection is not the end of the events, since a server that shuts down ends its streams too. The last
    event is the one for which `is_last` is true, or an `error` that cannot be resumed; or the server answers 204; or
    the task `until_task_ends` has ended. Raises `ConnectionFailed` or `Unavailable` when the server stays away for
    too long.
    """
    attempts = transport.attempts(transport.server.policy.wait_seconds)
    while True:
        with attempts:
            async with transport.open(stream_request(events_path, after, params), attempts) as (response, pieces):
                if response.status_code == NO_CONTENT:
                    return
                parser = SseParser()
                async for piece in pieces:
                    for raw in parser.feed(piece):
                        event = event_of(raw)
                        after = event.id or after
                        yield event
                        if is_last(event) or is_unresumable(event):
                            return
            if until_task_ends is not None:
                task = await transport.fetch(Task, HttpRequest("GET", path("tasks", until_task_ends)))
                if task.finished_at is not None:
                    return
        await sleep(attempts.pause_seconds())


async def follow_rows(
    transport: AsyncTransport, task_id: str, *, after: str | None, waits: bool
) -> AsyncGenerator[TaskRow]:
    """The rows of a task after the one with id `after`; with `waits` also those to come, to the last one.

    Raises `ApiError` for rows that cannot be read.
    """
    rows_path, params = path("tasks", task_id, "rows"), () if waits else query(follow=False)
    following = follow(transport, rows_path, after=after, is_last=lambda event: event.name == "end", params=params)
    async with aclosing(following) as events:
        async for event in events:
            if (row := row_of(event)) is not None:
                yield row


async def follow_handoffs(transport: AsyncTransport, tools: Sequence[str]) -> AsyncGenerator[HandoffEvent]:
    """Hand-offs as they open and close, without an end, and without a limit on the wait for a server."""
    attempts = Attempts(transport.server, None)
    request = stream_request(path("handoffs", "events"), None, tuple(("tool", tool) for tool in tools))
    while True:
        with attempts:
            async with transport.open(request, attempts) as (_, pieces):
                yield HandoffEvent("connected")
                parser = SseParser()
                async for piece in pieces:
                    for raw in parser.feed(piece):
                        if (event := handoff_event(raw)) is not None:
                            yield event
        await sleep(attempts.pause_seconds())
