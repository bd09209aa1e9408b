"""Large outputs through every front door of a real stack: stored, told, restored, refused."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from tests.support.calls.tasks import completed, events, started
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

ALICE, BOB = bearer("alice-key-0123456789"), bearer("bob-key-0123456789ab")
ROWS = 400


def table_call(rows: int = ROWS, **more: Any) -> dict[str, Any]:
    return {
        "tool": "call-actor",
        "arguments": {"actor": "outlast/big-table", "input": {"rows": rows, "columns": "narrow"}},
        **more,
    }


async def stored(api: httpx.AsyncClient, headers: dict[str, str], **more: Any) -> dict[str, Any]:
    """The structured answer of a call whose rows were stored."""
    answer = await completed(api, table_call(**more), **headers)
    assert answer["task"]["status"] == "completed", answer
    return answer["result"]["structured"]


async def restored(api: httpx.AsyncClient, headers: dict[str, str], **arguments: Any) -> dict[str, Any]:
    answer = await completed(api, {"tool": "restore-tool-output", "arguments": arguments}, **headers)
    return answer["result"]


@pytest.fixture
async def shared_api(
    temporal: Client, service: Service, sandbox: Sandbox, tmp_path: Path
) -> AsyncIterator[httpx.AsyncClient]:
    """An API with two callers who reach all of the account, on the store of the service's worker."""
    policy = tmp_path / "policy.toml"
    policy.write_text('[defaults]\nreach = "account"\n')
    settings = api_settings(
        sandbox,
        policy_file=policy,
        api_keys="alice:alice-key-0123456789,bob:bob-key-0123456789ab",
        store_url=str(service.folder / "outputs"),
    )
    async with serving_api(temporal, settings) as api:
        yield api


async def test_a_large_dataset_is_told_in_a_summary_and_comes_back_whole(
    shared_api: httpx.AsyncClient, service: Service
) -> None:
    report = await stored(shared_api, ALICE)
    locator = report["locator"]
    assert report["compressed"] is True
    assert locator in report["summary"]
    assert "price number 100%" in report["summary"]
    assert report["storages"]["datasets"]["default"]["itemCount"] == ROWS
    assert 0 < len(report["items"]) < ROWS
    assert report["output"]["count"] == ROWS
    assert "restore-tool-output" in report["nextStep"]
    whole = await shared_api.get(f"/v1/outputs/{locator}", headers=ALICE)
    assert (whole.status_code, len(whole.content)) == (200, report["output"]["sizeBytes"])
    rows = [json.loads(line) for line in whole.text.splitlines()]
    assert [row["id"] for row in rows] == list(range(ROWS))


async def test_rows_that_fit_are_answered_whole_and_not_stored(shared_api: httpx.AsyncClient) -> None:
    report = await stored(shared_api, ALICE, rows=3)
    assert "locator" not in report
    assert [row["id"] for row in report["items"]] == [0, 1, 2]
    assert report["storages"]["datasets"]["default"]["itemsSchema"]["type"] == "object"
    assert "INPUT" in report["storages"]["keyValueStores"]["default"]["keys"]


