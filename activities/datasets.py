"""Activities on what runs leave behind: dataset items and logs. Both are read as streams, so that memory stays flat."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypedDict, TypeVar

from apify_client import ApifyClientAsync
from apify_client.errors import NotFoundError
from apify_client.http_clients import HttpResponse
from pydantic import JsonValue
from temporalio import activity

from activities.dataset_rows import fetch_page, lines_of
from activities.errors import redact
from activities.item_schema import schema_of_items, simplified_schema
from activities.missing import explain_missing
from activities.models import DatasetItemsInput, DatasetPage, RunLog, RunLogInput
from activities.platform import ApifyPlatform
from activities.reading import reading
from activities.storage_models import DatasetSchema, DatasetSchemaInput

_EMPTY_PROBES = 6
_EMPTY_PROBE_PAUSE = timedelta(milliseconds=500)
"""A dataset's count can lag a few seconds behind its items after a run has ended."""
_LOG_TIMEOUT = timedelta(seconds=50)

_DESCRIBED_SCHEMA_BYTES = 700
"""With a preview of 2 KB, what a run's answer says of its storages stays a small part of its history."""
_DESCRIBED_KEYS = 20
_EXTRAS_SECONDS = 10.0
"""A page does not wait longer for what only goes with it."""

Extra = TypeVar("Extra")


class StorageActivities:
    """Activities that read a caller's datasets and logs."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Read through `platform`."""
        self._platform = platform

    @activity.defn
    async def fetch_dataset_items(self, order: DatasetItemsInput) -> DatasetPage:
        """One page of a dataset, cut before the row that would exceed `max_bytes`.

        With `describe_run_store` it also has the keys of that store and the schema of its rows; a page whose keys
        cannot be listed has none.
        Fails with `not_found` when the caller has no such dataset.
        """
        async with reading():
            client = self._platform.client(order.caller)
            if order.describe_run_store is None:
                return await _fetch_expected_page(client, order)
            uncut: list[JsonValue] = []
            extras = asyncio.create_task(_extras(client, order.describe_run_store, order.describe_run_actor))
            try:
                page = await _fetch_expected_page(client, order, uncut)
                return await _described(page, uncut, await extras)
            finally:
                extras.cancel()

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
            fitting = simplified_schema(schema, max_bytes=order.max_schema_bytes)
            return DatasetSchema(
                dataset_id=order.storage_id,
                item_schema=fitting,
                rows_read=len(page.items),
                total=page.total,
                simplified=fitting is not schema,
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


async def _fetch_expected_page(
    client: ApifyClientAsync, order: DatasetItemsInput, uncut: list[JsonValue] | None = None
) -> DatasetPage:
    """The page; when rows are expected and there are none, what it is a few seconds later."""
    page = await _fetch_known_page(client, order, uncut)
    probes = _EMPTY_PROBES if order.expect_items else 0
    while not page.items and not page.rows_cut and page.total <= order.offset and probes:
        await asyncio.sleep(_EMPTY_PROBE_PAUSE.total_seconds())
        page = await _fetch_known_page(client, order, uncut)
        probes -= 1
    return page


async def _described(page: DatasetPage, uncut: list[JsonValue], extras: "_Extras") -> DatasetPage:
    schema = await asyncio.to_thread(schema_of_items, uncut) if uncut else None
    fitting = simplified_schema(schema, max_bytes=_DESCRIBED_SCHEMA_BYTES) if schema else None
    return page.model_copy(update={"items_schema": fitting, **extras})


class _Extras(TypedDict):
    keys: tuple[str, ...] | None
    actor_name: str | None


async def _extras(client: ApifyClientAsync, store_id: str, actor_id: str | None) -> _Extras:
    name = _actor_name(client, actor_id) if actor_id else _nothing()
    keys, actor_name = await asyncio.gather(
        _if_possible(_first_keys(client, store_id), f"keys of store {store_id}"),
        _if_possible(name, f"name of Actor {actor_id}"),
    )
    return _Extras(keys=keys, actor_name=actor_name)


async def _if_possible(fetching: Awaitable[Extra], what: str) -> Extra | None:
    """What is fetched; None, and a warning in the log, when it cannot be had."""
    try:
        async with asyncio.timeout(_EXTRAS_SECONDS):
            return await fetching
    except Exception as error:  # noqa: BLE001 (whatever it is: rows without these are better than no rows)
        activity.logger.warning("No %s: %s", what, redact(repr(error)))
        return None


async def _first_keys(client: ApifyClientAsync, store_id: str) -> tuple[str, ...]:
    page = await client.key_value_store(store_id).list_keys(limit=_DESCRIBED_KEYS)
    return tuple(item.key for item in page.items)


async def _actor_name(client: ApifyClientAsync, actor_id: str) -> str | None:
    found = await client.actor(actor_id).get()
    return f"{found.username}/{found.name}" if found else None


async def _nothing() -> None:
    return None


async def _fetch_known_page(
    client: ApifyClientAsync, order: DatasetItemsInput, uncut: list[JsonValue] | None = None
) -> DatasetPage:
    try:
        return await fetch_page(client, order, uncut=uncut)
    except NotFoundError:
        raise await explain_missing(client, "dataset", order.dataset_id) from None


async def _tail(response: HttpResponse, lines: int) -> tuple[deque[bytes], int]:
    tail: deque[bytes] = deque(maxlen=lines)
    total = 0
    async for line in lines_of(response):
        tail.append(line)
        total += 1
    return tail, total
