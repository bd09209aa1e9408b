"""Responses of the platform with valid text: what a JSON body holds is cleaned before anybody parses it. The platform
keeps rows and records as Actors write them, with halves of characters too. Its bodies of JSON and of JSON lines are
cleaned here, whole or chunk by chunk (`activities.unicode_text`); all other bodies are left as they are.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import impit

from outlast.activities.media import charset_of, kind_of
from outlast.activities.unicode_text import JsonTextCleaner, valid_json_text

_JSON_LINES = frozenset({"application/jsonl", "application/x-jsonlines", "application/x-ndjson"})
_OF_THE_BODY_AS_SENT = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class StreamedResponse:
    """A streamed response (`apify_client.http_clients.HttpResponse`) whose body is JSON, cleaned as it is read."""

    def __init__(self, response: impit.Response) -> None:
        self._response = response
        self._cleaner = JsonTextCleaner()

    @property
    def replaced(self) -> int:
        """The number of characters replaced so far in the output of `aiter_bytes`."""
        return self._cleaner.replaced

    @property
    def status_code(self) -> int:
        """HTTP status."""
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers, as sent: a length in them is that of the body before it was cleaned."""
        return self._response.headers

    @property
    def content(self) -> bytes:
        """The whole body."""
        return valid_json_text(self._response.content)

    @property
    def text(self) -> str:
        """The whole body as text."""
        return self.content.decode()

    def json(self) -> Any:
        """Return the whole body, parsed. Raises `ValueError` if it is not JSON."""
        return json.loads(self.content)

    def read(self) -> bytes:
        """Read the whole body."""
        return valid_json_text(self._response.read())

    async def aread(self) -> bytes:
        """Read the whole body."""
        return valid_json_text(await self._response.aread())

    def close(self) -> None:
        """Release the connection."""
        self._response.close()

    async def aclose(self) -> None:
        """Release the connection."""
        await self._response.aclose()

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the body in chunks."""
        for chunk in self._response.iter_bytes():
            if piece := self._cleaner.feed(chunk):
                yield piece
        if rest := self._cleaner.end():
            yield rest

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the body in chunks."""
        async for chunk in self._response.aiter_bytes():
            if piece := self._cleaner.feed(chunk):
                yield piece
        if rest := self._cleaner.end():
            yield rest


def with_valid_text(response: impit.Response, *, stream: bool) -> impit.Response | StreamedResponse:
    """`response` with valid text if its body is JSON."""
    if not _is_json(response.headers.get("content-type") or ""):
        return response
    if stream:
        return StreamedResponse(response)
    content = valid_json_text(response.content)
    if content is response.content or content == response.content:
        return response
    headers = {name: value for name, value in response.headers.items() if name.lower() not in _OF_THE_BODY_AS_SENT}
    return impit.Response(response.status_code, content=content, headers=headers, url=response.url)


def replaced_in(response: object) -> bool:
    """Return True if characters were replaced in the part of a streamed response that was read."""
    return isinstance(response, StreamedResponse) and response.replaced > 0


def _is_json(content_type: str) -> bool:
    mime = content_type.partition(";")[0].strip().lower()
    return (kind_of(content_type) == "json" or mime in _JSON_LINES) and charset_of(content_type) in ("utf-8", "ascii")
