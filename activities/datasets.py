"""Activities on what runs leave behind: dataset items and logs. Both are read as streams, so that memory stays flat."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from apify_client import ApifyClientAsync
from apify_client.errors import NotFoundError
from apify_client.http_clients import HttpResponse
from temporalio import activity

from activities.dataset_pages import fetch_described_page, fetch_known_page
from activities.dataset_rows import lines_of
from activities.item_schema import schema_of_items, simplified_schema
from activities.missing import explain_missing
from activities.models import DatasetItemsInput, DatasetPage, RunLog, RunLogInput
from activities.platform import ApifyPlatform
from activities.reading import reading
from activities.storage_models import DatasetSchema, DatasetSchemaInput

_LOG_TIMEOUT = timedelta(seconds=50)


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
            return await fetch_described_page(self._platform.client(order.caller), order)

    @activity.defn
    async def infer_dataset_schema(self, order: DatasetSchemaInput) -> DatasetSchema:
        """The schema of a dataset's first rows. Fails with `not_found` when the caller has no such dataset."""
        async with reading():
            client = self._platform.client(order.caller)
            page = await fetch_known_page(
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


async def _tail(response: HttpResponse, lines: int) -> tuple[deque[bytes], int]:
    tail: deque[bytes] = deque(maxlen=lines)
    total = 0
    async for line in lines_of(response):
        tail.append(line)
        total += 1
    return tail, total
