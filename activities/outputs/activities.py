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
from outlast.activities.content_types import kind_of
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.not_found import explain_not_found, not_found
from outlast.activities.heartbeat import Heartbeats, heartbeating
from outlast.activities.outputs.contracts import (
    RestoredOutput,
    RestoreOutputInput,
    StoreContentInput,
    StoreDatasetInput,
    StoredDataset,
    StoredOutput,
    StoreRecordInput,
)
from outlast.activities.outputs.format.errors import OutputError
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
    async def store_dataset(self, request: StoreDatasetInput) -> StoredDataset:
        """Bring a whole dataset into the store, page by page; also its first rows, shortened.

        Memory stays flat. A retry goes on after the last part that was stored, on any worker. Heartbeat details hold
        the `StorePosition`. Fails with `not_found` when the caller has no such dataset (any more).
        """
        with as_activity_failure():
            client = self._platform.client(request.caller)
            async with heartbeating() as heartbeats:
                try:
                    output = await self._store_rows(client, request, heartbeats)
                    page = await fetch_page(client, _preview_of(request))
                except NotFoundError:
                    raise await explain_not_found(client, "dataset", request.dataset_id) from None
            return StoredDataset(output=output, preview=_counted(page, output.count or 0))

    @activity.defn
    async def store_record(self, request: StoreRecordInput) -> StoredOutput:
        """Bring a whole record of a key-value store into the store. Fails with `not_found` for an unknown one."""
        with as_activity_failure():
            client = self._platform.client(request.caller)
            async with heartbeating() as heartbeats:
                stream = client.key_value_store(request.store_id).stream_record(request.key)  # pyright: ignore[reportUnknownVariableType]  # a plain dict
                async with cast("AbstractAsyncContextManager[_Found | None]", stream) as found:
                    if found is None:
                        raise await _no_record(client, request)
                    return await self._store_body(request, found["content_type"], found["value"], heartbeats)

    @activity.defn
    async def store_content(self, request: StoreContentInput) -> StoredOutput:
        """Store what a tool has answered. Fails with `validation` when `kind` does not say what it is."""
        with as_activity_failure():
            async with heartbeating():
                content = await asyncio.to_thread(_content_of, request)
                what = f"content {request.kind} {request.content_type} "
                what += await asyncio.to_thread(_digest_of, content)
                async with OutputWriter(self._objects, request.scope, what=what, kind=request.kind) as writer:
                    await writer.write(content)
                    ttl = timedelta(seconds=request.ttl_seconds)
                    return _told(await writer.finish(content_type=request.content_type, ttl=ttl))

    @activity.defn
    async def restore_output(self, request: RestoreOutputInput) -> RestoredOutput:
        """Give a part of an output back.

        Fails with the envelope of `OutputError`: malformed, foreign, unknown, expired, deleted, damaged, or a
        selection that cannot be carried out.
        """
        with as_activity_failure():
            async with heartbeating():
                try:
                    return await select(await open_output(self._objects, request.locator, request.caller.id), request)
                except OutputError as refusal:
                    raise ToolFailure(refusal.envelope()) from None

    async def _store_rows(
        self, client: ApifyClientAsync, request: StoreDatasetInput, heartbeats: Heartbeats
    ) -> StoredOutput:
        what = f"dataset {request.dataset_id}"
        async with OutputWriter(self._objects, request.scope, what=what, kind="rows") as writer:
            begun = await writer.resume()
            rows, size = begun.rows, begun.raw_size
            async for batch in rows_from(client, request.dataset_id, rows):
                await writer.write(batch.lines)
                rows, size = rows + batch.rows, size + len(batch.lines)
                heartbeats.set_details(StorePosition(rows=rows, bytes=size))
            ttl = timedelta(seconds=request.ttl_seconds)
            return _told(await writer.finish(content_type=ROWS_CONTENT_TYPE, ttl=ttl))

    async def _store_body(
        self, request: StoreRecordInput, content_type: str, response: HttpResponse, heartbeats: Heartbeats
    ) -> StoredOutput:
        """From the beginning also in a retry: a record may have been changed meanwhile."""
        what = f"record {request.store_id} {request.key}"
        async with OutputWriter(self._objects, request.scope, what=what, kind=kind_of(content_type)) as writer:
            size = 0
            async for piece in _gathered(response.aiter_bytes()):
                await writer.write(piece)
                size += len(piece)
                heartbeats.set_details(StorePosition(rows=0, bytes=size))
            ttl = timedelta(seconds=request.ttl_seconds)
            return _told(await writer.finish(content_type=content_type, ttl=ttl))


def _told(manifest: OutputManifest) -> StoredOutput:
    """What the history is told. The summary says it in words; the fields as data are in the manifest."""
    return stored_output(manifest).model_copy(update={"fields": ()})


def _preview_of(request: StoreDatasetInput) -> DatasetItemsInput:
    return DatasetItemsInput(
        caller=request.caller,
        dataset_id=request.dataset_id,
        limit=request.preview_rows,
        max_bytes=request.preview_bytes,
        max_text_chars=request.preview_text_chars,
    )


def _counted(page: DatasetPage, rows: int) -> DatasetPage:
    """The preview, with the number of rows that were stored: the platform's own count may lag."""
    rows_cut = max(0, min(page.limit, rows) - page.end) if page.rows_cut else 0
    return page.model_copy(update={"total": rows, "rows_cut": rows_cut})


async def _no_record(client: ApifyClientAsync, request: StoreRecordInput) -> ToolFailure:
    if await client.key_value_store(request.store_id).get() is None:
        return await explain_not_found(client, "key-value store", request.store_id)
    return not_found(
        f"There is no record {request.key!r} in key-value store {request.store_id}.", "List the store's keys."
    )


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


def _content_of(request: StoreContentInput) -> bytes:
    """The bytes to store. Raises `ToolFailure` when the order does not hold what its kind says."""
    if request.kind == "binary" and request.blob_base64 is not None:
        try:
            return base64.b64decode(request.blob_base64, validate=True)
        except binascii.Error:
            raise _unfit("The blob is no Base64.") from None
    if request.kind == "rows" and request.text is None:
        if not isinstance(request.value, list):
            raise _unfit("Rows are a list of JSON values.")
        return b"".join(text_of(row) + b"\n" for row in request.value)
    if request.text is not None:
        content = request.text.encode(errors="replace")
        is_unended = request.kind == "rows" and content and not content.endswith(b"\n")
        return content + b"\n" if is_unended else content
    if request.kind == "json":
        return text_of(request.value)
    raise _unfit(f"There is no {request.kind} in the order.")


def _unfit(message: str) -> ToolFailure:
    return ToolFailure(ErrorEnvelope(tool="", message=message, category=ErrorCategory.VALIDATION, retryable=False))


def _digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
