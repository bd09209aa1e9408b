"""Pages of datasets. A page of a run's dataset can also have the keys of the run's store and the schema of its rows."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypedDict, TypeVar

from pydantic import JsonValue
from temporalio import activity

from outlast.activities.failures.classify import redact
from outlast.activities.failures.not_found import explain_not_found
from outlast.activities.platform import apify
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.activities.storages.item_schema import schema_of_items, simplified_schema
from outlast.activities.storages.rows import fetch_page

_EMPTY_PROBES = 6
_EMPTY_PROBE_PAUSE = timedelta(milliseconds=500)
"""A dataset's count can lag a few seconds behind its items after a run has ended."""
_DESCRIBED_SCHEMA_BYTES = 700
"""Together with a preview of 2 KB this stays a small part of a run's history."""
_DESCRIBED_KEYS = 20
_EXTRAS_SECONDS = 10.0
"""How long a page waits for the keys and the Actor's name."""

Extra = TypeVar("Extra")


async def fetch_described_page(client: "apify.ApifyClientAsync", request: DatasetItemsInput) -> DatasetPage:
    """The page for `request`; with `describe_run_store` also that store's keys and the schema of the rows.

    Keys that cannot be listed are left out. Fails with `not_found` when the caller has no such dataset.
    """
    if request.describe_run_store is None:
        return await _fetch_expected_page(client, request)
    uncut: list[JsonValue] = []
    extras = asyncio.create_task(_extras(client, request.describe_run_store, request.describe_run_actor))
    try:
        page = await _fetch_expected_page(client, request, uncut)
        return await _described(page, uncut, await extras)
    finally:
        extras.cancel()


async def _fetch_expected_page(
    client: "apify.ApifyClientAsync", request: DatasetItemsInput, uncut: list[JsonValue] | None = None
) -> DatasetPage:
    """The page. When rows are expected and there are none, it is read again for a few seconds."""
    page = await fetch_known_page(client, request, uncut)
    probes = _EMPTY_PROBES if request.expect_items else 0
    while not page.items and not page.rows_cut and page.total <= request.offset and probes:
        await asyncio.sleep(_EMPTY_PROBE_PAUSE.total_seconds())
        page = await fetch_known_page(client, request, uncut)
        probes -= 1
    return page


async def _described(page: DatasetPage, uncut: list[JsonValue], extras: "_Extras") -> DatasetPage:
    schema = await asyncio.to_thread(schema_of_items, uncut) if uncut else None
    fitting = simplified_schema(schema, max_bytes=_DESCRIBED_SCHEMA_BYTES) if schema else None
    return page.model_copy(update={"items_schema": fitting, **extras})


class _Extras(TypedDict):
    keys: tuple[str, ...] | None
    actor_name: str | None


async def _extras(client: "apify.ApifyClientAsync", store_id: str, actor_id: str | None) -> _Extras:
    name = _actor_name(client, actor_id) if actor_id else _nothing()
    keys, actor_name = await asyncio.gather(
        _if_possible(_first_keys(client, store_id), f"keys of store {store_id}"),
        _if_possible(name, f"name of Actor {actor_id}"),
    )
    return _Extras(keys=keys, actor_name=actor_name)


async def _if_possible(fetching: Awaitable[Extra], what: str) -> Extra | None:
    """The result of `fetching`; when that fails, None and a warning in the log."""
    try:
        async with asyncio.timeout(_EXTRAS_SECONDS):
            return await fetching
    except Exception as error:  # noqa: BLE001 (rows without these are better than no rows)
        activity.logger.warning("Cannot read the %s: %s", what, redact(repr(error)))
        return None


async def _first_keys(client: "apify.ApifyClientAsync", store_id: str) -> tuple[str, ...]:
    page = await client.key_value_store(store_id).list_keys(limit=_DESCRIBED_KEYS)
    return tuple(item.key for item in page.items)


async def _actor_name(client: "apify.ApifyClientAsync", actor_id: str) -> str | None:
    found = await client.actor(actor_id).get()
    return f"{found.username}/{found.name}" if found else None


async def _nothing() -> None:
    return None


async def fetch_known_page(
    client: "apify.ApifyClientAsync", request: DatasetItemsInput, uncut: list[JsonValue] | None = None
) -> DatasetPage:
    """The page; `uncut` receives the rows before they are shortened. Raises `ToolFailure` for an unknown dataset."""
    try:
        return await fetch_page(client, request, uncut=uncut)
    except apify.NotFoundError:
        raise await explain_not_found(client, "dataset", request.dataset_id) from None
