"""Messages that come over standard input: what cannot be read, or is too complex, is answered and goes no further.

Over HTTP the same is done to bodies, see `api.http.json_limits`.
"""

import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self

from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from outlast.activities.json_numbers import number_flaws_in
from outlast.activities.unicode_text import valid_json_text, valid_text
from outlast.api.http.json_limits import JsonLimits
from outlast.api.mcp.posted_message import NOTIFICATIONS

log = logging.getLogger("outlast.mcp")

_MAX_FLAWS = 20
Item = SessionMessage | Exception
"""What the SDK's transport gives: an exception for a line that is no message, which the SDK passes over in silence."""


class _Reading(Protocol):
    async def receive(self) -> Item: ...
    async def __anext__(self) -> Item: ...
    async def aclose(self) -> None: ...


class _Writing(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...


class CheckedMessages:
    """A stream of messages with the methods that the SDK's server needs."""

    def __init__(
        self,
        reading: _Reading,
        writing: _Writing,
        limits: JsonLimits,
        admitted: Callable[[JSONRPCMessage], Awaitable[bool]],
    ) -> None:
        """Give the messages of `reading` that are within `limits` and `admitted`.

        Those beyond a limit are answered on `writing`; those that are not admitted are dropped.
        """
        self._admitted = admitted
        self._reading = reading
        self._writing = writing
        self._limits = limits

    async def receive(self) -> Item:
        """The next message. At the end it raises what `reading` raises."""
        while not await self._is_accepted(item := _with_valid_text(await self._reading.receive())):
            pass
        return item

    async def aclose(self) -> None:
        """Close `reading`."""
        await self._reading.aclose()

    def __aiter__(self) -> Self:
        """The stream itself."""
        return self

    async def __anext__(self) -> Item:
        """The next message."""
        while not await self._is_accepted(item := _with_valid_text(await self._reading.__anext__())):
            pass
        return item

    async def __aenter__(self) -> Self:
        """The stream itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()

    async def _is_accepted(self, item: Item) -> bool:
        error = self._error_in(item)
        if error is None:
            return isinstance(item, SessionMessage) and await self._admitted(item.message)
        log.warning("A message was refused: %s", error.error.message)
        await self._writing.send(SessionMessage(error))
        return False

    def _error_in(self, item: Item) -> JSONRPCError | None:
        if isinstance(item, Exception):
            return _unreadable(item)
        if isinstance(item.message, JSONRPCNotification) and not item.message.method.startswith(NOTIFICATIONS):
            # The SDK takes a request whose id is null, an object or a fraction for a notification.
            return _error(INVALID_REQUEST, "A request needs an id that is a string or an integer.", None)
        message = item.message.model_dump()
        excess = self._limits.excess_in(message)
        if excess is None:
            excess = "; ".join(f"{flaw.path}: {flaw.message}" for flaw in number_flaws_in(message)[:_MAX_FLAWS])
        if not excess:
            return None
        request_id = item.message.id if isinstance(item.message, JSONRPCRequest) else None
        return _error(INVALID_PARAMS, excess, request_id)


def _with_valid_text(item: Item) -> Item:
    """The item with valid text: also of a line that could not be read because of half of a character."""
    if isinstance(item, SessionMessage):
        written = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        cleaned = valid_json_text(written)
        if cleaned is written:
            return item
    elif isinstance(item, ValidationError) and isinstance(line := item.errors()[0]["input"], str):
        cleaned = valid_json_text(valid_text(line).encode())
    else:
        return item
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(cleaned, by_name=False))
    except ValidationError:
        return item


def _unreadable(error: Exception) -> JSONRPCError:
    """JSON-RPC 2.0, section 5: the id is null, since nobody knows it."""
    if isinstance(error, ValidationError) and all(found["type"] != "json_invalid" for found in error.errors()):
        return _error(INVALID_REQUEST, "The line is JSON, but no message of JSON-RPC 2.0.", None)
    return _error(PARSE_ERROR, "The line is no JSON, or nested too deeply.", None)


def _error(code: int, message: str, request_id: str | int | None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))
