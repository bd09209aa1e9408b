"""Datasets, key-value stores and request queues through the real client."""

import csv
import gzip
import io
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from apify_client import ApifyClientAsync
from apify_client.errors import ApifyApiError

from tests.integration.sandbox.server import TOKEN, SandboxServer

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
ROWS = [
    {"name": "first", "size": 1, "#internal": "x", "address": {"city": "Prague", "zip": "110 00"}},
    {},
    {"name": "second, with a comma", "size": 2, "tags": ["a", "b"]},
    {"name": 'third "quoted"', "size": None, "#internal": "y"},
]


@pytest.fixture
async def dataset_id(client: ApifyClientAsync) -> str:
    dataset = await client.datasets().get_or_create()
    await client.dataset(dataset.id).push_items(ROWS)
    return dataset.id


def posted(url: str, body: bytes, encoding: str) -> httpx.Response:
    return httpx.post(url, content=body, headers={**HEADERS, "Content-Encoding": encoding}, timeout=180)


async def test_rows_come_back_in_order_or_reversed(client: ApifyClientAsync, dataset_id: str) -> None:
    page = await client.dataset(dataset_id).list_items()
    assert page.items == ROWS
    assert (page.total, page.offset, page.count, page.limit, page.desc) == (4, 0, 4, 999_999_999_999, False)
    page = await client.dataset(dataset_id).list_items(offset=1, limit=2, desc=True)
    assert page.items == [ROWS[2], ROWS[1]]
    assert (page.total, page.offset, page.count, page.limit, page.desc) == (4, 1, 2, 2, True)
    assert (await client.dataset(dataset_id).list_items(offset=9)).items == []


async def test_rows_are_reshaped(client: ApifyClientAsync, dataset_id: str) -> None:
    dataset = client.dataset(dataset_id)
    assert (await dataset.list_items(fields=["size", "name"], limit=1)).items == [{"size": 1, "name": "first"}]
    assert (await dataset.list_items(fields=["address.city"], limit=1)).items == [{"address.city": "Prague"}]
    omitted = await dataset.list_items(omit=["address", "#internal"], limit=1)
    assert omitted.items == [{"name": "first", "size": 1}]
    clean = (await dataset.list_items(clean=True)).items
    assert len(clean) == 3, "the empty row is skipped"
    assert not any("#internal" in item for item in clean)
    flat = await dataset.list_items(flatten=["address"], limit=1)
    assert flat.items[0]["address.zip"] == "110 00"
    unwound = await dataset.list_items(unwind=["tags"], offset=2, limit=1)
    assert [item["tags"] for item in unwound.items] == ["a", "b"]


async def test_rows_as_json_lines_and_csv(client: ApifyClientAsync, dataset_id: str) -> None:
    lines = await client.dataset(dataset_id).get_items_as_bytes(item_format="jsonl")
    assert [json.loads(line) for line in lines.splitlines()] == ROWS
    text = (await client.dataset(dataset_id).get_items_as_bytes(item_format="csv", clean=True)).decode("utf-8-sig")
    table = list(csv.DictReader(io.StringIO(text)))
    assert table[0]["address/city"] == "Prague"
    assert table[1]["name"] == "second, with a comma"
    assert table[1]["tags/1"] == "b"
    assert (table[2]["name"], table[2]["size"]) == ('third "quoted"', "")
    with pytest.raises(ApifyApiError, match="json, jsonl, csv"):
        await client.dataset(dataset_id).get_items_as_bytes(item_format="xlsx")


async def test_a_dataset_knows_its_size_and_fields(client: ApifyClientAsync, dataset_id: str) -> None:
    dataset = await client.dataset(dataset_id).get()
    assert dataset is not None
    assert dataset.item_count == 4
    assert dataset.fields == ["name", "size", "#internal", "address", "tags"]
    await client.dataset(dataset_id).get_statistics()
    await client.dataset(dataset_id).delete()
    assert await client.dataset(dataset_id).get() is None


@pytest.mark.parametrize("body", [b"no json", b'["text"]', b"7"])
async def test_what_is_no_row_is_refused_as_a_whole(sandbox: SandboxServer, dataset_id: str, body: bytes) -> None:
    answer = posted(f"{sandbox.url}/v2/datasets/{dataset_id}/items", body, "identity")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid-input")


async def test_a_compressed_body(sandbox: SandboxServer, client: ApifyClientAsync, dataset_id: str) -> None:
    url = f"{sandbox.url}/v2/datasets/{dataset_id}/items"
    packed = gzip.compress(b'{"packed": true}')
    assert posted(url, packed, "gzip").status_code == 201
    assert posted(url, packed, "zstd").status_code == 415
    assert posted(url, b"plain", "gzip").status_code == 400
    assert (await client.dataset(dataset_id).list_items(desc=True, limit=1)).items == [{"packed": True}]
    brotli = sandbox.client(compression="brotli")
    await brotli.dataset(dataset_id).push_items([{"text": "x" * 5000}])
    assert (await client.dataset(dataset_id).list_items(desc=True, limit=1)).items[0]["text"] == "x" * 5000