async def test_parts_by_rest(shared_api: httpx.AsyncClient) -> None:
    locator = (await stored(shared_api, ALICE))["locator"]
    url = f"/v1/outputs/{locator}"

    async def lines(**params: Any) -> list[Any]:
        response = await shared_api.get(url, headers=ALICE, params=params)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("application/x-ndjson")
        return [json.loads(line) for line in response.text.splitlines()]

    assert [row["id"] for row in await lines(offset=100, limit=3)] == [100, 101, 102]
    assert await lines(offset=ROWS - 1, fields="id") == [{"id": ROWS - 1}]
    dear = await lines(filter="price > `1000`", fields="id,price")
    assert dear
    assert all(row["price"] > 1000 for row in dear)
    assert await lines(query="id", offset=5, limit=2) == [5, 6]
    part = await shared_api.get(url, headers={**ALICE, "Range": "bytes=5-14"})
    assert (part.status_code, len(part.content)) == (206, 10)
    size = int(part.headers["content-range"].rpartition("/")[2])
    end = await shared_api.get(url, headers={**ALICE, "Range": "bytes=-7"})
    assert end.headers["content-range"] == f"bytes {size - 7}-{size - 1}/{size}"
    beyond = await shared_api.get(url, headers={**ALICE, "Range": f"bytes={size}-"})
    assert beyond.status_code == 416
    huge = "9" * 5_000
    for header, status in {
        f"bytes={huge}-": 416,
        f"bytes={huge}-{huge}": 416,
        f"bytes=0-{huge}": 206,
        f"bytes=-{huge}": 206,
        f"bytes={'0' * 5_000}5-14": 206,
        "bytes=-0": 416,
        "bytes=-5-9": 200,
        "bytes=14-5": 416,
        "bytes=" + ",".join(f"{place}-{place}" for place in range(2_000)): 200,
        "bytes=a-b": 200,
    }.items():
        answer = await shared_api.get(url, headers={**ALICE, "Range": header})
        assert answer.status_code == status, header[:40]


async def test_a_model_restores_what_it_needs(shared_api: httpx.AsyncClient) -> None:
    locator = (await stored(shared_api, ALICE))["locator"]
    page = (await restored(shared_api, ALICE, locator=locator, offset=390, limit=100, fields="id"))["structured"]
    assert page["items"] == [{"id": number} for number in range(390, ROWS)]
    assert "nextOffset" not in page
    first = (await restored(shared_api, ALICE, locator=locator, maxBytes=1000))["structured"]
    assert 0 < first["nextOffset"] == len(first["items"])
    match = await restored(shared_api, ALICE, locator=locator, filter="id == `77`", fields="id")
    assert match["structured"]["items"] == [{"id": 77}]
    assert '{"id":77}' in match["content"][0]["text"]
    wrong = await restored(shared_api, ALICE, locator=locator, filter="id ==")
    assert wrong["is_error"]
    assert wrong["error"]["category"] == "validation"


