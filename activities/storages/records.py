"""Activities that list and describe a caller's runs, datasets, key-value stores and their keys, and the one that reads
a record: text and JSON in parts, binary data whole or not at all.
"""

import base64
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypedDict, cast
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
from outlast.activities.storages import contracts as storages
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


class ListingActivities:
    """Lists and describes, on behalf of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @activity.defn
    async def list_runs(self, request: storages.RunListInput) -> storages.RunPage:
        """Return one page of the caller's runs, or of one Actor's. Fails with `not_found` for an unknown Actor."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            runs = client.runs() if request.actor is None else client.actor(request.actor).runs()
            try:
                page = await runs.list(
                    offset=request.offset, limit=request.limit, desc=request.desc, status=request.status
                )
            except apify.NotFoundError:
                hint = "Name it as `user/name`, or by its id."
                raise not_found(f"There is no Actor {request.actor!r}.", hint) from None
            items = tuple(
                storages.RunItem(
                    run_id=run.id,
                    actor_id=run.act_id,
                    status=run.status,
                    started_at=run.started_at,
                    finished_at=run.finished_at,
                    build_number=run.build_number,
                    usage_total_usd=run.usage_total_usd,
                    dataset_id=run.default_dataset_id,
                    key_value_store_id=run.default_key_value_store_id,
                )
                for run in page.items
            )
            return storages.RunPage(runs=items, total=page.total, offset=request.offset)

    @activity.defn
    async def describe_dataset(self, request: storages.StorageRef) -> storages.DatasetInfo:
        """Return a dataset without its items. Fails with `not_found` if the caller cannot see it."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            found = await client.dataset(request.storage_id).get()
            if found is None:
                raise await explain_not_found(client, "dataset", request.storage_id)
            return _dataset(found)

    @activity.defn
    async def list_datasets(self, request: storages.StorageListInput) -> storages.DatasetListPage:
        """Return one page of the caller's datasets."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            page = await client.datasets().list(
                offset=request.offset, limit=request.limit, desc=request.desc, unnamed=request.unnamed
            )
            found = tuple(map(_dataset, page.items))
            return storages.DatasetListPage(datasets=found, total=page.total, offset=request.offset)

    @activity.defn
    async def describe_key_value_store(self, request: storages.StorageRef) -> storages.KeyValueStoreInfo:
        """Return a key-value store without its records. Fails with `not_found` if the caller cannot see it."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            found = await client.key_value_store(request.storage_id).get()
            if found is None:
                raise await explain_not_found(client, "key-value store", request.storage_id)
            return storages.KeyValueStoreInfo(**_common(found))

    @activity.defn
    async def list_key_value_stores(self, request: storages.StorageListInput) -> storages.KeyValueStoreListPage:
        """Return one page of the caller's key-value stores."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            page = await client.key_value_stores().list(
                offset=request.offset, limit=request.limit, desc=request.desc, unnamed=request.unnamed
            )
            found = tuple(storages.KeyValueStoreInfo(**_common(store)) for store in page.items)
            return storages.KeyValueStoreListPage(stores=found, total=page.total, offset=request.offset)

    @activity.defn
    async def list_keys(self, request: storages.KeysInput) -> storages.KeyPage:
        """Return one page of a store's keys. Fails with `not_found` if the caller cannot see the store."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            try:
                page = await client.key_value_store(request.storage_id).list_keys(
                    limit=request.limit, exclusive_start_key=request.exclusive_start_key, prefix=request.prefix
                )
            except apify.NotFoundError:
                raise await explain_not_found(client, "key-value store", request.storage_id) from None
            keys = tuple(storages.RecordKey(key=item.key, size_bytes=item.size) for item in page.items)
            following = page.next_exclusive_start_key if page.is_truncated else None
            return storages.KeyPage(keys=keys, next_start_key=following)


def _dataset(found: "apify.DatasetResource | apify.DatasetListItem") -> storages.DatasetInfo:
    return storages.DatasetInfo(
        **_common(found),
        item_count=found.item_count,
        clean_item_count=found.clean_item_count,
        fields=tuple(found.fields or ()) if isinstance(found, apify.DatasetResource) else (),
    )


def _common(found: "apify.DatasetResource | apify.DatasetListItem | apify.KeyValueStoreResource") -> dict[str, Any]:
    url = None if isinstance(found, apify.DatasetListItem) else found.console_url
    return {
        "id": found.id,
        "name": found.name or None,  # in lists, storages without a name have an empty one
        "created_at": found.created_at,
        "modified_at": found.modified_at,
        "accessed_at": found.accessed_at,
        "actor_id": found.act_id,
        "run_id": found.act_run_id,
        "size_bytes": found.stats.storage_bytes if found.stats else None,
        "console_url": None if url is None else str(url),
    }
