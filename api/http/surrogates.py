"""Rejects JSON bodies with a lone surrogate: such a text can neither be stored nor encoded as UTF-8."""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute

# Escaped, or as the three bytes that UTF-8 would use: each begins with what a search finds fast.
_HALVES = (re.compile(rb"\\u[dD][89a-fA-F]"), re.compile(rb"\xed[\xa0-\xbf]"))


class _WellFormedRequest(Request):
    unchecked_fields: frozenset[str] = frozenset()

    async def json(self) -> Any:
        """The body. Raises `json.JSONDecodeError` for malformed JSON and lone surrogates (RFC 8259, section 8.2)."""
        value = await super().json()
        body = await self.body()
        if _may_hold_half(body):
            _reject_lone_surrogates(self._checked_part(value), body)
        return value

    def _checked_part(self, value: Any) -> Any:
        if not self.unchecked_fields or not isinstance(value, dict):
            return value
        fields = cast(dict[str, Any], value)
        return {name: field for name, field in fields.items() if name not in self.unchecked_fields}


class WellFormedTextRoute(APIRoute):
    """A route that responds 400 to bodies with lone surrogates."""

    unchecked_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields of the body that the route checks itself."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()

        async def handle_well_formed(request: Request) -> Response:
            checked = _WellFormedRequest(request.scope, request.receive)
            checked.unchecked_fields = self.unchecked_fields
            return await handle(checked)

        return handle_well_formed


class ModelMessageRoute(WellFormedTextRoute):
    """A route whose `message` a model wrote: the model reads the error about a lone surrogate in it; no 400."""

    unchecked_fields = frozenset({"message"})


def _may_hold_half(body: bytes) -> bool:
    # JSON in UTF-16 or UTF-32, which is accepted too, has zero bytes.
    return b"\0" in body or any(half.search(body) for half in _HALVES)


def _reject_lone_surrogates(value: Any, body: bytes) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):x}"
        position = max(body.lower().find(escape.encode()), 0)
        raise json.JSONDecodeError(f"{escape} is half of a character; send both halves", str(body), position) from None