async def test_any_part_of_a_large_dataset_is_near(client: ApifyClientAsync) -> None:
    dataset = await client.datasets().get_or_create()
    total = 30_000
    for start in range(0, total, 10_000):
        await client.dataset(dataset.id).push_items([{"n": n, "text": "y" * 200} for n in range(start, start + 10_000)])
    for offset in (0, 255, 256, 257, 9_999, 29_990):
        page = await client.dataset(dataset.id).list_items(offset=offset, limit=5)
        assert [item["n"] for item in page.items] == list(range(offset, offset + 5))
        page = await client.dataset(dataset.id).list_items(offset=offset, limit=300, desc=True)
        expected = list(range(total - 1 - offset, max(-1, total - 1 - offset - 300), -1))
        assert [item["n"] for item in page.items] == expected
    everything = await client.dataset(dataset.id).list_items(fields=["n"])
    assert [item["n"] for item in everything.items] == list(range(total))


async def test_a_named_storage_is_made_once(client: ApifyClientAsync) -> None:
    first = await client.datasets().get_or_create(name="prices")
    again = await client.datasets().get_or_create(name="prices")
    assert first.id == again.id
    by_name = await client.dataset("sandbox/prices").get()
    assert by_name is not None
    assert by_name.id == first.id
    listed = await client.datasets().list()
    assert "prices" in [item.name for item in listed.items]
    assert all(item.name for item in listed.items), "only named ones, unless asked"
    assert (await client.datasets().list(unnamed=True)).total > listed.total
    other = await client.datasets().get_or_create(name="costs")
    with pytest.raises(ApifyApiError, match="already"):
        await client.dataset(other.id).update(name="prices")


async def test_records_of_any_type(client: ApifyClientAsync) -> None:
    store = client.key_value_store((await client.key_value_stores().get_or_create()).id)
    large = os.urandom(3_000_000)
    await store.set_record("json", {"a": [1, 2]})
    await store.set_record("text", "naïve", content_type="text/plain; charset=utf-8")
    await store.set_record("large", large, content_type="image/png")
    await store.set_record("odd/key (1)", b"\x00\x01")

    async def value(key: str) -> Any:
        record = await store.get_record(key)
        return None if record is None else record["value"]

    assert await value("json") == {"a": [1, 2]}
    assert await value("text") == "naïve"
    assert await value("large") == large
    assert await value("odd/key (1)") == b"\x00\x01"
    assert await store.record_exists("text")
    await store.delete_record("text")
    assert not await store.record_exists("text")
    assert await value("text") is None
    await store.set_record("json", {"a": "new"})
    assert await value("json") == {"a": "new"}


async def test_keys_are_paged(client: ApifyClientAsync) -> None:
    store = client.key_value_store((await client.key_value_stores().get_or_create()).id)
    for key in ("b2", "a1", "b1", "c1"):
        await store.set_record(key, key)
    page = await store.list_keys(limit=2)
    assert ([item.key for item in page.items], page.is_truncated) == (["a1", "b1"], True)
    page = await store.list_keys(limit=2, exclusive_start_key=page.next_exclusive_start_key)
    assert ([item.key for item in page.items], page.is_truncated) == (["b2", "c1"], False)
    assert [item.key for item in (await store.list_keys(prefix="b")).items] == ["b1", "b2"]
    assert [item.key async for item in store.iterate_keys(chunk_size=1)] == ["a1", "b1", "b2", "c1"]


async def test_a_request_queue_keeps_order_and_handles_each_request_once(client: ApifyClientAsync) -> None:
    queue = client.request_queue((await client.request_queues().get_or_create()).id)
    requests = [{"url": f"https://example.com/{n}", "unique_key": f"key-{n}"} for n in range(4)]
    added = await queue.batch_add_requests(requests)  # pyright: ignore[reportArgumentType]
    assert len(added.processed_requests) == 4
    again = await queue.add_request({"url": "https://example.com/0", "unique_key": "key-0"})
    assert again.was_already_present
    await queue.add_request({"url": "https://example.com/first", "unique_key": "first"}, forefront=True)
    head = await queue.list_head()
    assert [item.unique_key for item in head.items] == ["first", "key-0", "key-1", "key-2", "key-3"]

    request = await queue.get_request(head.items[0].id)
    assert request is not None
    await queue.update_request(request.model_copy(update={"handled_at": datetime.now(UTC)}))
    assert [item.unique_key for item in (await queue.list_head(limit=1)).items] == ["key-0"]
    resource = await queue.get()
    assert resource is not None
    assert (resource.total_request_count, resource.handled_request_count) == (5, 1)
    assert len((await queue.list_requests()).items) == 5


async def test_a_locked_request_is_hidden_from_other_clients(client: ApifyClientAsync) -> None:
    queue_id = (await client.request_queues().get_or_create()).id
    one = client.request_queue(queue_id, client_key="one")
    two = client.request_queue(queue_id, client_key="two")
    for n in range(3):
        await one.add_request({"url": f"https://example.com/{n}", "unique_key": f"key-{n}"})
    locked = await one.list_and_lock_head(lock_duration=timedelta(seconds=60), limit=2)
    assert [item.unique_key for item in locked.items] == ["key-0", "key-1"]
    others = await two.list_and_lock_head(lock_duration=timedelta(seconds=60))
    assert [item.unique_key for item in others.items] == ["key-2"]
    with pytest.raises(ApifyApiError, match="locked by another"):
        await two.delete_request_lock(locked.items[0].id)
    assert await one.prolong_request_lock(locked.items[0].id, lock_duration=timedelta(seconds=90))
    await one.delete_request_lock(locked.items[1].id)
    assert (await two.list_and_lock_head(lock_duration=timedelta(seconds=60))).items[0].unique_key == "key-1"
    assert (await two.unlock_requests()).unlocked_count == 2
