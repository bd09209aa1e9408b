"""`outlast.AsyncClient`. `outlast.Client` is generated from this package by `make client`."""

import json
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from pydantic import JsonValue

from outlast.activities.outputs.contracts import StoredOutput
from outlast.client.asynchronous.concurrency import sleep, write_file
from outlast.client.asynchronous.schedules import AsyncSavedCalls, AsyncSchedules
from outlast.client.asynchronous.sessions import AsyncSessions
from outlast.client.asynchronous.tasks import AsyncBatches, AsyncTasks
from outlast.client.asynchronous.transport import AsyncStream, AsyncTransport
from outlast.client.asynchronous.webhooks import AsyncWebhooks
from outlast.client.http import Connection, HttpRequest, find_connection, path, query
from outlast.client.requests import START_SECONDS, output_lines, output_range, tool_name, usage_params
from outlast.client.retries import OnWaiting, RetryPolicy, Server, api_error, ignore_waiting, parsed
from outlast.contracts.operations import (
    CallerHoldings,
    HealthReport,
    Me,
    Operations,
    PolicyExplanation,
    Readiness,
    UsageReport,
)
from outlast.contracts.options import UsageOptions
from outlast.contracts.outputs import RowSelection
from outlast.contracts.servers import McpServerDetails, McpServerList, McpServerPin
from outlast.contracts.sessions import Provider, ProviderList
from outlast.contracts.tasks import Tool, ToolList


class AsyncOutputs:
    """Stored outputs, by their locators."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def info(self, locator: str) -> StoredOutput:
        """Return the description of an output: kind, sizes, count, digest, expiry."""
        return await self._transport.fetch(StoredOutput, HttpRequest("GET", path("outputs", locator, "info")))

    async def read(self, locator: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes from `start` up to and without `end`; the whole output without them."""
        content = bytearray()
        async with self.stream(locator, start, end) as pieces:
            async for piece in pieces:
                content += piece
        return bytes(content)

    def stream(self, locator: str, start: int = 0, end: int | None = None) -> AsyncStream[bytes]:
        """Iterate over the bytes in pieces. Continues where it stopped after a cut connection."""
        return AsyncStream(self._stream(locator, start, end))

    async def save(self, locator: str, path: Path | str) -> int:
        """Write an output to a file and return its size in bytes. The file appears when it is complete."""
        async with self.stream(locator) as pieces:
            return await write_file(Path(path), pieces)

    def rows(
        self,
        locator: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        fields: Sequence[str] = (),
        where: str | None = None,
        query: str | None = None,
    ) -> AsyncStream[JsonValue]:
        """Iterate over rows: `limit` from `offset` on, of each only `fields` (dot paths), only those for which `where`
        (JMESPath) is true, or what `query` (JMESPath) makes of each.
        """
        return AsyncStream(self._rows(locator, RowSelection(offset, limit, tuple(fields), where, query)))

    def lines(self, locator: str, wanted: RowSelection) -> AsyncStream[bytes]:
        """Iterate over rows as lines of JSON, each with its line end.

        Continues after a cut connection, except when an expression selects rows and some came already: the position
        of the server is unknown then, and it raises `ConnectionFailed`.
        """
        return self._transport.lines(output_lines(locator, wanted), can_resume=not wanted.evaluates)

    async def delete(self, locator: str) -> None:
        """Remove an output before its expiry."""
        await self._transport.send(HttpRequest("DELETE", path("outputs", locator)))

    async def _rows(self, locator: str, wanted: RowSelection) -> AsyncGenerator[JsonValue]:
        async with self.lines(locator, wanted) as lines:
            async for line in lines:
                yield json.loads(line)

    async def _stream(self, locator: str, start: int, end: int | None) -> AsyncGenerator[bytes]:
        attempts = self._transport.attempts()
        while end is None or start < end:
            with attempts:
                async with self._transport.open(output_range(locator, start, end), attempts) as (_, pieces):
                    async for piece in pieces:
                        start += len(piece)
                        yield piece
                return
            await sleep(attempts.pause_seconds())


