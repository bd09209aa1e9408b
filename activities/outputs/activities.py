"""Activities of the output store: store a dataset, a record or a tool's result; read a part of a stored output."""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta

from pydantic import BaseModel
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities import apify
from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure, as_activity_failure, explain_not_found
from outlast.activities.failures.exceptions import OutputError
from outlast.activities.heartbeat import Heartbeats, activity_scope, heartbeating
from outlast.activities.json_values import text_of
from outlast.activities.media import kind_of
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs import contracts as outputs
from outlast.activities.outputs.dataset_source import rows_from
from outlast.activities.outputs.output_format import OutputManifest, stored_output
from outlast.activities.outputs.reader import open_output
from outlast.activities.outputs.selection import select
from outlast.activities.outputs.writer import OutputWriter
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform.valid_responses import replaced_in
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.activities.storages.datasets import fetch_page
from outlast.activities.storages.records import streamed_record
from outlast.activities.unicode_text import NOTE

STORE_ATTEMPT_TIMEOUT = timedelta(hours=6)
STORE_HEARTBEAT_TIMEOUT = timedelta(seconds=30)
STORE_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
RESTORE_ATTEMPT_TIMEOUT = timedelta(seconds=60)
RESTORE_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=10))

ROWS_CONTENT_TYPE = "application/x-ndjson"
_WRITTEN_BYTES = 1024 * 1024


class StorePosition(BaseModel):
    """Heartbeat details of the storing activities, for operators: rows and bytes read from the source so far."""

    rows: int
    bytes: int


