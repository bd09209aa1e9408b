"""The activity that reads one record of a key-value store: text and JSON in parts, binary data whole or not at all."""

import base64
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypedDict, cast
from urllib.parse import quote

from pydantic import JsonValue
from temporalio import activity

from outlast.activities import apify
from outlast.activities.failures.classify import ToolFailure, explain_not_found, not_found
from outlast.activities.heartbeat import activity_scope
from outlast.activities.json_values import is_too_deep, loads
from outlast.activities.media import decoded, kind_of
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform.valid_responses import replaced_in
from outlast.activities.storages.contracts import Record, RecordInput
from outlast.activities.unicode_text import REPLACEMENT

_KEYS_TO_NAME = 10


class _StreamedRecord(TypedDict):
    content_type: str
    value: "apify.HttpResponse"


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes of a record from an offset on. `whole` means that they are the whole record."""

    data: bytes
    whole: bool
    is_last: bool
    size_bytes: int | None


class RecordActivities:
    """Reads records on behalf of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @activity.defn
    async def fetch_record(self, request: RecordInput) -> Record:
        """Return the record, or the part of it that fits. Fails with `not_found` for an unknown store or key."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            async with streamed_record(client, request.storage_id, request.key) as found:
                content_type = found["content_type"]
                kind = kind_of(content_type)
                offset = 0 if kind == "binary" else request.offset
                part = await _read_part(found["value"], offset, request.max_bytes)
                replaced_text = replaced_in(found["value"])
            record = Record(
                store_id=request.storage_id,
                key=request.key,
                content_type=content_type,
                kind="binary",
                size_bytes=part.size_bytes,
                url=self._record_url(request),
                replaced_text=replaced_text,
            )
            if kind != "binary":
                return _with_text(record, part, request.offset)
            return record.model_copy(
                update={"blob_base64": base64.b64encode(part.data).decode() if part.whole else None}
            )

    def _record_url(self, request: RecordInput) -> str:
        """The record's URL without a signature: a signed one would let every reader of the history read the record."""
        store = self._platform.url_of("key-value-stores", request.storage_id.replace("/", "~"))
        return f"{store}/records/{quote(request.key, safe='')}"


@asynccontextmanager
async def streamed_record(client: "apify.ApifyClientAsync", store_id: str, key: str) -> AsyncGenerator[_StreamedRecord]:
    """Provide the record for the block. Raises `ToolFailure` for an unknown store or key."""
    stream = client.key_value_store(store_id).stream_record(key)  # pyright: ignore[reportUnknownVariableType]  # a plain dict
    async with cast("AbstractAsyncContextManager[_StreamedRecord | None]", stream) as found:
        if found is None:
            raise await _explain_missing_record(client, store_id, key)
        yield found


async def _explain_missing_record(client: "apify.ApifyClientAsync", store_id: str, key: str) -> ToolFailure:
    if await client.key_value_store(store_id).get() is None:
        return await explain_not_found(client, "key-value store", store_id)
    page = await client.key_value_store(store_id).list_keys(limit=_KEYS_TO_NAME)
    names = ", ".join(item.key for item in page.items)
    more = ", and more" if page.is_truncated else ""
    hint = f"Its keys are: {names}{more}." if names else "The store is empty."
    return not_found(f"There is no record {key!r} in key-value store {store_id}.", hint)


async def _read_part(response: "apify.HttpResponse", offset: int, max_bytes: int) -> _Part:
    """At most `max_bytes` from `offset` on. Stops to read as soon as it has them."""
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


def _announced_size(response: "apify.HttpResponse") -> int | None:
    if response.headers.get("content-encoding", "identity") != "identity":
        return None
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None


def _with_text(record: Record, part: _Part, offset: int) -> Record:
    if kind_of(record.content_type) == "json" and part.whole:
        # A body that is not valid JSON, or nested too deeply, is returned as text.
        with suppress(ValueError):
            value: JsonValue = loads(part.data or b"null")
            if not is_too_deep(value):
                return record.model_copy(update={"kind": "json", "value": value})
    text, decoded_bytes = decoded(part.data, record.content_type, is_last=part.is_last)
    is_changed = REPLACEMENT in text and REPLACEMENT.encode() not in part.data
    return record.model_copy(
        update={
            "kind": "text",
            "text": text,
            "replaced_text": record.replaced_text or is_changed,
            "offset": offset,
            "next_offset": None if part.is_last else offset + decoded_bytes,
        }
    )