async def test_the_same_output_of_the_same_tool_call_has_the_same_locator(
    shared_api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    dataset = sandbox.new_dataset([{"n": number, "text": "x" * 50} for number in range(100)])
    body = {
        "tool": "get-dataset-items",
        "arguments": {"datasetId": dataset, "limit": 100},
        "session_id": "conversation",
        "message_id": "message",
        "tool_call_id": "call",
        "options": {"output": {"threshold_bytes": 1000}},
    }
    first, again = [(await completed(shared_api, body, **ALICE))["result"] for _ in range(2)]
    assert first["locator"] == again["locator"] == first["structured"]["locator"]
    assert first["structured"]["summary"] == again["structured"]["summary"]
    other = (await completed(shared_api, {**body, "message_id": "another"}, **ALICE))["result"]
    assert other["locator"] != first["locator"]
    items = (await restored(shared_api, ALICE, locator=first["locator"], query="items[98].n"))["structured"]
    assert items["value"] == 98


async def test_every_refusal_has_its_own_problem(
    shared_api: httpx.AsyncClient, service: Service, sandbox: Sandbox
) -> None:
    locator = (await stored(shared_api, ALICE))["locator"]

    async def problem(path: str, headers: dict[str, str] = ALICE) -> tuple[int, str]:
        response = await shared_api.get(f"/v1/outputs/{path}", headers=headers)
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["error"]["hint"]
        return response.status_code, response.json()["type"].removeprefix("urn:outlast:problem:")

    assert await problem("out_nonsense") == (400, "output-malformed")
    assert await problem(locator, BOB) == (403, "output-foreign")
    assert (await restored(shared_api, BOB, locator=locator))["error"]["category"] == "permission"
    assert await problem(f"{locator}?filter=price%20%3E") == (422, "output-bad-selection")
    (part,) = (service.folder / "outputs" / "parts").rglob(f"{_task_of(locator, service)}*/*.zst")
    intact = part.read_bytes()
    part.write_bytes(intact[:100] + bytes([intact[100] ^ 1]) + intact[101:])
    assert await problem(locator) == (500, "output-damaged")
    assert (await restored(shared_api, ALICE, locator=locator))["error"]["category"] == "filesystem"
    part.write_bytes(intact)
    assert (await shared_api.delete(f"/v1/outputs/{locator}", headers=BOB)).status_code == 403
    assert (await shared_api.delete(f"/v1/outputs/{locator}", headers=ALICE)).status_code == 204
    assert await problem(locator) == (410, "output-deleted")
    assert (await restored(shared_api, ALICE, locator=locator))["error"]["category"] == "not_found"


async def test_events_and_tasks_tell_the_locator(shared_api: httpx.AsyncClient) -> None:
    shared_api.headers.update(ALICE)
    task_id = await started(shared_api, table_call())
    told = {event.name: event.data async for event in events(shared_api, task_id)}
    locator = told["output_stored"]["locator"]
    for name in ("output_stored", "handler_returned", "task_completed"):
        assert told[name]["compressed"] is True
        assert told[name]["locator"] == locator
        assert "rows" in told[name]["summary"]


async def test_with_compression_off_rows_are_answered_up_to_the_limit_and_refused_above_it(
    temporal: Client, sandbox: Sandbox
) -> None:
    for settings in ({"compression": False}, {"kill_switch": True, "compression": True}):
        async with serving_api(temporal, api_settings(sandbox, output_inline_limit_bytes=20_000, **settings)) as api:
            answer = await completed(api, table_call(rows=50))
            assert len(answer["result"]["structured"]["items"]) == 50
            assert "compressed" not in answer["result"]["structured"]
            refused = (await completed(api, table_call(rows=ROWS)))["result"]
            assert refused["is_error"]
            assert "with compression off" in refused["error"]["message"]
            dataset = refused["structured"]["storages"]["datasets"]["default"]["id"]
            assert dataset in refused["error"]["hint"]


async def test_one_call_may_be_without_compression_or_with_another_threshold(
    shared_api: httpx.AsyncClient, service: Service
) -> None:
    plain = await stored(shared_api, ALICE, rows=50, options={"output": {"compress": False}})
    assert (len(plain["items"]), "locator" in plain) == (50, False)
    roomy = await stored(shared_api, ALICE, rows=50, options={"output": {"threshold_bytes": 100_000}})
    assert (len(roomy["items"]), "locator" in roomy) == (50, False)
    tight = await stored(shared_api, ALICE, rows=2, options={"output": {"threshold_bytes": 100}})
    assert tight["output"]["count"] == 2


async def test_a_large_record_is_stored_and_a_small_one_shown(shared_api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    store = (await stored(shared_api, ALICE, rows=1))["storages"]["keyValueStores"]["default"]["id"]
    async with httpx.AsyncClient(base_url=sandbox.url, trust_env=False, timeout=180) as http:
        for key, size in (("SMALL", 100), ("LARGE", 200_000)):
            url = f"/v2/key-value-stores/{store}/records/{key}"
            headers = {"Authorization": f"Bearer {sandbox.token}", "Content-Type": "application/json"}
            (await http.put(url, json={"data": list(range(size))}, headers=headers)).raise_for_status()

    async def record(key: str) -> dict[str, Any]:
        body = {
            "tool": "get-key-value-store-record",
            "arguments": {"keyValueStoreId": store, "recordKey": key},
        }
        return (await completed(shared_api, body, **ALICE))["result"]

    assert (await record("SMALL"))["structured"]["value"]["data"][99] == 99
    large = await record("LARGE")
    assert large["structured"]["compressed"] is True
    found = await restored(shared_api, ALICE, locator=large["locator"], query="data[-1]")
    assert found["structured"]["value"] == 199_999


def _task_of(locator: str, service: Service) -> str:
    _, scope, name, _ = locator.split("_")
    manifest = Path(service.folder, "outputs", "manifests", scope, f"{name}.json")
    return json.loads(manifest.read_bytes())["task_id"]
