"""`client.batches` of `AsyncClient`."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

from pydantic import JsonValue

from outlast.client.asynchronous.transport import AsyncStream, AsyncTransport
from outlast.client.contracts.batches import Batch, BatchPage, BatchRow
from outlast.client.flows import batches
from outlast.client.flows.batches import JSON_LINES, PAGE_SIZE, Items, RowFilter
from outlast.client.flows.requests import BatchOptions, batch_settings, given
from outlast.client.flows.server import Server
from outlast.client.whole_files import whole_file


class AsyncBatches:
    """One tool for many inputs."""

    def __init__(self, server: Server, transport: AsyncTransport) -> None:
        self._server = server
        self._transport = transport

    async def start(
        self,
        tool: str,
        items: Items,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch: `tool` (or an Actor, as `user/name`) with the arguments of each of `items`, over the
        `arguments` that all have. A mapping names the items by its keys.

        With the option `mapping` or `key`, items are rows. Raises `InvalidRequest`, whose violations name the numbers
        of items that do not fit; nothing is started then.
        """
        settings = batch_settings(tool, arguments, options)
        return await self._transport.run(batches.start(self._server, settings, items, options.get("idempotency_key")))

    async def start_file(
        self,
        tool: str,
        path: Path | str,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch of the items in a file, `.jsonl` or `.csv`. Raises `InvalidRequest`, whose violations name the
        lines that do not fit, and `BadSettings` for a file that cannot be read.
        """
        settings, key = batch_settings(tool, arguments, options), options.get("idempotency_key")
        return await self._transport.run(batches.start_file(self._server, settings, Path(path), key))

    async def start_lines(
        self,
        tool: str,
        lines: bytes,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch of lines of JSON, each an item or a row. Raises `InvalidRequest` as `start` does."""
        settings, key = batch_settings(tool, arguments, options), options.get("idempotency_key")
        return await self._transport.run(batches.upload(self._server, settings, lines, JSON_LINES, key))

    async def start_rows(
        self,
        tool: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        output: str | None = None,
        dataset: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch of the rows of a stored output or of a dataset, `limit` of them from `offset` on."""
        rows = given(output=output, dataset=dataset, offset=offset, limit=limit)
        settings, key = batch_settings(tool, arguments, options), options.get("idempotency_key")
        return await self._transport.run(batches.start_rows(self._server, settings, rows, key))

    async def get(self, batch_id: str) -> Batch:
        """Return a batch as it is now."""
        return await self._transport.run(batches.get(self._server, batch_id))

    async def wait(self, batch_id: str, *, timeout_seconds: float | None = None) -> Batch:
        """Wait until a batch has ended, also across restarts of the server. Raises `WaitTimedOut`."""
        return await self._transport.run(batches.wait(self._server, batch_id, timeout_seconds))

    def list(self, *, only_open: bool = False, limit: int | None = None) -> AsyncStream[Batch]:
        """Iterate over your batches: open ones first, then those that ended last. Pages are read as needed."""
        return self._transport.stream(batches.listed(self._server, only_open, limit))

    async def list_page(
        self, *, only_open: bool = False, page_size: int = PAGE_SIZE, page_token: str | None = None
    ) -> BatchPage:
        """Return one page of your batches, and the token of the next one."""
        return await self._transport.run(batches.page(self._server, only_open, page_size, page_token))

    def rows(
        self, batch_id: str, *, status: str | None = None, offset: int = 0, limit: int | None = None
    ) -> AsyncStream[BatchRow]:
        """Iterate over the results so far: `limit` rows from `offset` on, only those of one `status` if given."""
        return self._transport.stream(batches.rows(self._server, batch_id, RowFilter(status, offset, limit)))

    def follow(self, batch_id: str, *, status: str | None = None) -> AsyncStream[BatchRow]:
        """Iterate over the results as they come, until the batch has ended."""
        return self._transport.stream(batches.followed(self._server, batch_id, status))

    def lines(
        self, batch_id: str, wanted: RowFilter, form: str = "jsonl", *, csv_safe: bool = False
    ) -> AsyncStream[bytes]:
        """Iterate over the results so far as lines of JSON, or of CSV (`form="csv"`), each with its line end.

        With `csv_safe`, an apostrophe stands before text of CSV that a spreadsheet would compute.
        """
        return self._transport.stream(batches.lines(self._server, batch_id, wanted, form, csv_safe=csv_safe))

    async def save(self, batch_id: str, path: Path | str, *, status: str | None = None, csv_safe: bool = False) -> int:
        """Write the results so far to a file, as CSV where its name ends with `.csv`, else as lines of JSON; return its
        size in bytes. The file appears when it is complete. `csv_safe` is that of `lines`.
        """
        form = "csv" if Path(path).suffix.lower() == ".csv" else "jsonl"
        flow = batches.lines(self._server, batch_id, RowFilter(status), form, csv_safe=csv_safe)
        written = 0
        async with self._transport.stream(flow) as pieces:
            with whole_file(Path(path)) as file:
                async for piece in pieces:
                    written += await asyncio.to_thread(file.write, piece)
        return written

    async def cancel(self, batch_id: str) -> Batch:
        """Have nothing more started and what is under way cancelled; the batch ends with what there is."""
        return await self._transport.run(batches.cancel(self._server, batch_id))

    async def resume(
        self,
        batch_id: str,
        *,
        concurrency: int | None = None,
        budget_usd: float | None = None,
        stop: Mapping[str, JsonValue] | None = None,
    ) -> Batch:
        """Go on with a batch that has stopped: with what was cancelled, and what was not started."""
        changes = batches.changes(concurrency, budget_usd, stop)
        return await self._transport.run(batches.go_on(self._server, batch_id, "resume", changes))

    async def retry(
        self,
        batch_id: str,
        categories: Sequence[str] = (),
        *,
        concurrency: int | None = None,
        budget_usd: float | None = None,
        stop: Mapping[str, JsonValue] | None = None,
    ) -> Batch:
        """Run the failed items of a batch that has ended again; only those that failed with one of `categories`, if any
        are given.
        """
        changes = batches.changes(concurrency, budget_usd, stop, categories)
        return await self._transport.run(batches.go_on(self._server, batch_id, "retry", changes))
