"""The commands of a flow to its transport.

A `Flow[T]` gives a `T` in the end; an `Emitting[T]` gives any number of them on the way, each as an `Item`. The
transport sends the result of each command back into the generator, or throws `TransportFailure` into it.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from pydantic import JsonValue

T = TypeVar("T")
Changed = TypeVar("Changed")

Params = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. `path` starts with a slash; `timeout_seconds` is the longest silence, None the client's own.

    `content` is sent as it is, `body` as JSON.
    """

    method: str
    path: str
    params: Params = ()
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: JsonValue = None
    timeout_seconds: float | None = None
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One response. The header names are in lower case; the body of an open stream is empty."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def is_error(self) -> bool:
        """Whether it is a refusal."""
        return self.status >= 400


@dataclass(frozen=True, slots=True)
class Send:
    """Carry out a request; gives the `HttpResponse`."""

    request: HttpRequest


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Carry out a request whose body is read in pieces; gives the `HttpResponse`, whole when it is an error."""

    request: HttpRequest


@dataclass(frozen=True, slots=True)
class ReadStream:
    """Give the next piece of the open stream; None when it has ended."""


@dataclass(frozen=True, slots=True)
class CloseStream:
    """Close the open stream, if there is one."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """One value for the caller."""

    value: T


class TransportFailure(Exception):
    """No answer came, or only a part of it."""

    def __init__(self, kind: Literal["refused", "silent", "lost"]) -> None:
        super().__init__(kind)
        self.kind = kind


Command = Send | OpenStream | ReadStream | CloseStream | Pause
Reply = HttpResponse | bytes | None
Flow = Generator[Command, Reply, T]
Emitting = Generator[Command | Item[T], Reply, None]


def send(request: HttpRequest) -> Flow[HttpResponse]:
    """The response to `request`."""
    reply = yield Send(request)
    assert isinstance(reply, HttpResponse)
    return reply


def open_stream(request: HttpRequest) -> Flow[HttpResponse]:
    """The response to `request`, its body still to be read."""
    reply = yield OpenStream(request)
    assert isinstance(reply, HttpResponse)
    return reply


def read_stream() -> Flow[bytes | None]:
    """The next piece of the open stream; None when it has ended."""
    reply = yield ReadStream()
    assert not isinstance(reply, HttpResponse)
    return reply


def each(reading: Emitting[T], change: Callable[[T], Changed]) -> Emitting[Changed]:
    """What `change` makes of each item."""
    yield from chosen(reading, lambda value: Item(change(value)))


def chosen(reading: Emitting[T], choose: Callable[[T], Item[Changed] | None]) -> Emitting[Changed]:
    """What `choose` makes of the items, without those of which it makes None."""
    try:
        command = next(reading)
        while True:
            if isinstance(command, Item):
                if (item := choose(command.value)) is not None:
                    yield item
                command = next(reading)
                continue
            try:
                reply = yield command
            except TransportFailure as failure:
                command = reading.throw(failure)
            else:
                command = reading.send(reply)
    except StopIteration:
        return
