"""MCP over HTTP as bytes on the wire, for what no client library shows: headers, revisions side by side, streams."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import httpx

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
TASKS = "io.modelcontextprotocol/tasks"
KNOWS_TASKS = {"extensions": {TASKS: {}}}
_META = "io.modelcontextprotocol"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ids = itertools.count(1)


class WireError(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]
        self.data = error.get("data")


class Wire:
    """One client: `revision` is a protocol version."""

    def __init__(self, http: httpx.AsyncClient, revision: str, query: str = "", *, path: str = "/mcp") -> None:
        self.revision = revision
        self._http = http
        self._path = f"{path}{query}"
        self.session: str | None = None

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        capabilities: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """The result. Raises `WireError`."""
        async with aclosing(self.messages(method, params, capabilities=capabilities, headers=headers)) as messages:
            async for message in messages:
                if "error" in message:
                    raise WireError(message["error"])
                if "result" in message:
                    return message["result"]
        raise AssertionError(f"{method} was not answered")

    async def messages(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        capabilities: dict[str, Any] | None = None,
        request_id: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:
        """Everything that comes on the response's stream."""
        body = self._body(method, params or {}, capabilities or {}, request_id or next(_ids))
        sent = {**self._headers(method, body), **(headers or {})}
        async with self._http.stream("POST", self._path, json=body, headers=sent) as response:
            self.session = response.headers.get("mcp-session-id", self.session)
            async with aclosing(_parsed(response)) as messages:
                async for message in messages:
                    yield message

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        await self._http.post(self._path, json=body, headers=self._headers(method, body))

    async def reply(self, request: dict[str, Any], result: dict[str, Any]) -> None:
        """Answer what the server asks (the older revision)."""
        body = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        await self._http.post(self._path, json=body, headers=self._headers("", body))

    async def reply_with_error(self, request: dict[str, Any], code: int, message: str) -> None:
        """Answer what the server asks with a JSON-RPC error (the older revision)."""
        body = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}
        await self._http.post(self._path, json=body, headers=self._headers("", body))

    async def initialize(self, capabilities: dict[str, Any] | None = None, *, name: str = "wire") -> dict[str, Any]:
        """The older revision's handshake, of a client of this name; its result."""
        client = {"name": name, "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": capabilities or {}, "clientInfo": client}
        result = await self.request("initialize", params)
        await self.notify("notifications/initialized", {})
        return result

    @asynccontextmanager
    async def notifications(self) -> AsyncGenerator["asyncio.Queue[dict[str, Any]]"]:
        """What the server says on the older revision's own stream (GET), while the block runs."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        opened = asyncio.Event()

        async def read() -> None:
            async with self._http.stream("GET", self._path, headers=self._headers("", {})) as response:
                opened.set()
                async with aclosing(_parsed(response)) as messages:
                    async for message in messages:
                        queue.put_nowait(message)

        reading = asyncio.create_task(read())
        await opened.wait()
        try:
            yield queue
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _body(
        self, method: str, params: dict[str, Any], capabilities: dict[str, Any], request_id: int
    ) -> dict[str, Any]:
        if self.revision == MODERN:
            own = {f"{_META}/protocolVersion": MODERN, f"{_META}/clientCapabilities": capabilities}
            params = {**params, "_meta": {**own, **params.get("_meta", {})}}
        return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}

    def _headers(self, method: str, body: dict[str, Any]) -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": self.revision}
        if method == "initialize":
            del headers["MCP-Protocol-Version"]
        if self.session is not None:
            headers["Mcp-Session-Id"] = self.session
        if self.revision != MODERN:
            return headers
        params = body.get("params", {})
        name = params.get(_NAMED[method]) if method in _NAMED else params.get("taskId")
        return {**headers, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}


async def _lines(response: httpx.Response) -> AsyncGenerator[str]:
    """The lines of a stream of events; `aiter_lines` also ends lines where JSON has a separator of paragraphs."""
    rest = ""
    async for text in response.aiter_text():
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            yield line.removesuffix("\r")


async def _parsed(response: httpx.Response) -> AsyncGenerator[dict[str, Any]]:
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        lines = _lines(response)
        try:
            async for line in lines:
                if line.startswith("data:") and line[5:].strip():
                    yield json.loads(line[5:])
        finally:
            # The client's generators are nested. Reading on after the end of the connection ends them from inside out;
            # otherwise the garbage collector closes them, perhaps in another test.
            await response.aclose()
            with suppress(httpx.HTTPError, httpx.StreamError, RuntimeError):
                async for _ in lines:
                    pass
        return
    await response.aread()
    if response.content:
        yield response.json()


def text_of(result: dict[str, Any]) -> str:
    """What a model reads of a `CallToolResult`."""
    return "\n".join(block.get("text", "") for block in result["content"])
