"""Rows and records with whole numbers beyond 64 bits and with hundreds of levels: each is read, and none hangs."""

import json
from typing import Any

import httpx
import pytest
from apify_client import ApifyClient

from outlast.activities.json_values import NESTED_NOTE
from tests.integration.tools.conftest import ToolAnswer, ToolCaller
from tests.integration.tools.test_invalid_text import as_apify, put
from tests.support.http.mcp_wire import MODERN, Wire, text_of
from tests.support.stacks.sandbox import Sandbox

BIG: dict[str, Any] = {
    "id": 10**29 + 1,
    "ids": [2**64, -(2**63) - 1, {"nested": 12345678901234567890123}],
    "float": 0.1,
    "text": "12345678901234567890123",
}
LEVELS = (99, 150, 240, 250, 260, 500, 900)
"""From 240 on, a step of the workflow that read such a row failed again and again, until its deadline."""


def nested(levels: int, kind: str = "list") -> str:
    """A row whose field `deep` has so many levels."""
    begin, end = ("[", "]") if kind == "list" else ('{"k":', "}")
    return f'{{"name": "deep", "deep": {begin * levels}1{end * levels}}}'


def parsed(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the value of its deep field."""
    return {**row, "deep": json.loads(row["deep"]) if isinstance(row["deep"], str) else row["deep"]}


def dataset_of(platform: ApifyClient, sandbox: Sandbox, *rows: str) -> str:
    dataset = platform.datasets().get_or_create().id
    for row in rows:
        put(sandbox, f"datasets/{dataset}/items", row.encode())
    return dataset


async def ran(call: ToolCaller, *rows: str) -> ToolAnswer:
    """The answer to a run that writes these rows."""
    answer = await call("call-actor", actor="outlast/cutter", input={"rows": f"[{','.join(rows)}]"})
    assert answer.error is None
    return answer


@pytest.mark.parametrize("tool", ["get-dataset-items", "get-actor-output"])
async def test_numbers_of_rows_are_exact(call: ToolCaller, platform: ApifyClient, sandbox: Sandbox, tool: str) -> None:
    dataset = dataset_of(platform, sandbox, json.dumps(BIG))
    answer = await call(tool, datasetId=dataset)
    assert answer.structured["items"] == [BIG]
    assert str(BIG["id"]) in answer.text
    if tool == "get-actor-output":
        some = await call(tool, datasetId=dataset, fields="id,ids.2.nested")
        assert some.structured["items"] == [{"id": BIG["id"], "ids.2.nested": BIG["ids"][2]["nested"]}]


async def test_numbers_of_rows_are_exact_in_the_apify_mode_and_over_mcp(
    http: httpx.AsyncClient, platform: ApifyClient, sandbox: Sandbox
) -> None:
    dataset = dataset_of(platform, sandbox, json.dumps(BIG))
    assert (await as_apify(http, "get-dataset-items", datasetId=dataset))["items"] == [BIG]
    result = await Wire(http, MODERN, "?tools=get-dataset-items").request(
        "tools/call", {"name": "get-dataset-items", "arguments": {"datasetId": dataset}}
    )
    assert result["structuredContent"]["items"] == [BIG]
    assert str(BIG["id"]) in text_of(result)


async def test_numbers_of_a_paid_run_are_exact_at_once_and_restored(call: ToolCaller) -> None:
    few = await ran(call, json.dumps(BIG))
    assert few.structured["items"] == [BIG]
    stored = await ran(call, *[json.dumps(BIG)] * 100)
    locator = stored.structured["locator"]
    selections: list[tuple[dict[str, Any], Any]] = [
        ({"limit": 1}, BIG),
        ({"limit": 1, "fields": "id"}, {"id": BIG["id"]}),
        ({"limit": 1, "query": "ids"}, BIG["ids"]),
        ({"limit": 1, "filter": "id > `5`"}, BIG),
    ]
    for selection, expected in selections:
        restored = await call("restore-tool-output", locator=locator, **selection)
        assert restored.structured["items"] == [expected]


async def test_numbers_of_records_are_exact(
    call: ToolCaller, http: httpx.AsyncClient, platform: ApifyClient, sandbox: Sandbox
) -> None:
    store = platform.key_value_stores().get_or_create().id
    put(sandbox, f"key-value-stores/{store}/records/big", json.dumps(BIG).encode())
    record = await call("get-key-value-store-record", keyValueStoreId=store, recordKey="big")
    assert record.structured["value"] == BIG
    assert (await as_apify(http, "get-key-value-store-record", keyValueStoreId=store, recordKey="big"))["value"] == BIG
    put(sandbox, f"key-value-stores/{store}/records/many", json.dumps([BIG] * 500).encode())
    stored = await call("get-key-value-store-record", keyValueStoreId=store, recordKey="many")
    restored = await call("restore-tool-output", locator=stored.structured["locator"], query="[3].id")
    assert restored.structured["value"] == BIG["id"]


@pytest.mark.parametrize("kind", ["list", "object"])
async def test_a_field_with_too_many_levels_is_a_text_and_the_rest_are_values(
    call: ToolCaller, http: httpx.AsyncClient, platform: ApifyClient, sandbox: Sandbox, kind: str
) -> None:
    for levels in LEVELS:
        deep = nested(levels, kind)
        dataset = dataset_of(platform, sandbox, deep, '{"name": "last"}')
        expected = [json.loads(deep), {"name": "last"}]
        for tool in ("get-dataset-items", "get-actor-output"):
            answer = await call(tool, datasetId=dataset)
            is_text = levels >= 100
            first, last = answer.structured["items"]
            assert isinstance(first["deep"], str) is is_text
            assert [parsed(first), last] == expected
            assert (NESTED_NOTE in answer.text) is is_text
        of_apify = await as_apify(http, "get-dataset-items", datasetId=dataset)
        assert of_apify["items"] == [first, last]
        assert (NESTED_NOTE in of_apify["summary"]) is is_text
        named = await call("get-actor-output", datasetId=dataset, fields="name")
        assert named.structured["items"] == [{"name": "deep"}, {"name": "last"}]
        assert (await call("get-dataset-schema", datasetId=dataset)).error is None


async def test_a_paid_run_ends_with_rows_of_too_many_levels(call: ToolCaller) -> None:
    for levels in (240, 500):
        deep = nested(levels, "object")
        few = await ran(call, deep)
        assert [parsed(row) for row in few.structured["items"]] == [json.loads(deep)]
        assert NESTED_NOTE in few.text
        stored = await ran(call, deep, '{"name": "long", "text": "' + "x" * 8_000 + '"}')
        locator = stored.structured["locator"]
        names: list[dict[str, Any]] = [{"fields": "name"}, {"query": "{name: name}"}]
        for selection in names:
            restored = await call("restore-tool-output", locator=locator, **selection)
            assert restored.structured["items"] == [{"name": "deep"}, {"name": "long"}]
        for selection in [{"query": "deep"}, {"limit": 1}, {"fields": "deep"}, {"limit": 1, "query": "@"}]:
            restored = await call("restore-tool-output", locator=locator, **selection)
            assert restored.error is None
            assert restored.structured["items"][0]


async def test_a_record_with_too_many_levels_is_a_text(
    call: ToolCaller, platform: ApifyClient, sandbox: Sandbox
) -> None:
    store = platform.key_value_stores().get_or_create().id
    for levels in (*LEVELS, 2_000):
        deep = nested(levels)
        put(sandbox, f"key-value-stores/{store}/records/deep", deep.encode())
        record = await call("get-key-value-store-record", keyValueStoreId=store, recordKey="deep")
        assert record.structured["value"] == (deep if levels >= 100 else json.loads(deep))


async def test_a_row_of_very_many_fields_is_named_as_left_out_and_not_as_empty(
    call: ToolCaller, platform: ApifyClient, sandbox: Sandbox
) -> None:
    row = json.dumps({f"field-{number}": number for number in range(40_000)})
    answer = await call("get-dataset-items", datasetId=dataset_of(platform, sandbox, row, '{"name": "last"}'))
    assert "it is left out" in answer.text
    assert "Empty rows" not in answer.text
    assert answer.structured["nextOffset"] == 1
