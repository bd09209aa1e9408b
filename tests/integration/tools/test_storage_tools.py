"""Datasets and key-value stores as a model reads them."""

import base64
import json
from typing import Any

import pytest
from apify_client import ApifyClient

from tests.integration.tools.conftest import ToolCaller

PAGES = [
    {"url": "https://a.example", "crawl": {"statusCode": 200, "depth": 0}, "links": [{"href": "/b"}, {"href": "/c"}]},
    {"url": "https://b.example", "crawl": {"statusCode": 404}, "#debug": {"retries": 2}, "title": "B"},
    {"#only": "hidden"},
    {"url": "https://c.example", "crawl": {"statusCode": "blocked"}, "title": None},
]


@pytest.fixture
def dataset_id(platform: ApifyClient) -> str:
    dataset = platform.datasets().get_or_create()
    platform.dataset(dataset.id).push_items(PAGES)
    return dataset.id


@pytest.fixture
def store_id(platform: ApifyClient) -> str:
    store = platform.key_value_stores().get_or_create()
    client = platform.key_value_store(store.id)
    client.set_record("OUTPUT", {"answer": 42, "nothing": None})
    client.set_record("notes", "naïve words", content_type="text/plain; charset=utf-8")
    client.set_record("picture", b"\x89PNG tiny", content_type="image/png")
    return store.id


async def test_items_come_with_the_way_to_the_next_ones(call: ToolCaller, dataset_id: str) -> None:
    page = await call("get-dataset-items", datasetId=dataset_id, limit=2)
    assert page.structured["items"] == PAGES[:2]
    assert page.structured["nextOffset"] == 2
    assert f"call get-dataset-items with datasetId {dataset_id} and offset 2." in page.text
    last = await call("get-dataset-items", datasetId=dataset_id, offset=2)
    assert last.structured["items"] == PAGES[2:]
    assert "nextOffset" not in last.structured


async def test_dotted_fields_flatten_their_parents(call: ToolCaller, dataset_id: str) -> None:
    page = await call("get-dataset-items", datasetId=dataset_id, fields="url, crawl.statusCode", limit=1)
    assert page.structured["items"] == [{"url": "https://a.example", "crawl.statusCode": 200}]
    flat = await call("get-dataset-items", datasetId=dataset_id, flatten=["crawl"], omit="links", limit=1)
    assert flat.structured["items"] == [{"url": "https://a.example", "crawl.statusCode": 200, "crawl.depth": 0}]


async def test_a_clean_page_goes_on_where_it_really_ended(call: ToolCaller, dataset_id: str) -> None:
    page = await call("get-dataset-items", datasetId=dataset_id, clean=True, offset=1, limit=2)
    assert page.structured["items"] == [{key: value for key, value in PAGES[1].items() if key != "#debug"}]
    assert page.structured["nextOffset"] == 3
    assert "Empty rows left out: 1." in page.text


async def test_output_is_reduced_to_dot_paths(call: ToolCaller, dataset_id: str) -> None:
    page = await call(
        "get-actor-output", datasetId=dataset_id, fields="crawl.statusCode,links.href,links.1.href,no.way"
    )
    assert page.structured["items"] == [
        {"crawl.statusCode": 200, "links.href": ["/b", "/c"], "links.1.href": "/c"},
        {"crawl.statusCode": 404},
        {"crawl.statusCode": "blocked"},
    ]


async def test_output_is_found_by_the_run(call: ToolCaller, platform: ApifyClient) -> None:
    run = platform.actor("outlast/sleeper").call(run_input={"seconds": 0.1, "steps": 1}, logger=None)
    assert run is not None
    page = await call("get-actor-output", runId=run.id)
    assert page.structured["datasetId"] == run.default_dataset_id
    assert page.structured["totalItemCount"] == len(page.structured["items"]) > 0


async def test_output_wants_exactly_one_of_run_and_dataset(call: ToolCaller, dataset_id: str) -> None:
    assert await call.violations("get-actor-output") == [""]
    assert await call.violations("get-actor-output", runId="abcdefghijk", datasetId=dataset_id) == [""]


