"""When and for how long a request is repeated, and the state of the server that decides it. Shared by both clients."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httpx

from outlast.client.connection import Connection
from outlast.client.errors import ApiError, ConnectionFailed, ForeignServer, OutlastError, RateLimited, Unavailable
from outlast.client.responses import api_error

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
INSTANCE_HEADER = "Outlast-Instance"
"""Header of every answer to `GET /healthz`: the id of the stack that the API belongs to."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """For how long requests are repeated while a server does not answer, or answers 429, 502, 503 or 504.

    Pauses grow from `first_pause_seconds` to ten seconds, and are never shorter than a `Retry-After` of the server.
    Other refusals are never repeated.
    """

    first_contact_seconds: float = 5.0
    """While nothing has ever answered at the address."""
    request_seconds: float = 60.0
    """For a single request."""
    wait_seconds: float = 300.0
    """While waiting for a task, and while following events."""
    first_pause_seconds: float = FIRST_PAUSE_SECONDS


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait for the server: its reason, and for how many more seconds the client will try; None without a limit."""

    reason: str
    seconds_left: float | None


OnWaiting = Callable[[Waiting | None], None]
"""Called when a request is about to be repeated, and with None when the server answers again."""


def ignore_waiting(waiting: Waiting | None) -> None:
    """Do nothing."""
    del waiting


@dataclass
class Server:
    """The server of one client, and what is known about it."""

    connection: Connection
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    on_waiting: OnWaiting = ignore_waiting
    was_reached: bool = False
    is_verified: bool = False

    @property
    def url(self) -> str:
        """The address, without a slash at the end."""
        return self.connection.url

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        token = self.connection.token
        return {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token is not None else {})

    @property
    def must_be_verified(self) -> bool:
        """True if the server must first prove that it is the stack of the data directory."""
        return self.connection.instance_id is not None and not self.is_verified

    def verify(self, health: httpx.Response) -> None:
        """Compare the answer to `GET /healthz` with the stack that is meant. Raises `ForeignServer`."""
        if health.headers.get(INSTANCE_HEADER) != self.connection.instance_id:
            raise ForeignServer(
                f"What answers at {self.url} is not the stack that runs on the data directory.",
                url=self.url,
                hint=f"Its API may still be starting: `outlast doctor` says more. To use this server all the same, "
                f"name it: --url {self.url}, or OUTLAST_URL.",
            )
        self.is_verified = True

    def failure(self, error: httpx.TransportError) -> ConnectionFailed:
        """The failure as the client's error. A server that broke the connection off has been reached."""
        is_refused = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        self.was_reached = self.was_reached or not is_refused
        if not self.was_reached:
            message = f"Nothing answers at {self.url}."
        elif isinstance(error, httpx.TimeoutException) and not is_refused:
            message = f"{self.url} does not answer."
        else:
            message = f"The connection to {self.url} was lost."
        failure = ConnectionFailed(message, url=self.url, hint=self.connection.hint)
        failure.__cause__ = error
        return failure

    def closed_early(self) -> ConnectionFailed:
        """The error for an event stream that ended before its last event."""
        return ConnectionFailed(f"{self.url} closed the event stream.", url=self.url, hint=self.connection.hint)


class Attempts:
    """The attempts at one request, until `limit_seconds` of failures have passed; None is without a limit.

        with attempts:
            return await send(request)
        await sleep(attempts.pause_seconds())

    The block swallows errors after which the request may be repeated; `pause_seconds` raises them again when the time
    is over. `may_have_arrived` tells whether an earlier attempt may have had its effect although no answer came.
    """

    def __init__(self, server: Server, limit_seconds: float | None) -> None:
        self._server = server
        self._limit_seconds = limit_seconds
        self._began: float | None = None
        self._pause_seconds = server.policy.first_pause_seconds
        self.may_have_arrived = False
        self.trouble: OutlastError | None = None
        """The error of the latest attempt."""

    def __enter__(self) -> Self:
        self.trouble = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if isinstance(error, httpx.TransportError):
            self.trouble = self._server.failure(error)
        elif isinstance(error, RateLimited | Unavailable):
            self._server.was_reached = True
            self.trouble = error
        return self.trouble is not None

    def accept(self, response: httpx.Response) -> httpx.Response:
        """The response, unless it is a refusal. Raises `ApiError`."""
        self._server.was_reached = True
        if response.is_error:
            raise api_error(response)
        if self._began is not None:
            self._server.on_waiting(None)
        self._began = None
        self._pause_seconds = self._server.policy.first_pause_seconds
        return response

    def pause_seconds(self) -> float:
        """The pause before the next attempt. Raises the latest error when failures have lasted too long."""
        error = self.trouble or self._server.closed_early()
        self.may_have_arrived = True
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        asked = error.retry_after_seconds if isinstance(error, ApiError) else None
        pause = max(self._pause_seconds, asked or 0.0)
        limit = self._limit_seconds if self._server.was_reached else self._server.policy.first_contact_seconds
        left = None if limit is None else limit - (now - self._began)
        if left is not None and pause > left:
            raise error
        self._server.on_waiting(Waiting(error.message, left))
        self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        return pause
