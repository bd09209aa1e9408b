"""Activities on what runs leave behind: dataset items and logs. Both are read as streams, so that memory stays flat."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from datetime import timedelta

import orjson
from apify_client import ApifyClientAsync
from apify_client.http_clients import HttpResponse
from pydantic import JsonValue
from temporalio import activity

from activities.errors import ToolFailure
from activities.failing import as_activity_failure
from activities.heartbeat import heartbeating
from activities.models import (
    DatasetItemsInput,
    DatasetPage,
    ErrorCategory,
    ErrorEnvelope,
    RunLog,
    RunLogInput,
)
from activities.platform import ApifyPlatform

_EMPTY_PROBES = 6
_EMPTY_PROBE_PAUSE = timedelta(milliseconds=500)
"""A dataset's count can lag a few seconds behind its items after a run has ended."""


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
        with as_activity_failure():
            client = self._platform.client(order.caller)
            async with heartbeating():
                page = await _fetch_page(client, order)
                probes = _EMPTY_PROBES if order.expect_items else 0
                while not page.items and not page.rows_cut and page.total <= order.offset and probes:
                    await asyncio.sleep(_EMPTY_PROBE_PAUSE.total_seconds())
                    page = await _fetch_page(client, order)
                    probes -= 1
                return page

    @activity.defn
    async def fetch_run_log(self, order: RunLogInput) -> RunLog:
        """The last lines of a run's log, at most `max_bytes`. Fails with `not_found` for an unknown run."""
        with as_activity_failure():
            client = self._platform.client(order.caller)
            async with heartbeating(), client.log(order.run_id).stream() as response:
                if response is None:
                    raise _not_found(f"There is no log of run {order.run_id!r}.")
                tail, total = await _tail(response, order.lines)
            text = b"\n".join(tail)[-order.max_bytes :].decode(errors="replace")
            return RunLog(run_id=order.run_id, text=text, lines=text.count("\n") + bool(text), total_lines=total)


async def _fetch_page(client: ApifyClientAsync, order: DatasetItemsInput) -> DatasetPage:
    dataset = client.dataset(order.dataset_id)
    items: list[JsonValue] = []
    size = 0
    rows_read = 0
    async with dataset.stream_items(
        item_format="jsonl",
        offset=order.offset,
        limit=order.limit,
        fields=list(order.fields) or None,
        omit=list(order.omit) or None,
        clean=order.clean or None,
        desc=order.desc or None,
    ) as response:
        total_header = response.headers.get("x-apify-pagination-total")
        async for line in _lines(response):
            size += len(line)
            if size > order.max_bytes:
                break
            items.append(orjson.loads(line))
            rows_read += 1
    total = int(total_header) if total_header is not None else await _item_count(client, order.dataset_id)
    size = min(size, order.max_bytes)
    wanted = max(0, min(order.limit, total - order.offset))
    return DatasetPage(
        dataset_id=order.dataset_id,
        items=tuple(items),
        offset=order.offset,
        limit=order.limit,
        total=max(total, order.offset + len(items)) if items else total,
        fields=_fields(items),
        # `clean` may leave rows out, so the rows that are missing were not necessarily cut.
        rows_cut=max(0, wanted - rows_read) if size >= order.max_bytes else 0,
        size_bytes=size,
    )


async def _item_count(client: ApifyClientAsync, dataset_id: str) -> int:
    found = await client.dataset(dataset_id).get()
    if found is None:
        raise _not_found(f"There is no dataset {dataset_id!r}.")
    return found.item_count


async def _lines(response: HttpResponse) -> AsyncIterator[bytes]:
    """The non-empty lines of a streamed body; only the line at hand is in memory."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
    if rest.strip():
        yield rest


async def _tail(response: HttpResponse, lines: int) -> tuple[deque[bytes], int]:
    tail: deque[bytes] = deque(maxlen=lines)
    total = 0
    async for line in _lines(response):
        tail.append(line)
        total += 1
    return tail, total


def _fields(items: list[JsonValue]) -> tuple[str, ...]:
    """Names of the rows' top-level fields, in the order in which they first appear."""
    names: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict):
            names.update(dict.fromkeys(item))
    return tuple(names)


def _not_found(message: str) -> ToolFailure:
    return ToolFailure(
        ErrorEnvelope(
            tool="",
            message=message,
            category=ErrorCategory.NOT_FOUND,
            retryable=False,
            hint="Check the id; it may have been deleted or belong to another account.",
        )
    )
