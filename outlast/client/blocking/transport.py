"""Carries out flows with blocking I/O."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

import httpx

from outlast.client.connection import Connection
from outlast.client.flows.commands import (
    CloseStream,
    Command,
    Emitting,
    Flow,
    Item,
    OpenStream,
    Pause,
    ReadStream,
    Reply,
    Send,
)
from outlast.client.http import HEADERS, built, failure_of, response_of, timeout_of, trusted_by, trusts_environment

T = TypeVar("T")


class Transport:
    """One pool of connections to a server."""

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        self.http = httpx.Client(
            base_url=connection.url,
            headers=HEADERS,
            timeout=timeout_of(timeout_seconds),
            trust_env=trusts_environment(connection),
            verify=trusted_by(connection),
        )

    def run(self, flow: Flow[T]) -> T:
        """The flow's result."""
        commands = _Commands(self.http)
        try:
            command = next(flow)
            while True:
                try:
                    reply = commands.execute(command)
                except httpx.TransportError as error:
                    command = flow.throw(failure_of(error))
                else:
                    command = flow.send(reply)
        except StopIteration as end:
            return end.value
        finally:
            commands.close()

    def stream(self, flow: Emitting[T]) -> "Stream[T]":
        """The values that the flow yields."""
        return Stream(flow, _Commands(self.http))

    def close(self) -> None:
        """Close the connections."""
        self.http.close()


class Stream(Iterator[T], Generic[T]):
    """An iterator that holds a connection until its end, `close`, or the end of its `with` block."""

    def __init__(self, flow: Emitting[T], commands: "_Commands") -> None:
        self._flow = flow
        self._commands = commands

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            command = self._flow.send(None)
            while not isinstance(command, Item):
                try:
                    reply = self._commands.execute(command)
                except httpx.TransportError as error:
                    command = self._flow.throw(failure_of(error))
                else:
                    command = self._flow.send(reply)
        except BaseException:
            self._commands.close()
            raise
        return command.value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; nothing more comes."""
        self._flow.close()
        self._commands.close()


class _Commands:
    """Executes the commands of one flow, which has one open stream at most."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._opened: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def execute(self, command: Command) -> Reply:
        match command:
            case Send(request):
                response = self._http.send(built(self._http, request))
                return response_of(response, response.content)
            case OpenStream(request):
                self.close()
                self._opened = response = self._http.send(built(self._http, request, streams=True), stream=True)
                if response.is_error:
                    return response_of(response, response.read())
                self._pieces = response.iter_bytes()
                return response_of(response)
            case ReadStream():
                return next(self._pieces, None)
            case CloseStream():
                return self.close()
            case Pause(seconds):
                return time.sleep(seconds)

    def close(self) -> None:
        opened, self._opened, self._pieces = self._opened, None, iter(())
        if opened is not None:
            opened.close()
