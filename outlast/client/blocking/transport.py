# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""Requests to one server: with retries, as models, page by page, and as streams that survive cut connections.

Streams of events, rows and hand-offs continue after restarts of the server, too.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

import httpx
from pydantic import BaseModel

from outlast.client.blocking.concurrency import sleep
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


class Stream(Iterator[T], Generic[T]):
    """An iterator that holds a connection until its end, `close`, or the end of its `with` block."""

    def __init__(self, items: Generator[T]) -> None:
        self._items = items

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return next(self._items)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the connection; nothing more comes."""
        self._items.close()


class Transport:
    """One pool of connections to a server."""

    def __init__(self, server: Server, timeout_seconds: float) -> None:
        self.server = server
        self._http = httpx.Client(**settings(server.connection, timeout_seconds))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def attempts(self, limit_seconds: float | None = None) -> Attempts:
        """Attempts at a request, by default as long as the policy has it for one."""
        return Attempts(self.server, self.server.policy.request_seconds if limit_seconds is None else limit_seconds)

    def fetch(self, model: type[M], request: HttpRequest, attempts: Attempts | None = None) -> M:
        """The answer to a request, as `model`. Raises as `send`, and `UnexpectedAnswer`."""
        return parsed(model, self.send(request, attempts), self.server.url)

    def send(self, request: HttpRequest, attempts: Attempts | None = None) -> httpx.Response:
        """The successful response to a request that may be repeated. Raises `ApiError`, `ConnectionFailed`."""
        attempts = attempts or self.attempts()
        while True:
            with attempts:
                self._verify()
                return attempts.accept(self._http.send(build(self._http, request, self.server.headers)))
            sleep(attempts.pause_seconds())

    def delete(self, path: str) -> None:
        """Delete a resource. When an earlier attempt was lost, a resource that is gone is no error."""
        attempts = self.attempts()
        try:
            self.send(HttpRequest("DELETE", path), attempts)
        except NotFound:
            if not attempts.may_have_arrived:
                raise

    def probe(self, path: str) -> httpx.Response:
        """The response to one request without a credential, whatever its status. Raises `ConnectionFailed`."""
        try:
            self._verify()
            return self._http.send(build(self._http, HttpRequest("GET", path, timeout_seconds=5), {}))
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
    ) -> Stream[T]:
        """The entries of all pages, `limit` at most. `page_request` takes the size and the token of a page."""
        return Stream(self._listed(model, page_request, entries, limit, page_size))

    def lines(self, request_after: Callable[[int], HttpRequest | None], *, can_resume: bool = True) -> Stream[bytes]:
        """Lines of a body, each with its end.

        `request_after` makes the request for the rest after so many lines, or None when nothing is left. Without
        `can_resume`, a cut after the first line is raised as `ConnectionFailed`.
        """
        return Stream(self._lines(request_after, can_resume))

    @contextmanager
    def open(self, request: HttpRequest, attempts: Attempts) -> Generator[tuple[httpx.Response, Generator[bytes]]]:
        """One attempt at a request whose body is read in pieces. Raises `ApiError`, `httpx.TransportError`."""
        self._verify()
        # Ranges count the bytes of the content itself.
        headers = self.server.headers | {"Accept-Encoding": "identity"}
        with closing(self._http.send(build(self._http, request, headers), stream=True)) as response:
            if response.is_error:
                response.read()
            attempts.accept(response)
            # A generator in fact, which has to be closed before its response.
            with closing(cast(Generator[bytes], response.iter_bytes())) as pieces:
                yield response, pieces

    def _verify(self) -> None:
        """Make sure, without a credential, that the right stack answers. Raises `ForeignServer`."""
        if self.server.must_be_verified:
            self.server.verify(self._http.send(build(self._http, HttpRequest("GET", "/healthz"), {})))

    def _listed(
        self,
        model: type[M],
        page_request: Callable[[int, str | None], HttpRequest],
        entries: Entries[M, T],
        limit: int | None,
        page_size: int,
    ) -> Generator[T]:
        left, token = limit, None
        while left is None or left > 0:
            page = self.fetch(model, page_request(min(left or page_size, page_size), token))
            found, token = entries(page)
            yield from found[:left]
            left = None if left is None else left - len(found)
            if token is None:
                return

    def _lines(self, request_after: Callable[[int], HttpRequest | None], can_resume: bool) -> Generator[bytes]:
        attempts, count = self.attempts(), 0
        while (request := request_after(count)) is not None:
            with attempts:
                rest = b""
                with self.open(request, attempts) as (_, pieces):
                    for piece in pieces:
                        *whole, rest = (rest + piece).split(b"\n")
                        for line in whole:
                            count += 1
                            yield line + b"\n"
                if rest:
                    yield rest
                return
            if count and not can_resume and attempts.trouble is not None:
                raise attempts.trouble
            sleep(attempts.pause_seconds())


def follow(
    transport: Transport,
    events_path: str,
    *,
    after: str | None,
    is_last: Callable[[Event], bool] = lambda _: False,
    until_task_ends: str | None = None,
    params: Params = (),
) -> Generator[Event]:
    """The events after the one with id `after`, each durable one once, to the last one.

    The end of a connection is not the end of the events, since a server that shuts down ends its streams too. The last
    event is the one for which `is_last` is true, or an `error` that cannot be resumed; or the server answers 204; or
    the task `until_task_ends` has ended. Raises `ConnectionFailed` or `Unavailable` when the server stays away for
    too long.
    """
    attempts = transport.attempts(transport.server.policy.wait_seconds)
    while True:
        with attempts:
            with transport.open(stream_request(events_path, after, params), attempts) as (response, pieces):
                if response.status_code == NO_CONTENT:
                    return
                parser = SseParser()
                for piece in pieces:
                    for raw in parser.feed(piece):
                        event = event_of(raw)
                        after = event.id or after
                        yield event
                        if is_last(event) or is_unresumable(event):
                            return
            if until_task_ends is not None:
                task = transport.fetch(Task, HttpRequest("GET", path("tasks", until_task_ends)))
                if task.finished_at is not None:
                    return
        sleep(attempts.pause_seconds())


def follow_rows(transport: Transport, task_id: str, *, after: str | None, waits: bool) -> Generator[TaskRow]:
    """The rows of a task after the one with id `after`; with `waits` also those to come, to the last one.

    Raises `ApiError` for rows that cannot be read.
    """
    rows_path, params = path("tasks", task_id, "rows"), () if waits else query(follow=False)
    following = follow(transport, rows_path, after=after, is_last=lambda event: event.name == "end", params=params)
    with closing(following) as events:
        for event in events:
            if (row := row_of(event)) is not None:
                yield row


def follow_handoffs(transport: Transport, tools: Sequence[str]) -> Generator[HandoffEvent]:
    """Hand-offs as they open and close, without an end, and without a limit on the wait for a server."""
    attempts = Attempts(transport.server, None)
    request = stream_request(path("handoffs", "events"), None, tuple(("tool", tool) for tool in tools))
    while True:
        with attempts, transport.open(request, attempts) as (_, pieces):
            yield HandoffEvent("connected")
            parser = SseParser()
            for piece in pieces:
                for raw in parser.feed(piece):
                    if (event := handoff_event(raw)) is not None:
                        yield event
        sleep(attempts.pause_seconds())