async def test_large_rows_end_a_page_early_and_one_too_large_is_shortened(
    call: ToolCaller, platform: ApifyClient
) -> None:
    dataset = platform.datasets().get_or_create()
    platform.dataset(dataset.id).push_items(
        [{"n": n, "text": "é" * 10_000} for n in range(5)] + [{"n": 5, "x": "y" * 99_000}]
    )
    first = await call("get-dataset-items", datasetId=dataset.id)
    assert (first.structured["itemCount"], first.structured["nextOffset"]) == (2, 2)
    huge = await call("get-dataset-items", datasetId=dataset.id, offset=5)
    assert len(huge.structured["items"][0]["x"]) < 20_000
    assert "Row 5 alone has 99" in huge.text
    assert "`fields`" in huge.text
    assert (await call("get-actor-output", datasetId=dataset.id, offset=5, fields="n")).structured["items"] == [
        {"n": 5}
    ]


async def test_a_dataset_is_described_and_listed(call: ToolCaller, platform: ApifyClient, dataset_id: str) -> None:
    described = await call("get-dataset", datasetId=dataset_id)
    assert described.structured["itemCount"] == 4
    assert {"url", "crawl"} <= set(described.structured["fields"])
    assert described.structured["sizeBytes"] > 0
    assert "get-dataset-items" in described.text
    named = platform.datasets().get_or_create(name="prices-of-tools")
    by_name = await call("get-dataset", datasetId="sandbox~prices-of-tools")
    assert by_name.structured["id"] == named.id
    listed = await call("get-dataset-list")
    assert [entry["id"] for entry in listed.structured["datasets"]] == [named.id]
    everything = await call("get-dataset-list", unnamed=True, limit=1)
    assert everything.structured["nextOffset"] == 1
    assert "call get-dataset-list with offset 1." in everything.text


async def test_a_schema_is_inferred_from_items(call: ToolCaller, dataset_id: str) -> None:
    answer = await call("get-dataset-schema", datasetId=dataset_id, limit=4)
    schema = answer.structured["itemSchema"]
    assert schema["required"] == ["url", "crawl"]
    assert set(schema["properties"]["crawl"]["properties"]["statusCode"]["type"]) == {"integer", "string"}
    assert set(schema["properties"]["title"]["type"]) == {"string", "null"}
    assert answer.structured["itemCount"] == 3
    assert json.loads(answer.text.splitlines()[1]) == schema


async def test_an_empty_dataset_has_no_schema_and_no_rows(call: ToolCaller, platform: ApifyClient) -> None:
    dataset_id = platform.datasets().get_or_create().id
    assert "is empty" in (await call("get-dataset-schema", datasetId=dataset_id)).text
    assert (await call("get-dataset-items", datasetId=dataset_id)).text == f"Dataset {dataset_id} is empty."
    assert (await call("get-actor-output", datasetId=dataset_id)).structured["totalItemCount"] == 0


async def test_a_store_its_keys_and_the_list_of_stores(call: ToolCaller, platform: ApifyClient, store_id: str) -> None:
    described = await call("get-key-value-store", keyValueStoreId=store_id)
    assert described.structured["sizeBytes"] > 0
    first = await call("get-key-value-store-keys", keyValueStoreId=store_id, limit=2)
    assert [entry["key"] for entry in first.structured["keys"]] == ["OUTPUT", "notes"]
    assert first.structured["nextExclusiveStartKey"] == "notes"
    rest = await call("get-key-value-store-keys", keyValueStoreId=store_id, exclusiveStartKey="notes")
    assert [entry["key"] for entry in rest.structured["keys"]] == ["picture"]
    assert "nextExclusiveStartKey" not in rest.structured
    by_prefix = await call("get-key-value-store-keys", keyValueStoreId=store_id, prefix="zzz")
    assert "has no keys that begin with 'zzz'" in by_prefix.text
    named = platform.key_value_stores().get_or_create(name="store-of-tools")
    listed = await call("get-key-value-store-list")
    assert [entry["id"] for entry in listed.structured["keyValueStores"]] == [named.id]


async def test_records_are_json_text_or_content_blocks(call: ToolCaller, store_id: str) -> None:
    record = await call("get-key-value-store-record", keyValueStoreId=store_id, recordKey="OUTPUT")
    assert record.structured["value"] == {"answer": 42, "nothing": None}
    text = await call("get-key-value-store-record", keyValueStoreId=store_id, recordKey="notes")
    assert text.structured["value"] == "naïve words"
    picture = await call("get-key-value-store-record", keyValueStoreId=store_id, recordKey="picture")
    assert picture.content[1]["type"] == "image"
    assert picture.content[1]["mimeType"] == "image/png"
    assert base64.b64decode(picture.content[1]["data"]) == b"\x89PNG tiny"


