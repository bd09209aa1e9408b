"""Activities on outputs: store a dataset or record as it streams in, store an answer, restore a part."""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import TypedDict, cast

from apify_client import ApifyClientAsync
from apify_client.errors import NotFoundError
from apify_client.http_clients import HttpResponse
from pydantic import BaseModel
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.apify_platform import ApifyPlatform
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.not_found import explain_missing, not_found
from outlast.activities.heartbeat import Heart, heartbeating
from outlast.activities.outputs.contracts import (
    RestoredOutput,
    RestoreOutputInput,
    StoreContentInput,
    StoreDatasetInput,
    StoredDataset,
    StoredOutput,
    StoreRecordInput,
)
from outlast.activities.outputs.format.content_types import kind_of
from outlast.activities.outputs.format.errors import OutputRefused
from outlast.activities.outputs.format.json_values import text_of
from outlast.activities.outputs.format.manifest import OutputManifest, stored_output
from outlast.activities.outputs.select.select import select
from outlast.activities.outputs.store.access import open_output
from outlast.activities.outputs.store.dataset_source import rows_from
from outlast.activities.outputs.store.object_store import OutputObjects
from outlast.activities.outputs.store.writer import OutputWriter
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.activities.storages.rows import fetch_page

STORE_ATTEMPT_TIMEOUT = timedelta(hours=6)
STORE_HEARTBEAT_TIMEOUT = timedelta(seconds=30)
STORE_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(seconds=30)
)
CONTENT_ATTEMPT_TIMEOUT = timedelta(minutes=5)
RESTORE_ATTEMPT_TIMEOUT = timedelta(seconds=60)
RESTORE_HEARTBEAT_TIMEOUT = timedelta(seconds=10)
RESTORE_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), backoff_coefficient=2, maximum_interval=timedelta(seconds=10)
)

ROWS_CONTENT_TYPE = "application/x-ndjson"
_WRITTEN_BYTES = 1024 * 1024


class StorePosition(BaseModel):
    """How far a storing is; in the heartbeat, for operators. Rows and bytes taken from the source."""

    rows: int
    bytes: int


class _Found(TypedDict):
    content_type: str
    value: HttpResponse


class OutputActivities:
    """Activities on the output store, on behalf of the caller that each order names."""

    def __init__(self, platform: ApifyPlatform, objects: OutputObjects) -> None:
        """Read what is to be stored through `platform`, keep outputs in `objects`."""
        self._platform = platform
        self._objects = objects

    @activity.defn
    async def store_dataset(self, order: StoreDatasetInput) -> StoredDataset:
        """Bring a whole dataset into the store, page by page; also its first rows, shortened.

        Memory stays flat. A retry goes on after the last part that was stored, on any worker. Heartbeat details hold
        the `StorePosition`. Fails with `not_found` when the caller has no such dataset (any more).
        """
        with as_activity_failure():
            client = self._platform.client(order.caller)
            async with heartbeating() as heart:
                try:
                    output = await self._store_rows(client, order, heart)
                    page = await fetch_page(client, _preview_of(order))
                except NotFoundError:
                    raise await explain_missing(client, "dataset", order.dataset_id) from None
            return StoredDataset(output=output, preview=_counted(page, output.count or 0))

    @activity.defn
    async def store_record(self, order: StoreRecordInput) -> StoredOutput:
        """Bring a whole record of a key-value store into the store. Fails with `not_found` for an unknown one."""
        with as_activity_failure():
            client = self._platform.client(order.caller)
            async with heartbeating() as heart:
                stream = client.key_value_store(order.store_id).stream_record(order.key)  # pyright: ignore[reportUnknownVariableType]  # a plain dict
                async with cast("AbstractAsyncContextManager[_Found | None]", stream) as found:
                    if found is None:
                        raise await _no_record(client, order)
                    return await self._store_body(order, found["content_type"], found["value"], heart)

    @activity.defn
    async def store_content(self, order: StoreContentInput) -> StoredOutput:
        """Store what a tool has answered. Fails with `validation` when `kind` does not say what it is."""
        with as_activity_failure():
            async with heartbeating():
                content = await asyncio.to_thread(_content_of, order)
                what = f"content {order.kind} {order.content_type} "
                what += await asyncio.to_thread(_digest_of, content)
                async with OutputWriter(self._objects, order.scope, what=what, kind=order.kind) as writer:
                    await writer.write(content)
                    ttl = timedelta(seconds=order.ttl_seconds)
                    return _told(await writer.finish(content_type=order.content_type, ttl=ttl))

    @activity.defn
    async def restore_output(self, order: RestoreOutputInput) -> RestoredOutput:
        """Give a part of an output back.

        Fails with the envelope of `OutputRefused`: malformed, foreign, unknown, expired, deleted, damaged, or a
        selection that cannot be carried out.
        """
        with as_activity_failure():
            async with heartbeating():
                try:
                    return await select(await open_output(self._objects, order.locator, order.caller.id), order)
                except OutputRefused as refusal:
                    raise ToolFailure(refusal.envelope()) from None

    async def _store_rows(self, client: ApifyClientAsync, order: StoreDatasetInput, heart: Heart) -> StoredOutput:
        what = f"dataset {order.dataset_id}"
        async with OutputWriter(self._objects, order.scope, what=what, kind="rows") as writer:
            begun = await writer.resume()
            rows, size = begun.rows, begun.raw_size
            async for batch in rows_from(client, order.dataset_id, rows):
                await writer.write(batch.lines)
                rows, size = rows + batch.rows, size + len(batch.lines)
                heart.carry(StorePosition(rows=rows, bytes=size))
            ttl = timedelta(seconds=order.ttl_seconds)
            return _told(await writer.finish(content_type=ROWS_CONTENT_TYPE, ttl=ttl))

    async def _store_body(
        self, order: StoreRecordInput, content_type: str, response: HttpResponse, heart: Heart
    ) -> StoredOutput:
        """From the beginning also in a retry: a record may have been changed meanwhile."""
        what = f"record {order.store_id} {order.key}"
        async with OutputWriter(self._objects, order.scope, what=what, kind=kind_of(content_type)) as writer:
            size = 0
            async for piece in _gathered(response.aiter_bytes()):
                await writer.write(piece)
                size += len(piece)
                heart.carry(StorePosition(rows=0, bytes=size))
            ttl = timedelta(seconds=order.ttl_seconds)
            return _told(await writer.finish(content_type=content_type, ttl=ttl))