class AsyncClient(AsyncTasks):
    """A client of one Outlast server.

        async with AsyncClient() as client:
            answer = await client.call("outlast--sleeper", {"seconds": 1})
            print(answer.text)

    Every method raises `ApiError` for what the server refuses, `ConnectionFailed` when it does not answer after the
    retries of `RetryPolicy`, and `TypeError` for an unknown option. One client serves any number of concurrent calls.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data_dir: Path | str | None = None,
        connection: Connection | None = None,
        timeout_seconds: float = 30.0,
        retries: RetryPolicy | None = None,
        on_waiting: OnWaiting = ignore_waiting,
    ) -> None:
        """Connect to `url`, or to OUTLAST_URL, or to the stack that runs on the data directory, with `token` or
        OUTLAST_TOKEN.

        `timeout_seconds` is the longest silence of the server within one request; waiting for results has its own
        limits. Raises `BadSettings` and `NoServer`.
        """
        self.connection = connection or find_connection(url, token, data_dir)
        self._server = Server(self.connection, retries or RetryPolicy(), on_waiting)
        super().__init__(AsyncTransport(self._server, timeout_seconds))

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

    @cached_property
    def batches(self) -> AsyncBatches:
        """One tool for many inputs."""
        return AsyncBatches(self._transport)

    @cached_property
    def outputs(self) -> AsyncOutputs:
        """Stored outputs, by their locators."""
        return AsyncOutputs(self._transport)

    @cached_property
    def saved_calls(self) -> AsyncSavedCalls:
        """A tool and its input under a name."""
        return AsyncSavedCalls(self._transport)

    @cached_property
    def schedules(self) -> AsyncSchedules:
        """Calls and batches that are started when they are due."""
        return AsyncSchedules(self._transport)

    @cached_property
    def sessions(self) -> AsyncSessions:
        """Conversations with a model that works with Outlast's tools."""
        return AsyncSessions(self._transport)

    @cached_property
    def webhooks(self) -> AsyncWebhooks:
        """Addresses that receive events of your tasks and batches."""
        return AsyncWebhooks(self._transport)

    async def tools(self, *, mode: str | None = None) -> tuple[Tool, ...]:
        """Return the tools that can be called."""
        return (
            await self._transport.fetch(ToolList, HttpRequest("GET", path("tools"), query(mode=mode or None)))
        ).tools

    async def tool(self, name: str, *, mode: str | None = None) -> Tool:
        """Return one tool, by its name or as the Actor `user/name`."""
        wanted = HttpRequest("GET", path("tools", tool_name(name)), query(mode=mode or None))
        return await self._transport.fetch(Tool, wanted)

    async def providers(self) -> tuple[Provider, ...]:
        """Return the providers of models: whether a worker has their keys, their controls, their known models."""
        return (await self._transport.fetch(ProviderList, HttpRequest("GET", path("providers")))).providers

    async def usage(self, **options: Unpack[UsageOptions]) -> UsageReport:
        """Return what you have spent on runs and models: by default by day, in this month."""
        return await self._transport.fetch(UsageReport, HttpRequest("GET", path("usage"), usage_params(options)))

    async def usage_csv(self, *, csv_safe: bool = True, **options: Unpack[UsageOptions]) -> str:
        """Return the rows of `usage` as CSV, with a header line.

        With `csv_safe`, an apostrophe precedes text that a spreadsheet would compute.
        """
        params = (*usage_params(options), *query(format="csv", csv_safe=None if csv_safe else False))
        return (await self._transport.send(HttpRequest("GET", path("usage"), params))).content.decode()

    async def me(self) -> Me:
        """Return who you are to the server: your caller id, scopes, roles and limits."""
        return await self._transport.fetch(Me, HttpRequest("GET", path("me")))

    async def health(self) -> HealthReport:
        """Return the checks of `outlast doctor` that the server can make. Needs the scope `admin`."""
        return await self._transport.fetch(HealthReport, HttpRequest("GET", path("health")))

    async def explain_policy(self, caller: str, tool: str, *, actor: str | None = None) -> PolicyExplanation:
        """Return what the policy decides about a call, and the rule behind it. Needs the scope `admin`."""
        wanted = HttpRequest("GET", path("policy", "explain"), query(caller=caller, tool=tool, actor=actor))
        return await self._transport.fetch(PolicyExplanation, wanted)

    async def operations(self) -> Operations:
        """Return how the server is doing: your open tasks; with the scope `admin` all tasks, queues and workers."""
        return await self._transport.fetch(Operations, HttpRequest("GET", path("operations")))

    async def holdings(self, caller: str | None = None) -> CallerHoldings:
        """Return what stays when a caller's keys are revoked: yours, or with the scope `admin` that of `caller`."""
        wanted = HttpRequest("GET", path("operations", "holdings"), query(caller=caller))
        return await self._transport.fetch(CallerHoldings, wanted)

    async def servers(self) -> McpServerList:
        """Return the MCP servers in the operator's file with their states. Needs the scope `admin`."""
        return await self._transport.fetch(McpServerList, HttpRequest("GET", path("servers")))

    async def server(self, name: str, *, max_age_seconds: float | None = None) -> McpServerDetails:
        """Return one MCP server with its tools, which are listed again if the last list is older; 0: in any case."""
        params = query(max_age_seconds=max_age_seconds)
        wanted = HttpRequest("GET", path("servers", name), params, timeout_seconds=START_SECONDS)
        return await self._transport.fetch(McpServerDetails, wanted)

    async def server_pin(self, name: str, *, max_age_seconds: float | None = None) -> McpServerPin:
        """Return the record of an MCP server for the lock file, and how it differs from the one in force."""
        params = query(max_age_seconds=max_age_seconds)
        wanted = HttpRequest("GET", path("servers", name, "pin"), params, timeout_seconds=START_SECONDS)
        return await self._transport.fetch(McpServerPin, wanted)

    async def metrics(self) -> str:
        """Return the metrics of the process that answers, in the text format of Prometheus. Asks once, without a
        token.
        """
        response = await self._transport.probe("/metrics")
        if response.is_error:
            raise api_error(response)
        return response.content.decode(errors="replace")

    async def server_time(self) -> datetime | None:
        """Return the time of the server's clock, in whole seconds; None if the answer has none. Asks once, without a
        token.
        """
        response = await self._transport.probe("/healthz")
        try:
            return parsedate_to_datetime(response.headers["date"])
        except (KeyError, ValueError):
            return None

    async def readiness(self) -> Readiness:
        """Return whether the server can take tasks. Asks once, without a token."""
        return parsed(Readiness, await self._transport.probe("/readyz"), self._server.url)
