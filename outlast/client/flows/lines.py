"""Lines of a streamed answer, which goes on where it stopped after a cut connection."""

from collections.abc import Callable

from outlast.client.errors import OutlastError, RateLimited, Unavailable
from outlast.client.flows.commands import (
    CloseStream,
    Emitting,
    HttpRequest,
    Item,
    TransportFailure,
    read_stream,
)
from outlast.client.flows.server import Attempts, Server, begin_stream

RequestAfter = Callable[[int], HttpRequest | None]
"""The request for what is left after so many lines; None when nothing is."""


def read_lines(server: Server, request_after: RequestAfter, *, goes_on: bool = True) -> Emitting[bytes]:
    """Lines, each with its end. Without `goes_on`, a cut after the first of them is raised as `ConnectionFailed`."""
    attempts = Attempts(server, server.policy.request_seconds)
    count = 0
    while (wanted := request_after(count)) is not None:
        try:
            yield from begin_stream(server, wanted, attempts)
            rest = b""
            while (piece := (yield from read_stream())) is not None:
                attempts.succeeded()
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    count += 1
                    yield Item(line + b"\n")
            if rest:
                yield Item(rest)
            return
        except TransportFailure as failure:
            trouble: OutlastError = server.failure(failure)
        except (RateLimited, Unavailable) as busy:
            trouble = busy
        yield CloseStream()
        if count and not goes_on:
            raise trouble
        yield from attempts.pause(trouble)