def _told(manifest: OutputManifest) -> StoredOutput:
    """What the history is told. The summary says it in words; the fields as data are in the manifest."""
    return stored_output(manifest).model_copy(update={"fields": ()})


def _preview_of(order: StoreDatasetInput) -> DatasetItemsInput:
    return DatasetItemsInput(
        caller=order.caller,
        dataset_id=order.dataset_id,
        limit=order.preview_rows,
        max_bytes=order.preview_bytes,
        max_text_chars=order.preview_text_chars,
    )


def _counted(page: DatasetPage, rows: int) -> DatasetPage:
    """The preview, with the number of rows that were stored: the platform's own count may lag."""
    rows_cut = max(0, min(page.limit, rows) - page.end) if page.rows_cut else 0
    return page.model_copy(update={"total": rows, "rows_cut": rows_cut})


async def _no_record(client: ApifyClientAsync, order: StoreRecordInput) -> ToolFailure:
    if await client.key_value_store(order.store_id).get() is None:
        return await explain_missing(client, "key-value store", order.store_id)
    return not_found(f"There is no record {order.key!r} in key-value store {order.store_id}.", "List the store's keys.")


async def _gathered(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in larger pieces."""
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size >= _WRITTEN_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


def _content_of(order: StoreContentInput) -> bytes:
    """The bytes to store. Raises `ToolFailure` when the order does not hold what its kind says."""
    if order.kind == "binary" and order.blob_base64 is not None:
        try:
            return base64.b64decode(order.blob_base64, validate=True)
        except binascii.Error:
            raise _unfit("The blob is no Base64.") from None
    if order.kind == "rows" and order.text is None:
        if not isinstance(order.value, list):
            raise _unfit("Rows are a list of JSON values.")
        return b"".join(text_of(row) + b"\n" for row in order.value)
    if order.text is not None:
        content = order.text.encode(errors="replace")
        is_unended = order.kind == "rows" and content and not content.endswith(b"\n")
        return content + b"\n" if is_unended else content
    if order.kind == "json":
        return text_of(order.value)
    raise _unfit(f"There is no {order.kind} in the order.")


def _unfit(message: str) -> ToolFailure:
    return ToolFailure(ErrorEnvelope(tool="", message=message, category=ErrorCategory.VALIDATION, retryable=False))


def _digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
