# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""`client.batches` of `Client`."""

import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from pydantic import JsonValue

from outlast.client.blocking.concurrency import sleep, write_file
from outlast.client.blocking.transport import Stream, Transport
from outlast.client.errors import Conflict
from outlast.client.http import HttpRequest, idempotency, path, query
from outlast.client.requests import (
    BATCHES_PAGE_SIZE,
    JSON_LINES,
    START_SECONDS,
    Items,
    RowFilter,
    batch_changes,
    batch_lines,
    batch_settings,
    given,
    timed_out,
    upload,
    upload_file,
    upload_items,
)
from outlast.contracts.batches import Batch, BatchPage, BatchRow
from outlast.contracts.options import BatchOptions, Body

_LOOK_SECONDS = 1.0
"""Pause between two looks at a batch that runs."""


class Batches:
    """One tool for many inputs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def start(
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
        return self._transport.fetch(Batch, upload_items(settings, items, options.get("idempotency_key")))

    def start_file(
        self,
        tool: str,
        path: Path | str,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch of the items in a file, `.jsonl` or `.csv`. Raises `InvalidRequest`, whose violations name the
        lines that do not fit, and `BadSettings` for a file that cannot be read.
        """
        settings = batch_settings(tool, arguments, options)
        return self._transport.fetch(Batch, upload_file(settings, Path(path), options.get("idempotency_key")))

    def start_lines(
        self,
        tool: str,
        lines: bytes,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Start a batch of lines of JSON, each an item or a row. Raises `InvalidRequest` as `start` does."""
        settings = batch_settings(tool, arguments, options)
        return self._transport.fetch(Batch, upload(settings, lines, JSON_LINES, options.get("idempotency_key")))

    def start_rows(
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
        settings = batch_settings(tool, arguments, options, known=("output", "dataset", "offset", "limit"))
        body: Body = {**settings, "rows": given(output=output, dataset=dataset, offset=offset, limit=limit)}
        headers = idempotency(options.get("idempotency_key"))
        wanted = HttpRequest("POST", path("batches"), headers=headers, body=body, timeout_seconds=START_SECONDS)
        return self._transport.fetch(Batch, wanted)

    def get(self, batch_id: str) -> Batch:
        """Return a batch as it is now."""
        return self._transport.fetch(Batch, HttpRequest("GET", path("batches", batch_id)))

    def wait(self, batch_id: str, *, timeout_seconds: float | None = None) -> Batch:
        """Wait until a batch has ended, also across restarts of the server. Raises `WaitTimedOut`."""
        deadline = time.monotonic() + (float("inf") if timeout_seconds is None else timeout_seconds)
        while not (batch := self._look(batch_id)).has_ended:
            if time.monotonic() >= deadline:
                raise timed_out(f"Batch {batch_id} still runs", timeout_seconds)
            sleep(_LOOK_SECONDS)
        return batch

    def list(self, *, only_open: bool = False, limit: int | None = None) -> Stream[Batch]:
        """Iterate over your batches: open ones first, then those that ended last. Pages are read as needed."""
        return self._transport.listed(
            BatchPage,
            lambda size, token: _page(only_open, size, token),
            lambda page: (page.batches, page.next_page_token),
            limit=limit,
            page_size=BATCHES_PAGE_SIZE,
        )

    def list_page(
        self, *, only_open: bool = False, page_size: int = BATCHES_PAGE_SIZE, page_token: str | None = None
    ) -> BatchPage:
        """Return one page of your batches, and the token of the next one."""
        return self._transport.fetch(BatchPage, _page(only_open, page_size, page_token))

    def rows(
        self, batch_id: str, *, status: str | None = None, offset: int = 0, limit: int | None = None
    ) -> Stream[BatchRow]:
        """Iterate over the results so far: `limit` rows from `offset` on, only those of one `status` if given."""
        return Stream(self._rows(batch_id, RowFilter(status, offset, limit)))

    def follow(self, batch_id: str, *, status: str | None = None) -> Stream[BatchRow]:
        """Iterate over the results as they come, until the batch has ended."""
        return Stream(self._follow(batch_id, status))

    def lines(self, batch_id: str, wanted: RowFilter, form: str = "jsonl", *, csv_safe: bool = False) -> Stream[bytes]:
        """Iterate over the results so far as lines of JSON, or of CSV (`form="csv"`), each with its line end.

        With `csv_safe`, an apostrophe precedes text of CSV that a spreadsheet would compute.
        """
        # A value of CSV may contain a line end, so lines of CSV do not count rows.
        return self._transport.lines(batch_lines(batch_id, wanted, form, csv_safe=csv_safe), can_resume=form == "jsonl")

    def save(
        self,
        batch_id: str,
        path: Path | str,
        *,
        status: str | None = None,
        csv_safe: bool = False,
        columns: Sequence[str] = (),
        with_input: bool = False,
    ) -> int:
        """Write the results so far to a file, as CSV if its name ends with `.csv`, else as lines of JSON; return its
        size in bytes. The file appears when it is complete. `csv_safe` is that of `lines`.

        `columns` are columns of CSV, and paths such as `result.title` and `input.url`; all by default. `with_input`
        adds the rows that the items were made from.
        """
        form = "csv" if Path(path).suffix.lower() == ".csv" else "jsonl"
        wanted = RowFilter(status, columns=columns, with_input=with_input)
        with self.lines(batch_id, wanted, form, csv_safe=csv_safe) as pieces:
            return write_file(Path(path), pieces)

    def cancel(self, batch_id: str) -> Batch:
        """Start no further items and cancel those that run; the batch ends with the results so far."""
        return self._change(batch_id, "cancel", None)

    def resume(
        self,
        batch_id: str,
        *,
        concurrency: int | None = None,
        budget_usd: float | None = None,
        stop: Mapping[str, JsonValue] | None = None,
    ) -> Batch:
        """Continue a batch that has stopped: with its cancelled items, and those that were not started."""
        changes = batch_changes({"concurrency": concurrency, "budget_usd": budget_usd, "stop": stop})
        return self._change(batch_id, "resume", changes)

    def retry(
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
        changes = batch_changes(
            {"concurrency": concurrency, "budget_usd": budget_usd, "stop": stop, "categories": categories}
        )
        return self._change(batch_id, "retry", changes)

    def _look(self, batch_id: str) -> Batch:
        """The batch; patient when the server is away."""
        attempts = self._transport.attempts(self._transport.server.policy.wait_seconds)
        return self._transport.fetch(Batch, HttpRequest("GET", path("batches", batch_id)), attempts)

    def _change(self, batch_id: str, verb: str, changes: Body | None) -> Batch:
        """Cancel, resume or retry. When an earlier attempt was lost, a batch that is in that state is no error."""
        attempts = self._transport.attempts()
        wanted = HttpRequest("POST", path("batches", batch_id, verb), body=changes)
        try:
            return self._transport.fetch(Batch, wanted, attempts)
        except Conflict:
            if not attempts.may_have_arrived:
                raise
            return self.get(batch_id)

    def _rows(self, batch_id: str, wanted: RowFilter) -> Generator[BatchRow]:
        with self.lines(batch_id, wanted) as lines:
            for line in lines:
                yield BatchRow.model_validate_json(line, extra="allow")

    def _follow(self, batch_id: str, status: str | None) -> Generator[BatchRow]:
        seen = 0
        while True:
            batch = self._look(batch_id)
            with self.rows(batch_id, status=status, offset=seen) as rows:
                for row in rows:
                    seen += 1
                    yield row
            if batch.has_ended:
                return
            sleep(_LOOK_SECONDS)


def _page(only_open: bool, page_size: int, page_token: str | None) -> HttpRequest:
    params = query(only_open=only_open or None, page_size=page_size, page_token=page_token)
    return HttpRequest("GET", path("batches"), params)
