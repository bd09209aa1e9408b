"""The server as the flows know it: its requests, its retries, and whether it is the one that is meant."""

import time
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from outlast.client.connection import Connection
from outlast.client.errors import ApiError, ConnectionFailed, ForeignServer, OutlastError, RateLimited, Unavailable
from outlast.client.flows.commands import Flow, HttpRequest, HttpResponse, Pause, TransportFailure, open_stream, send
from outlast.client.problems import api_error
from outlast.client.retries import LONGEST_PAUSE_SECONDS, OnWaiting, RetryPolicy, Waiting, ignore_waiting

INSTANCE_HEADER = "Outlast-Instance"
"""Header of every answer to `GET /healthz`: the id of the stack that the API belongs to."""


@dataclass
class Server:
    """One server, shared by all flows of a client."""

    connection: Connection
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    on_waiting: OnWaiting = ignore_waiting
    was_reached: bool = False
    is_verified: bool = False

    @property
    def url(self) -> str:
        """The address, without a slash at the end."""
        return self.connection.url

    def prepared(self, request: HttpRequest) -> HttpRequest:
        """`request` with the headers that every request has."""
        headers = {"Accept": "application/json", **request.headers}
        if self.connection.token is not None:
            headers["Authorization"] = f"Bearer {self.connection.token}"
        return replace(request, headers=headers)

    def failure(self, error: TransportFailure) -> ConnectionFailed:
        """The transport's failure as the client's error. A server that breaks a connection off was there."""
        self.was_reached = self.was_reached or error.kind != "refused"
        if error.kind == "refused" and not self.was_reached:
            message = f"Nothing answers at {self.url}."
        elif error.kind == "silent":
            message = f"{self.url} does not answer."
        else:
            message = f"The connection to {self.url} was lost."
        return ConnectionFailed(message, url=self.url, hint=self.connection.hint)

    def verify(self) -> Flow[None]:
        """Make sure, without a credential, that the stack that is meant answers. Raises `ForeignServer`."""
        if self.connection.instance_id is None or self.is_verified:
            return
        response = yield from send(HttpRequest("GET", "/healthz"))
        if response.headers.get(INSTANCE_HEADER.lower()) != self.connection.instance_id:
            raise ForeignServer(
                f"What answers at {self.url} is not the stack that runs on the data directory.",
                url=self.url,
                hint=f"Its API may still be starting: `outlast doctor` says more. To use this server all the same, "
                f"name it: --url {self.url}, or OUTLAST_URL.",
            )
        self.is_verified = True


class Attempts:
    """The attempts at one thing, until `limit_seconds` of trouble are over; None is without end.

    `may_have_arrived` says whether an earlier attempt may have been carried out although no answer came.
    """

    def __init__(self, server: Server, limit_seconds: float | None) -> None:
        self._server = server
        self._limit_seconds = limit_seconds
        self._began: float | None = None
        self._pause_seconds = server.policy.first_pause_seconds
        self.may_have_arrived = False

    def succeeded(self) -> None:
        """The server has answered: the next trouble is a new one."""
        if self._began is not None:
            self._server.on_waiting(None)
        self._server.was_reached = True
        self._began = None
        self._pause_seconds = self._server.policy.first_pause_seconds

    def pause(self, error: OutlastError) -> Flow[None]:
        """Wait before the next attempt. Raises `error` when the trouble has lasted too long."""
        self.may_have_arrived = True
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        asked = error.retry_after_seconds if isinstance(error, ApiError) else None
        pause = max(self._pause_seconds, asked or 0.0)
        limit = self._limit()
        left = None if limit is None else limit - (now - self._began)
        if left is not None and pause > left:
            raise error
        self._server.on_waiting(Waiting(error.message, left))
        self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        yield Pause(pause)

    def _limit(self) -> float | None:
        return self._limit_seconds if self._server.was_reached else self._server.policy.first_contact_seconds


def request(server: Server, wanted: HttpRequest, attempts: Attempts | None = None) -> Flow[HttpResponse]:
    """The successful response to a request that may be repeated. Raises `ApiError`, `ConnectionFailed`."""
    attempts = attempts or Attempts(server, server.policy.request_seconds)
    prepared = server.prepared(wanted)
    while True:
        try:
            yield from server.verify()
            response = yield from send(prepared)
            return accepted(server, response, attempts)
        except TransportFailure as failure:
            yield from attempts.pause(server.failure(failure))
        except (RateLimited, Unavailable) as busy:
            server.was_reached = True
            yield from attempts.pause(busy)


def begin_stream(server: Server, wanted: HttpRequest, attempts: Attempts) -> Flow[HttpResponse]:
    """Open a stream, at the first attempt. Raises `ApiError`, `TransportFailure`."""
    yield from server.verify()
    response = yield from open_stream(server.prepared(wanted))
    return accepted(server, response, attempts)


def accepted(server: Server, response: HttpResponse, attempts: Attempts) -> HttpResponse:
    """`response`, unless it is a refusal. Raises `ApiError`."""
    if response.is_error:
        server.was_reached = True
        raise api_error(response)
    attempts.succeeded()
    return response


def probe(server: Server, path: str) -> Flow[HttpResponse]:
    """The response to one request without a credential, whatever its status. Raises `ConnectionFailed`."""
    try:
        yield from server.verify()
        return (yield from send(HttpRequest("GET", path, timeout_seconds=5)))
    except TransportFailure as failure:
        raise server.failure(failure) from failure


NO_CONTENT = HTTPStatus.NO_CONTENT