class OutputActivities:
    """Writes and reads stored outputs on behalf of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform, objects: OutputObjects) -> None:
        self._platform = platform
        self._objects = objects

    @activity.defn
    async def store_dataset(self, request: outputs.StoreDatasetInput) -> outputs.StoredDataset:
        """Store a whole dataset, page by page. The result also has its first rows, shortened. Memory use does not grow
        with the dataset. A retry continues after the last stored part, on any worker. The heartbeat details hold the
        `StorePosition`. Fails with `not_found` when the caller has no such dataset.
        """
        with as_activity_failure():
            client = self._platform.client(request.caller)
            async with heartbeating() as heartbeats:
                try:
                    output = await self._store_rows(client, request, heartbeats)
                    page = await fetch_page(client, _preview_of(request))
                except apify.NotFoundError:
                    raise await explain_not_found(client, "dataset", request.dataset_id) from None
            return outputs.StoredDataset(output=output, preview=_counted(page, output.count or 0))

    @activity.defn
    async def store_record(self, request: outputs.StoreRecordInput) -> outputs.StoredOutput:
        """Store a whole record of a key-value store. Fails with `not_found` for an unknown store or key."""
        with as_activity_failure():
            client = self._platform.client(request.caller)
            record = streamed_record(client, request.store_id, request.key)
            async with heartbeating() as heartbeats, record as found:
                return await self._store_body(request, found["content_type"], found["value"], heartbeats)

    @activity.defn
    async def store_content(self, request: outputs.StoreContentInput) -> outputs.StoredOutput:
        """Store the result of a tool. Fails with `validation` when the request lacks the content that `kind` names."""
        async with activity_scope():
            content = await asyncio.to_thread(_content_of, request)
            digest = await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())
            what = f"content {request.kind} {request.content_type} {digest}"
            async with OutputWriter(self._objects, request.scope, what=what, kind=request.kind) as writer:
                await writer.write(content)
                ttl = timedelta(seconds=request.ttl_seconds)
                return _without_fields(await writer.finish(content_type=request.content_type, ttl=ttl))

    @activity.defn
    async def restore_output(self, request: outputs.RestoreOutputInput) -> outputs.RestoredOutput:
        """Read a part of an output. Fails with the envelope of `OutputError`: the locator is malformed, foreign or
        unknown, the output has expired, was deleted or is damaged, or the selection is invalid.
        """
        async with activity_scope():
            try:
                return await select(await open_output(self._objects, request.locator, request.caller.id), request)
            except OutputError as error:
                raise ToolFailure(error.envelope()) from None

    async def _store_rows(
        self, client: "apify.ApifyClientAsync", request: outputs.StoreDatasetInput, heartbeats: Heartbeats
    ) -> outputs.StoredOutput:
        what = f"dataset {request.dataset_id}"
        async with OutputWriter(self._objects, request.scope, what=what, kind="rows") as writer:
            begun = await writer.resume()
            rows, size, replaced_text = begun.rows, begun.raw_size, False
            async for batch in rows_from(client, request.dataset_id, rows):
                await writer.write(batch.lines)
                rows, size = rows + batch.rows, size + len(batch.lines)
                replaced_text = replaced_text or batch.replaced_text
                heartbeats.set_details(StorePosition(rows=rows, bytes=size))
            ttl = timedelta(seconds=request.ttl_seconds)
            output = _without_fields(await writer.finish(content_type=ROWS_CONTENT_TYPE, ttl=ttl))
            return _with_note(output) if replaced_text else output

    async def _store_body(
        self,
        request: outputs.StoreRecordInput,
        content_type: str,
        response: "apify.HttpResponse",
        heartbeats: Heartbeats,
    ) -> outputs.StoredOutput:
        """Store the whole body. A retry starts at the beginning: the record may have changed."""
        what = f"record {request.store_id} {request.key}"
        async with OutputWriter(self._objects, request.scope, what=what, kind=kind_of(content_type)) as writer:
            size = 0
            async for piece in _larger_pieces(response.aiter_bytes()):
                await writer.write(piece)
                size += len(piece)
                heartbeats.set_details(StorePosition(rows=0, bytes=size))
            ttl = timedelta(seconds=request.ttl_seconds)
            output = _without_fields(await writer.finish(content_type=content_type, ttl=ttl))
            return _with_note(output) if replaced_in(response) else output


def _without_fields(manifest: OutputManifest) -> outputs.StoredOutput:
    """Return the output as the history holds it. The summary names the fields; their data is in the manifest."""
    return stored_output(manifest).model_copy(update={"fields": ()})


def _with_note(output: outputs.StoredOutput) -> outputs.StoredOutput:
    """Return the output with a note in its summary that invalid Unicode was replaced."""
    summary = output.summary[: outputs.MAX_SUMMARY_CHARS - len(NOTE) - 1]
    return output.model_copy(update={"summary": f"{summary} {NOTE}"})


def _preview_of(request: outputs.StoreDatasetInput) -> DatasetItemsInput:
    return DatasetItemsInput(
        caller=request.caller,
        dataset_id=request.dataset_id,
        limit=request.preview_rows,
        max_bytes=request.preview_bytes,
        max_text_chars=request.preview_text_chars,
    )


def _counted(page: DatasetPage, rows: int) -> DatasetPage:
    """Return the preview, with the number of rows that were stored: the platform's own count may lag."""
    rows_cut = max(0, min(page.limit, rows) - page.end) if page.rows_cut else 0
    return page.model_copy(update={"total": rows, "rows_cut": rows_cut})


async def _larger_pieces(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the same bytes in larger pieces."""
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


def _content_of(request: outputs.StoreContentInput) -> bytes:
    """Return the bytes to store. Raises `ToolFailure` when the request lacks the content that its kind names."""
    if request.kind == "binary" and request.blob_base64 is not None:
        try:
            return base64.b64decode(request.blob_base64, validate=True)
        except binascii.Error:
            raise _invalid("The blob is not valid Base64.") from None
    if request.kind == "rows" and request.text is None:
        if not isinstance(request.value, list):
            raise _invalid("Rows must be a list of JSON values.")
        return b"".join(text_of(row) + b"\n" for row in request.value)
    if request.text is not None:
        content = request.text.encode(errors="replace")
        is_unended = request.kind == "rows" and content and not content.endswith(b"\n")
        return content + b"\n" if is_unended else content
    if request.kind == "json":
        return text_of(request.value)
    raise _invalid(f"The request contains no {request.kind}.")


def _invalid(message: str) -> ToolFailure:
    return ToolFailure.of(ErrorCategory.VALIDATION, message)
