"""Carries out flows with asyncio."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

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


class AsyncTransport:
    """One pool of connections to a server."""

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        self.http = httpx.AsyncClient(
            base_url=connection.url,
            headers=HEADERS,
            timeout=timeout_of(timeout_seconds),
            trust_env=trusts_environment(connection),
            verify=trusted_by(connection),
        )

    async def run(self, flow: Flow[T]) -> T:
        """The flow's result."""
        commands = _Commands(self.http)
        try:
            command = next(flow)
            while True:
                try:
                    reply = await commands.execute(command)
                except httpx.TransportError as error:
                    command = flow.throw(failure_of(error))
                else:
                    command = flow.send(reply)
        except StopIteration as end:
            return end.value
        finally:
            await commands.close()

    def stream(self, flow: Emitting[T]) -> "AsyncStream[T]":
        """The values that the flow yields."""
        return AsyncStream(flow, _Commands(self.http))

    async def close(self) -> None:
        """Close the connections."""
        await self.http.aclose()


class AsyncStream(AsyncIterator[T], Generic[T]):
    """An iterator that holds a connection until its end, `aclose`, or the end of its `async with` block."""

    def __init__(self, flow: Emitting[T], commands: "_Commands") -> None:
        self._flow = flow
        self._commands = commands

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            command = self._flow.send(None)
            while not isinstance(command, Item):
                try:
                    reply = await self._commands.execute(command)
                except httpx.TransportError as error:
                    command = self._flow.throw(failure_of(error))
                else:
                    command = self._flow.send(reply)
        except StopIteration:
            await self._commands.close()
            raise StopAsyncIteration from None
        except BaseException:
            await self.aclose()
            raise
        return command.value

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the connection; nothing more comes."""
        self._flow.close()
        await self._commands.close()


class _Commands:
    """Executes the commands of one flow, which has one open stream at most."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._opened: httpx.Response | None = None
        self._pieces: AsyncGenerator[bytes] | None = None

    async def execute(self, command: Command) -> Reply:
        match command:
            case Send(request):
                response = await self._http.send(built(self._http, request))
                return response_of(response, response.content)
            case OpenStream(request):
                return await self._open(built(self._http, request, streams=True))
            case ReadStream():
                return await anext(self._pieces, None) if self._pieces is not None else None
            case CloseStream():
                return await self.close()
            case Pause(seconds):
                return await asyncio.sleep(seconds)

    async def _open(self, request: httpx.Request) -> Reply:
        await self.close()
        self._opened = response = await self._http.send(request, stream=True)
        if response.is_error:
            return response_of(response, await response.aread())
        # An asynchronous generator in fact, which has to be closed before its response.
        self._pieces = cast("AsyncGenerator[bytes]", response.aiter_bytes())
        return response_of(response)

    async def close(self) -> None:
        opened, pieces = self._opened, self._pieces
        self._opened = self._pieces = None
        if pieces is not None:
            await pieces.aclose()
        if opened is not None:
            await opened.aclose()
