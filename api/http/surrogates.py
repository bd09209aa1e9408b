"""Rejects JSON bodies that hold half of a surrogate pair: such a text can neither be stored nor sent on."""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute

# Escaped, or as the three bytes that UTF-8 would have for it. JSON in UTF-16 and UTF-32 is read too, and has zeros.
_MAY_HOLD_HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]|\0")


class _SoundRequest(Request):
    unchecked_fields: frozenset[str] = frozenset()

    async def json(self) -> Any:
        """The body. Raises `json.JSONDecodeError`, as for any other JSON that is broken (RFC 8259, section 8.2)."""
        value = await super().json()
        body = await self.body()
        if _MAY_HOLD_HALF.search(body):
            _refuse_halves(self._checked_part(value), body)
        return value

    def _checked_part(self, value: Any) -> Any:
        if not self.unchecked_fields or not isinstance(value, dict):
            return value
        fields = cast(dict[str, Any], value)
        return {name: field for name, field in fields.items() if name not in self.unchecked_fields}


class SoundTextRoute(APIRoute):
    """A route whose bodies hold whole characters only; others are answered 400."""

    unchecked_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields of the body that the route checks by itself."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()

        async def handle_sound(request: Request) -> Response:
            sound = _SoundRequest(request.scope, request.receive)
            sound.unchecked_fields = self.unchecked_fields
            return await handle(sound)

        return handle_sound


class ModelMessageRoute(SoundTextRoute):
    """A route whose `message` is what a model wrote: half a character in it is for the model to mend, and no 400."""

    unchecked_fields = frozenset({"message"})


def _refuse_halves(value: Any, body: bytes) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):x}"
        position = max(body.lower().find(escape.encode()), 0)
        raise json.JSONDecodeError(f"{escape} is half of a character; send both halves", str(body), position) from None
