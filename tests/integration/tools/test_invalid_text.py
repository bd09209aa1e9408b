"""Rows, records and answers with halves of characters, as crawlers write them: read at once, and said."""

from typing import Any

import httpx
import pytest
from apify_client import ApifyClient

from outlast.activities.unicode_text import NOTE
from tests.integration.tools.conftest import ToolCaller
from tests.support.stacks.sandbox import Sandbox

ROWS = b'[{"text": "caf\\ud83d", "\\ude00": [{"n\\u0000": "\\ud83d\\ude00"}]}, {"text": "whole"}]'
CLEANED: list[Any] = [{"text": "caf\ufffd", "\ufffd": [{"n\ufffd": "😀"}]}, {"text": "whole"}]
TOOLBOX = "outlast/toolbox"


def put(sandbox: Sandbox, path: str, body: bytes, content_type: str = "application/json") -> None:
    """Write to the platform as a client of its own does."""
    headers = {"Authorization": f"Bearer {sandbox.token}", "Content-Type": content_type}
    method = "PUT" if "/records/" in path else "POST"
    httpx.request(method, f"{sandbox.url}/v2/{path}", content=body, headers=headers, timeout=180).raise_for_status()


async def as_apify(http: httpx.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool in the mode `apify`."""
    answer = await http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments, "mode": "apify"})
    return answer.json()["result"]["structured"]


@pytest.fixture
def dataset_id(platform: ApifyClient, sandbox: Sandbox) -> str:
    dataset = platform.datasets().get_or_create()
    put(sandbox, f"datasets/{dataset.id}/items", ROWS)
    return dataset.id


@pytest.mark.parametrize("tool", ["get-dataset-items", "get-actor-output", "get-dataset-schema"])
async def test_a_dataset_is_read_with_replacements(call: ToolCaller, dataset_id: str, tool: str) -> None:
    answer = await call(tool, datasetId=dataset_id)
    assert answer.error is None
    assert NOTE in answer.text
    assert answer.structured.get("items", CLEANED) == CLEANED


@pytest.mark.parametrize("tool", ["get-dataset-items", "get-dataset-schema"])
async def test_the_apify_mode_reads_it_too(http: httpx.AsyncClient, dataset_id: str, tool: str) -> None:
    answer = await as_apify(http, tool, datasetId=dataset_id)
    assert NOTE in answer["summary"]
    assert answer.get("items", CLEANED) == CLEANED


async def test_only_what_was_replaced_is_noted(call: ToolCaller, dataset_id: str) -> None:
    answer = await call("get-dataset-items", datasetId=dataset_id, offset=1)
    assert answer.structured["items"] == CLEANED[1:]
    assert NOTE not in answer.text


async def test_a_paid_run_ends_with_its_rows(call: ToolCaller) -> None:
    answer = await call("call-actor", actor="outlast/cutter", input={"text": "caf@half@", "@half@": 1})
    assert answer.error is None
    assert answer.structured["items"] == [{"text": "caf\ufffd", "\ufffd": 1}]
    assert NOTE in answer.text
    looked_up = await call("get-actor-run", runId=answer.structured["runId"])
    assert looked_up.error is None
    record = await call(
        "get-key-value-store-record",
        keyValueStoreId=answer.structured["storages"]["keyValueStores"]["default"]["id"],
        recordKey="OUTPUT",
    )
    assert record.structured["value"] == {"text": "caf\ufffd", "\ufffd": 1}
    assert NOTE in record.text


async def test_many_rows_are_stored_with_replacements(call: ToolCaller, http: httpx.AsyncClient) -> None:
    stored = await call("call-actor", actor="outlast/cutter", input={"text": "caf@half@", "long": "x" * 8_000})
    assert NOTE in stored.structured["summary"]
    restored = await call("restore-tool-output", locator=stored.structured["locator"], query="text")
    assert restored.structured["items"] == ["caf\ufffd"]


async def test_records_are_read_with_replacements(
    call: ToolCaller, http: httpx.AsyncClient, platform: ApifyClient, sandbox: Sandbox
) -> None:
    store = platform.key_value_stores().get_or_create().id
    path = f"key-value-stores/{store}/records"
    put(sandbox, f"{path}/json", ROWS)
    put(sandbox, f"{path}/bytes", b'{"a": "\xed\xa0\xbd\xff"}')
    put(sandbox, f"{path}/text", b"caf\xff \0 \\ud83d", "text/plain")
    expected = {"json": CLEANED, "bytes": {"a": "\ufffd\ufffd"}, "text": "caf\ufffd \ufffd \\ud83d"}
    for key, value in expected.items():
        record = await call("get-key-value-store-record", keyValueStoreId=store, recordKey=key)
        assert record.structured["value"] == value
        assert NOTE in record.text
        same = await as_apify(http, "get-key-value-store-record", keyValueStoreId=store, recordKey=key)
        assert same["value"] == value
        assert NOTE in same["summary"]


async def test_an_answer_of_an_mcp_server_keeps_its_rest(http: httpx.AsyncClient) -> None:
    arguments = {"actor": f"{TOOLBOX}:count.calls", "input": {"times": 1, "note": "caf@half@"}}
    answer = await http.post("/v1/tools/call-actor/call", json={"arguments": arguments})
    assert answer.json()["result"]["structured"]["arguments"] == {"times": 1, "note": "caf\ufffd"}


def large_rows(platform: ApifyClient) -> str:
    """A dataset with a row that fits in no answer before it is shortened, and one that does not then either."""
    dataset = platform.datasets().get_or_create().id
    names = {f"field {number:06} {'n' * 40}": number for number in range(10_000)}
    long: dict[str, Any] = {"name": "long", "text": "x" * 900_000, "list": list(range(90))}
    for row in ({"name": "first"}, long, names, {"name": "last"}):
        platform.dataset(dataset).push_items([row])
    return dataset


@pytest.mark.parametrize("tool", ["get-dataset-items", "get-actor-output"])
async def test_every_page_gets_past_a_row_that_fits_in_none(call: ToolCaller, platform: ApifyClient, tool: str) -> None:
    dataset, offsets, seen, texts = large_rows(platform), [0], list[Any](), ""
    while True:
        page = await call(tool, datasetId=dataset, offset=offsets[-1], limit=3)
        seen += page.structured["items"]
        texts += page.text
        if "nextOffset" not in page.structured:
            break
        offsets.append(page.structured["nextOffset"])
        assert offsets[-1] > offsets[-2]
    assert [row["name"] for row in seen] == ["first", "long", "last"]
    assert seen[1]["text"].endswith("… (900000 characters)")
    assert "Row 1 alone has 900" in texts
    assert "Row 2 alone has 6" in texts
    assert "more than an answer may have: it is left out." in texts


async def test_the_apify_mode_gets_past_it_too(http: httpx.AsyncClient, platform: ApifyClient) -> None:
    dataset = large_rows(platform)
    shortened = await as_apify(http, "get-dataset-items", datasetId=dataset, offset=1)
    assert [row["name"] for row in shortened["items"]] == ["long"]
    assert "Row 1 alone has 900" in shortened["summary"]
    assert "offset=2" in shortened["nextStep"]
    left_out = await as_apify(http, "get-dataset-items", datasetId=dataset, offset=2)
    assert (left_out["items"], "offset=3" in left_out["nextStep"]) == ([], True)
