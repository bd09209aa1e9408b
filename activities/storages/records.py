"""Reading one record of a key-value store: text and JSON in parts, anything else whole or not at all."""

import base64
import codecs
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, TypedDict, cast
from urllib.parse import quote

import orjson
from apify_client import ApifyClientAsync
from apify_client.http_clients import HttpResponse
from temporalio import activity

from outlast.activities.apify_platform import ApifyPlatform
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.not_found import explain_not_found, not_found
from outlast.activities.heartbeat import activity_scope
from outlast.activities.storages.contracts import Record, RecordInput

_KEYS_TO_NAME = 10
_TEXT_TYPES = frozenset({"application/javascript", "application/x-ndjson", "application/yaml", "image/svg+xml"})


class _Found(TypedDict):
    content_type: str
    value: HttpResponse


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes of a record from `offset` on. `whole` says that nothing is before or behind them."""

    data: bytes
    whole: bool
    is_last: bool
    size_bytes: int | None


class RecordActivities:
    """Activities that read records, on behalf of the caller that each order names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Read through `platform`."""
        self._platform = platform

    @activity.defn
    async def fetch_record(self, request: RecordInput) -> Record:
        """The record, or the part of it that fits. Fails with `not_found` for an unknown store or key."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            store = client.key_value_store(request.storage_id)
            stream = store.stream_record(request.key)  # pyright: ignore[reportUnknownVariableType]  # a plain dict
            async with cast("AbstractAsyncContextManager[_Found | None]", stream) as found:
                if found is None:
                    raise await _missing(client, request)
                content_type = found["content_type"]
                kind = _kind(content_type)
                part = await _read(found["value"], 0 if kind == "binary" else request.offset, request.max_bytes)
            record = Record(
                store_id=request.storage_id,
                key=request.key,
                content_type=content_type,
                kind="binary",
                size_bytes=part.size_bytes,
                url=self._url(request),
            )
            return _with_blob(record, part) if kind == "binary" else _with_text(record, part, request.offset)

    def _url(self, request: RecordInput) -> str:
        """Unsigned. The client's own `get_record_public_url` signs: whoever reads the history could read the record."""
        store = self._platform.url_of("key-value-stores", request.storage_id.replace("/", "~"))
        return f"{store}/records/{quote(request.key, safe='')}"


async def _missing(client: ApifyClientAsync, request: RecordInput) -> ToolFailure:
    """Says which of the two there is not, the store or the key."""
    if await client.key_value_store(request.storage_id).get() is None:
        return await explain_not_found(client, "key-value store", request.storage_id)
    page = await client.key_value_store(request.storage_id).list_keys(limit=_KEYS_TO_NAME)
    names = ", ".join(item.key for item in page.items)
    more = ", and more" if page.is_truncated else ""
    return not_found(
        f"There is no record {request.key!r} in key-value store {request.storage_id}.",
        f"Its keys are: {names}{more}." if names else "The store is empty.",
    )


def _kind(content_type: str) -> Literal["json", "text", "binary"]:
    mime = content_type.partition(";")[0].strip().lower()
    if mime == "application/json" or mime.endswith("+json"):
        return "json"
    is_text = mime.startswith("text/") or mime in _TEXT_TYPES or mime.endswith(("/xml", "+xml"))
    return "text" if is_text else "binary"


async def _read(response: HttpResponse, offset: int, max_bytes: int) -> _Part:
    """At most `max_bytes` from `offset` on; what lies behind is not fetched."""
    skipped, data, is_last = 0, bytearray(), True
    async for chunk in response.aiter_bytes():
        piece = chunk[max(0, offset - skipped) :]
        skipped += len(chunk) - len(piece)
        data += piece
        if len(data) > max_bytes:
            is_last = False
            break
    size = skipped + len(data) if is_last else _announced_size(response)
    return _Part(bytes(data[:max_bytes]), whole=is_last and offset == 0, is_last=is_last, size_bytes=size)


def _announced_size(response: HttpResponse) -> int | None:
    if response.headers.get("content-encoding", "identity") != "identity":
        return None
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None


def _with_blob(record: Record, part: _Part) -> Record:
    return record.model_copy(
        update={"blob_base64": base64.b64encode(part.data).decode() if part.whole else None},
    )


def _with_text(record: Record, part: _Part, offset: int) -> Record:
    if _kind(record.content_type) == "json" and part.whole:
        try:
            return record.model_copy(update={"kind": "json", "value": orjson.loads(part.data or b"null")})
        except orjson.JSONDecodeError:
            pass  # What calls itself JSON and is none is shown as the text that it is.
    decoder = codecs.getincrementaldecoder(_charset(record.content_type))(errors="replace")
    text = decoder.decode(part.data, part.is_last)
    unread = len(decoder.getstate()[0])  # the first bytes of a letter whose rest is in the next part
    return record.model_copy(
        update={
            "kind": "text",
            "text": text,
            "offset": offset,
            "next_offset": None if part.is_last else offset + len(part.data) - unread,
        }
    )


def _charset(content_type: str) -> str:
    parameters = (parameter.partition("=") for parameter in content_type.split(";")[1:])
    named = next((value.strip(" \"'") for name, _, value in parameters if name.strip().lower() == "charset"), "utf-8")
    try:
        return codecs.lookup(named).name
    except LookupError:
        return "utf-8"
