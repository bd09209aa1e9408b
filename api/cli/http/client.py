"""The REST API as the commands use it. Requests that may be repeated are, while the server is away for a moment."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from outlast.api.cli.errors import CliError, ExitCode, Unreachable
from outlast.api.cli.http.models import StoredOutput, Task, TaskAnswer, TaskPage, Tool, ToolList
from outlast.api.cli.http.patience import Notice, Patience, ignore_notice
from outlast.api.cli.http.problems import error_from_response
from outlast.api.cli.http.server import Server
from outlast.api.cli.http.sse import ServerSentEvent, SseParser

PATIENCE_SECONDS = 60.0
FOLLOW_PATIENCE_SECONDS = 300.0
_SILENCE_SECONDS = 45.0
"""The API sends a comment every 15 seconds on an event stream; after this long without one the connection is dead."""
_LONGEST_WAIT_SECONDS = 60.0

Model = TypeVar("Model", bound=BaseModel)


class ApiClient:
    """Talks to one server.

    Every method raises `CliError` for what the server refuses, and `Unreachable` when it is away.
    """

    def __init__(self, server: Server, notice: Notice = ignore_notice) -> None:
        """`notice` is told when the server is being waited for."""
        self.server = server
        self._notice = notice
        self._was_reached = False
        headers = {"Accept": "application/json", "User-Agent": "outlast-cli"}
        if server.token is not None:
            headers["Authorization"] = f"Bearer {server.token.get_secret_value()}"
        # A proxy meant for the outside world must not stand before loopback.
        timeout = httpx.Timeout(30, connect=10)
        self._http = httpx.AsyncClient(
            base_url=server.url, headers=headers, timeout=timeout, trust_env=not server.is_loopback
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    def notify(self, notice: Notice) -> None:
        """From now on, tell `notice` what is being waited for."""
        self._notice = notice

    async def start(self, body: Mapping[str, Any], *, idempotency_key: str) -> Task:
        """Start a task. The key makes it safe to send the request again when its answer was lost."""
        headers = {"Idempotency-Key": idempotency_key}
        return _parsed(Task, await self._request("POST", "/v1/tasks", json_body=dict(body), headers=headers))

    async def get(self, task_id: str) -> Task:
        """A task as it is now."""
        return _parsed(Task, await self._request("GET", f"/v1/tasks/{_segment(task_id)}"))

    async def list(self, **filters: str | int | None) -> TaskPage:
        """One page of tasks: open ones first, then those that ended last."""
        params = {name: value for name, value in filters.items() if value is not None}
        return _parsed(TaskPage, await self._request("GET", "/v1/tasks", params=params))

    async def result(self, task_id: str, *, wait_seconds: float = 0) -> TaskAnswer:
        """What a task has come to, waiting for it as long as one request may, at most `wait_seconds`."""
        wait = min(wait_seconds, _LONGEST_WAIT_SECONDS)
        path = f"/v1/tasks/{_segment(task_id)}/result"
        params = {"wait": f"{wait:g}"} if wait > 0 else None
        return _parsed(TaskAnswer, await self._request("GET", path, params=params, extra_seconds=wait))

    async def cancel(self, task_id: str) -> Task:
        """Ask for a task to be cancelled."""
        return _parsed(Task, await self._request("POST", f"/v1/tasks/{_segment(task_id)}/cancel"))

    async def answer(self, task_id: str, answers: Mapping[str, Any]) -> Task:
        """Answer a task's questions."""
        path = f"/v1/tasks/{_segment(task_id)}/input"
        return _parsed(Task, await self._request("POST", path, json_body={"answers": dict(answers)}))

    async def tools(self, *, mode: str | None = None) -> ToolList:
        """The tools that can be called."""
        params = {"mode": mode} if mode else None
        return _parsed(ToolList, await self._request("GET", "/v1/tools", params=params))

    async def tool(self, name: str, *, mode: str | None = None) -> Tool:
        """One tool."""
        params = {"mode": mode} if mode else None
        return _parsed(Tool, await self._request("GET", f"/v1/tools/{_segment(name)}", params=params))

    async def output_info(self, locator: str) -> StoredOutput:
        """What is known of a stored output."""
        return _parsed(StoredOutput, await self._request("GET", f"/v1/outputs/{_segment(locator)}/info"))

    async def delete_output(self, locator: str) -> None:
        """Remove a stored output."""
        await self._request("DELETE", f"/v1/outputs/{_segment(locator)}")

    @asynccontextmanager
    async def content(
        self, locator: str, *, params: Mapping[str, str | int], headers: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """One connection that brings a stored output. Raises `Unreachable` when it cannot be had or breaks."""
        try:
            path = f"/v1/outputs/{_segment(locator)}"
            async with self._http.stream("GET", path, params=params, headers=headers, timeout=60) as response:
                if response.is_error:
                    await response.aread()
                    raise _refusal(response)
                self._was_reached = True
                yield response.aiter_bytes()
        except httpx.TransportError as error:
            raise self._away(error) from error

    async def probe(self, path: str) -> httpx.Response:
        """Ask once, whatever the answer's status. Raises `Unreachable`."""
        try:
            return await self._http.get(path, timeout=5)
        except httpx.TransportError as error:
            raise self._away(error) from error

    def patience(self, seconds: float | None = None) -> Patience:
        """A wait for this server."""
        return Patience(PATIENCE_SECONDS if seconds is None else seconds, self._tell)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request that may be repeated without harm."""
        return (await self._request("POST", path, json_body=dict(body))).json()

    def stream(self, path: str, *, after: str | None) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        """One connection to a stream of events. Raises `Unreachable` when it cannot be had or breaks."""
        return self._event_stream(path, headers={"Last-Event-ID": after} if after else {})

    def events(self, task_id: str, *, after: str | None) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        """One connection to a task's event stream. Raises `Unreachable` when it cannot be had or breaks."""
        return self.stream(f"/v1/tasks/{_segment(task_id)}/events", after=after)

    def handoffs(self, tools: Sequence[str]) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        """One connection to the caller's open hand-offs of these tools. Raises `Unreachable` as `events` does."""
        return self._event_stream("/v1/handoffs/events", params={"tool": list(tools)})

    @asynccontextmanager
    async def _event_stream(
        self, path: str, *, headers: Mapping[str, str] | None = None, params: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[AsyncIterator[ServerSentEvent]]:
        headers = {"Accept": "text/event-stream", **(headers or {})}
        timeout = httpx.Timeout(_SILENCE_SECONDS, connect=10)
        try:
            async with self._http.stream("GET", path, params=params, headers=headers, timeout=timeout) as response:
                if response.is_error:
                    await response.aread()
                    raise _refusal(response)
                self._was_reached = True
                yield _events_of(response)
        except httpx.TransportError as error:
            raise self._away(error) from error

    async def _request(
        self,
        method: str,
        path: str,
        *,
        json_body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        extra_seconds: float = 0,
    ) -> httpx.Response:
        """The successful response. All requests of this client may be repeated without harm."""
        patience = self.patience()
        while True:
            try:
                response = await self._http.request(
                    method, path, json=json_body, params=params, headers=headers, timeout=30 + extra_seconds
                )
                if response.is_error:
                    raise _refusal(response)
            except httpx.ConnectError as error:
                if not self._was_reached:
                    raise self._away(error) from error
                await patience.wait(self._away(error))
            except httpx.TransportError as error:
                await patience.wait(self._away(error))
            except Unreachable as busy:
                self._was_reached = True
                await patience.wait(busy, at_least_seconds=retry_after(busy))
            else:
                self._was_reached = True
                patience.over()
                return response

    def _tell(self, text: str | None) -> None:
        self._notice(text)

    def _away(self, error: httpx.TransportError) -> Unreachable:
        if not self._was_reached and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return Unreachable(f"Nothing answers at {self.server.url}.", hint=self.server.hint)
        if isinstance(error, httpx.TimeoutException):
            return Unreachable(f"{self.server.url} does not answer.", hint=self.server.hint)
        return Unreachable(f"The connection to {self.server.url} was lost.", hint=self.server.hint)


def retry_after(error: CliError) -> float | None:
    """The seconds that the server asked to wait, if it did."""
    seconds = (error.problem or {}).get("retry_after")
    return float(seconds) if isinstance(seconds, int | float) else None


async def _events_of(response: httpx.Response) -> AsyncIterator[ServerSentEvent]:
    parser = SseParser()
    async for chunk in response.aiter_bytes():
        for event in parser.feed(chunk):
            yield event


def _refusal(response: httpx.Response) -> CliError:
    error = error_from_response(response.status_code, response.content)
    if error.exit_code is not ExitCode.UNREACHABLE:
        return error
    seconds = response.headers.get("Retry-After", "")
    wait = {"retry_after": int(seconds)} if seconds.isdecimal() else {}
    return Unreachable(error.message, hint=error.hint, problem={**(error.problem or {}), **wait})


def _parsed(model: type[Model], response: httpx.Response) -> Model:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        raise CliError(
            f"{response.request.url} did not answer as an Outlast server does.",
            exit_code=ExitCode.SERVER_ERROR,
            hint="Check the address (--url or OUTLAST_URL), and that this `outlast` is as new as the server.",
        ) from error


def _segment(value: str) -> str:
    return quote(value, safe="")
