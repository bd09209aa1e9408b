"""Refuses JSON bodies that hold half of a surrogate pair: such a text cannot be stored, nor sent to anybody."""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

_MAY_HOLD_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class _SoundRequest(Request):
    async def json(self) -> Any:
        """The body. Raises `json.JSONDecodeError`, as for any other JSON that is broken (RFC 8259, section 8.2)."""
        value = await super().json()
        body = await self.body()
        if _MAY_HOLD_HALF.search(body):
            _refuse_halves(value, body)
        return value


class SoundTextRoute(APIRoute):
    """A route whose bodies hold whole characters only; others are answered 400."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()

        async def handle_sound(request: Request) -> Response:
            return await handle(_SoundRequest(request.scope, request.receive))

        return handle_sound


def _refuse_halves(value: Any, body: bytes) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):x}"
        position = body.lower().find(escape.encode())
        raise json.JSONDecodeError(f"{escape} is half of a character; send both halves", str(body), position) from None