async def test_other_files_are_attached_when_small_and_linked_when_not(
    call: ToolCaller, platform: ApifyClient, store_id: str
) -> None:
    platform.key_value_store(store_id).set_record("small.zip", b"PK\x03", content_type="application/zip")
    platform.key_value_store(store_id).set_record("large.bin", bytes(80_000), content_type="application/octet-stream")
    small = await call("get-key-value-store-record", keyValueStoreId=store_id, recordKey="small.zip")
    assert small.content[1]["resource"] == {
        "uri": small.structured["url"],
        "mimeType": "application/zip",
        "blob": base64.b64encode(b"PK\x03").decode(),
    }
    large = await call("get-key-value-store-record", keyValueStoreId=store_id, recordKey="large.bin")
    link = large.content[1]
    assert (link["type"], link["size"], link["name"]) == ("resource_link", 80_000, "large.bin")
    assert link["uri"].endswith(f"/v2/key-value-stores/{store_id}/records/large.bin")


async def test_a_long_text_is_read_part_by_part(call: ToolCaller, platform: ApifyClient, store_id: str) -> None:
    text = "".join(f"line {n}: ünïcödé\n" for n in range(6_000))
    platform.key_value_store(store_id).set_record("long", text, content_type="text/plain; charset=utf-8")
    parts, offset = [], 0
    while True:
        arguments: dict[str, Any] = {"keyValueStoreId": store_id, "recordKey": "long", "offset": offset}
        part = await call("get-key-value-store-record", **arguments)
        parts.append(part.structured["value"])
        if "nextOffset" not in part.structured:
            break
        offset = part.structured["nextOffset"]
        assert f"offset {offset}" in part.text
    assert len(parts) > 2
    assert "".join(parts) == text


async def test_a_record_whose_charset_gives_no_text_is_read_as_utf_8(
    call: ToolCaller, platform: ApifyClient, store_id: str
) -> None:
    platform.key_value_store(store_id).set_record("odd", b"plain words", content_type="text/plain; charset=hex")
    record = await call("get-key-value-store-record", keyValueStoreId=store_id, recordKey="odd")
    assert record.structured["value"] == "plain words"


async def test_utf_16_is_read_from_an_offset_on(call: ToolCaller, platform: ApifyClient, store_id: str) -> None:
    text = "naïve words".encode("utf-16")
    platform.key_value_store(store_id).set_record("wide", text, content_type="text/plain; charset=utf-16")
    mark_and_six_letters = 2 + 2 * 6
    record = await call(
        "get-key-value-store-record", keyValueStoreId=store_id, recordKey="wide", offset=mark_and_six_letters
    )
    assert record.structured["value"] == "words"


async def test_ids_that_lead_nowhere_say_why(
    call: ToolCaller, platform: ApifyClient, dataset_id: str, store_id: str
) -> None:
    run = platform.actor("outlast/sleeper").call(run_input={"seconds": 0.1, "steps": 1}, logger=None)
    assert run is not None
    unknown = await call("get-dataset-items", datasetId="abcdefghijklmnopq")
    assert unknown.error is not None
    assert unknown.error["category"] == "not_found"
    of_run = await call("get-dataset", datasetId=run.id)
    assert f"its dataset is {run.default_dataset_id}" in of_run.text
    store = await call("get-actor-output", datasetId=store_id)
    assert "It is the id of a key-value store." in store.text
    dataset = await call("get-key-value-store-keys", keyValueStoreId=dataset_id)
    assert "It is the id of a dataset." in dataset.text
    record = await call("get-key-value-store-record", keyValueStoreId=store_id, recordKey="nothing")
    assert "Its keys are: OUTPUT, notes, picture." in record.text
    assert (await call("get-key-value-store-record", keyValueStoreId=dataset_id, recordKey="x")).error is not None


@pytest.mark.parametrize("bad", ["", "..", "a/b/c", "../users/me", "x?token=1", "a b"])
async def test_what_cannot_be_an_id_is_refused_before_anything_is_asked(call: ToolCaller, bad: str) -> None:
    assert await call.violations("get-dataset", datasetId=bad) == ["/datasetId"]
    assert await call.violations("get-key-value-store", keyValueStoreId=bad) == ["/keyValueStoreId"]
