"""Activities on what runs leave behind: dataset items and logs. Both are read as streams, so that memory stays flat."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import orjson
from apify_client import ApifyClientAsync
from apify_client.errors import NotFoundError
from apify_client.http_clients import HttpResponse
from pydantic import JsonValue
from temporalio import activity

from activities.dataset_rows import fetch_page, lines_of
from activities.item_schema import schema_of_items
from activities.missing import explain_missing
from activities.models import DatasetItemsInput, DatasetPage, RunLog, RunLogInput
from activities.platform import ApifyPlatform
from activities.reading import reading
from activities.storage_models import DatasetSchema, DatasetSchemaInput

_EMPTY_PROBES = 6
_EMPTY_PROBE_PAUSE = timedelta(milliseconds=500)
"""A dataset's count can lag a few seconds behind its items after a run has ended."""
_LOG_TIMEOUT = timedelta(seconds=50)

_DEEPEST = 8


class StorageActivities:
    """Activities that read a caller's datasets and logs."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Read through `platform`."""
        self._platform = platform

    @activity.defn
    async def fetch_dataset_items(self, order: DatasetItemsInput) -> DatasetPage:
        """One page of a dataset, cut before the row that would exceed `max_bytes`.

        Fails with `not_found` when the caller has no such dataset.
        """
        async with reading():
            client = self._platform.client(order.caller)
            page = await _fetch_known_page(client, order)
            probes = _EMPTY_PROBES if order.expect_items else 0
            while not page.items and not page.rows_cut and page.total <= order.offset and probes:
                await asyncio.sleep(_EMPTY_PROBE_PAUSE.total_seconds())
                page = await _fetch_known_page(client, order)
                probes -= 1
            return page

    @activity.defn
    async def infer_dataset_schema(self, order: DatasetSchemaInput) -> DatasetSchema:
        """The schema of a dataset's first rows. Fails with `not_found` when the caller has no such dataset."""
        async with reading():
            client = self._platform.client(order.caller)
            page = await _fetch_known_page(
                client,
                DatasetItemsInput(
                    caller=order.caller,
                    dataset_id=order.storage_id,
                    limit=order.limit,
                    clean=order.clean,
                    max_bytes=order.max_bytes,
                ),
            )
            schema = await asyncio.to_thread(schema_of_items, page.items)
            fitting, simplified = _fitting(schema, order.max_schema_bytes)
            return DatasetSchema(
                dataset_id=order.storage_id,
                item_schema=fitting,
                rows_read=len(page.items),
                total=page.total,
                simplified=simplified,
            )

    @activity.defn
    async def fetch_run_log(self, order: RunLogInput) -> RunLog:
        """The last lines of a run's log so far, at most `max_bytes`. Fails with `not_found` for an unknown run."""
        async with reading():
            client = self._platform.client(order.caller)
            try:
                async with self._log_so_far(client, order.run_id) as response:
                    tail, total = await _tail(response, order.lines)
            except NotFoundError:
                raise await explain_missing(client, "run", order.run_id) from None
            text = b"\n".join(tail)[-order.max_bytes :].decode(errors="replace")
            return RunLog(run_id=order.run_id, text=text, lines=text.count("\n") + bool(text), total_lines=total)

    @asynccontextmanager
    async def _log_so_far(self, client: ApifyClientAsync, run_id: str) -> AsyncGenerator[HttpResponse]:
        """The log's body as a stream. apify-client's own `stream` has the platform go on until the run has ended."""
        url = self._platform.url_of("logs", run_id)
        response = await client.http_client.call(method="GET", url=url, stream=True, timeout=_LOG_TIMEOUT)
        try:
            yield response
        finally:
            await response.aclose()


async def _fetch_known_page(client: ApifyClientAsync, order: DatasetItemsInput) -> DatasetPage:
    try:
        return await fetch_page(client, order)
    except NotFoundError:
        raise await explain_missing(client, "dataset", order.dataset_id) from None


async def _tail(response: HttpResponse, lines: int) -> tuple[deque[bytes], int]:
    tail: deque[bytes] = deque(maxlen=lines)
    total = 0
    async for line in lines_of(response):
        tail.append(line)
        total += 1
    return tail, total


def _fitting(schema: dict[str, JsonValue], max_bytes: int) -> tuple[dict[str, JsonValue], bool]:
    """`schema`, less its deepest levels when it is larger than `max_bytes`, and whether that was so."""
    if len(orjson.dumps(schema)) <= max_bytes:
        return schema, False
    for depth in range(_DEEPEST, 0, -1):
        shallow = _cut_below(schema, depth)
        if len(orjson.dumps(shallow)) <= max_bytes:
            return shallow, True
    return {"type": schema.get("type", "object")}, True


def _cut_below(schema: dict[str, JsonValue], depth: int) -> dict[str, JsonValue]:
    """`schema` with at most `depth` levels of properties and items; what lies deeper may be anything."""
    kept = {key: value for key, value in schema.items() if key not in ("properties", "items", "required", "anyOf")}
    options = schema.get("anyOf")
    if isinstance(options, list):
        kept["anyOf"] = [_cut_below(option, depth) for option in options if isinstance(option, dict)]
    if depth == 0:
        return kept
    if isinstance(properties := schema.get("properties"), dict):
        kept["properties"] = {
            name: _cut_below(part, depth - 1) for name, part in properties.items() if isinstance(part, dict)
        }
        kept |= {"required": schema["required"]} if "required" in schema else {}
    if isinstance(items := schema.get("items"), dict):
        kept["items"] = _cut_below(items, depth - 1)
    return kept
