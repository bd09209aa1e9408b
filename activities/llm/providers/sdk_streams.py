"""Streams of the providers' SDKs, closed completely when a call ends."""

from contextlib import suppress
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

Event_co = TypeVar("Event_co", covariant=True)


class SdkStream(Protocol[Event_co]):
    """The common part of the streams of all SDKs."""

    async def __anext__(self) -> Event_co:
        """The next event."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class StreamEvents(Generic[Event_co]):
    """The events of a stream. When the `async with` block ends, nothing of the stream is left open.

    An SDK's stream is a chain of async generators, and `close()` ends none of them. A call that returns early or is
    cancelled would leave them to the garbage collector, which closes them at any later time, even after the event loop
    has ended. With the connection closed, reading on fails in the innermost generator, and so ends the whole chain.
    (After `[DONE]` OpenAI's SDK drops its inner generators itself: the running loop closes them at once.)
    """

    def __init__(self, stream: SdkStream[Event_co]) -> None:
        """Take over `stream`."""
        self._stream = stream

    async def __aenter__(self) -> Self:
        """The events, to be iterated over once."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection and end the generators. What they raise then is of no interest."""
        try:
            await self._stream.close()
        finally:
            with suppress(Exception):
                while True:
                    await anext(self._stream)

    def __aiter__(self) -> Self:
        """`self`: a generator here would be one more to close."""
        return self

    async def __anext__(self) -> Event_co:
        """The next event. Raises what the SDK raises."""
        return await anext(self._stream)
