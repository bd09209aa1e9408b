"""Batches for a model: the four tools over MCP, in both protocol versions and both modes that have them."""

import asyncio
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent, TextResourceContents, Tool

from tests.support.calls.batches import begun, doubles, ended, rows_of, seen, sleepers
from tests.support.http.mcp_wire import MODERN
from tests.support.stacks.service import Service

TOOLS = {"start-batch", "get-batch", "get-batch-results", "cancel-batch"}
SLEEPS_BACKWARDS = {"actor": "outlast/sleeper", "input": {"seconds": -1}}
CONNECTIONS = pytest.mark.parametrize(("revision", "mode"), [("legacy", "default"), (MODERN, "openai")])


def client(service: Service, revision: str = MODERN, mode: str = "default", tools: str = "batches,actors") -> Client:
    return Client(f"{service.api_url}/mcp?tools={tools}&actors=&mode={mode}", mode=revision)


async def called(mcp: Client, name: str, /, **arguments: Any) -> tuple[dict[str, Any], str]:
    """The answer's structured content and its text."""
    result = await mcp.call_tool(name, arguments)
    said = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
    assert not result.is_error, said
    return result.structured_content or {}, said


async def refused(mcp: Client, name: str, /, **arguments: Any) -> str:
    """What the answer to a call says that is an error."""
    result = await mcp.call_tool(name, arguments)
    assert result.is_error
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def expect_widget(mcp: Client, listed: dict[str, Tool], *, shown: bool) -> None:
    """The UI mode shows a live batch, whose page may call what it needs; other modes show nothing."""
    metas = {name: listed[name].meta or {} for name in TOOLS}
    assert {meta.get("openai/widgetAccessible") for meta in metas.values()} == ({True} if shown else {None})
    pages = {metas[name].get("ui", {}).get("resourceUri") for name in ("start-batch", "get-batch")}
    if not shown:
        assert pages == {None}
        return
    [content] = (await mcp.read_resource(pages.pop())).contents
    assert isinstance(content, TextResourceContents)
    assert "get-batch-results" in content.text


@CONNECTIONS
async def test_a_model_starts_a_batch_waits_and_reads_its_rows(service: Service, revision: str, mode: str) -> None:
    async with client(service, revision, mode) as mcp:
        listed = {tool.name: tool for tool in (await mcp.list_tools()).tools}
        assert listed.keys() >= TOOLS
        assert listed["get-batch"].annotations is not None
        assert listed["get-batch"].annotations.read_only_hint
        await expect_widget(mcp, listed, shown=mode == "openai")
        begun_batch, text = await called(mcp, "start-batch", **sleepers(3, name="three"))
        batch_id = begun_batch["batch"]["id"]
        assert batch_id in text
        batch = begun_batch["batch"]
        while batch["status"] == "working":
            batch = (await called(mcp, "get-batch", batchId=batch_id, waitSecs=50))[0]["batch"]
        assert (batch["status"], batch["completed"], batch["name"]) == ("completed", 3, "three")
        first, text = await called(mcp, "get-batch-results", batchId=batch_id, limit=2)
        assert first["nextOffset"] == 2
        assert "offset 2" in text
        rest, text = await called(mcp, "get-batch-results", batchId=batch_id, offset=2)
        assert "offset" not in text
        assert "nextOffset" not in rest
        assert sorted(row["key"] for row in [*first["items"], *rest["items"]]) == ["s0", "s1", "s2"]
        assert (await called(mcp, "get-batch-results", batchId=batch_id, status="failed"))[0]["items"] == []


async def test_rows_that_are_stored_become_items(service: Service, api: httpx.AsyncClient) -> None:
    source = await ended(api, await begun(api, sleepers(2)))
    mapping = {"input.message": "key"}
    common = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "steps": 1}}
    async with client(service) as mcp:
        started, _ = await called(
            mcp,
            "start-batch",
            tool="call-actor",
            arguments=common,
            locator=source["results"],
            mapping=mapping,
            key="key",
        )
        batch = await ended(api, started["batch"]["id"])
        rows = await rows_of(api, batch["id"])
    assert {row["key"]: row["items"][0]["message"] for row in rows} == {"s0": "s0", "s1": "s1"}


async def test_a_model_has_what_was_answered_before_taken_again_within_a_limit_for_each_item(
    service: Service, api: httpx.AsyncClient
) -> None:
    wanted = {**sleepers(2, 0.1), "reuseMaxAge": "6h", "budgetUsd": 1, "itemBudgetUsd": 0.25}
    async with client(service) as mcp:
        first = await ended(api, (await called(mcp, "start-batch", **wanted))[0]["batch"]["id"])
        runs = service.sandbox.counters["startsAccepted"]
        again = await ended(api, (await called(mcp, "start-batch", **wanted))[0]["batch"]["id"])
        rows = (await called(mcp, "get-batch-results", batchId=again["id"]))[0]["items"]
    assert (first["completed"], again["completed"]) == (2, 2)
    assert service.sandbox.counters["startsAccepted"] == runs
    assert {row["task_id"] for row in rows} == {row["task_id"] for row in await rows_of(api, first["id"])}
    limits = {service.sandbox.run(row["run_id"])["options"]["maxTotalChargeUsd"] for row in rows}
    assert limits == {0.25}


async def test_a_model_chooses_options_by_their_names_everywhere(service: Service, api: httpx.AsyncClient) -> None:
    options = {"max_usd": 0.5, "max_items": 7, "order": "given", "stop": {"failures": 3}}
    async with client(service) as mcp:
        batch = (await called(mcp, "start-batch", **sleepers(1, 0.1), options=options))[0]["batch"]
        assert (batch["options"]["order"], batch["options"]["stop"]["failures"]) == ("given", 3)
        await ended(api, batch["id"])
        [row] = await rows_of(api, batch["id"])
    run = service.sandbox.run(row["run_id"])["options"]
    assert (run["maxTotalChargeUsd"], run["maxItems"]) == (0.5, 7)


async def test_options_of_the_calling_program_apply_to_each_item(service: Service, api: httpx.AsyncClient) -> None:
    meta: Any = {"outlast/options": {"max_usd": 0.5, "budget": {"max_items": 7}}}
    async with client(service) as mcp:
        wanted = sleepers(1, 0.1)
        started = (await mcp.call_tool("start-batch", wanted, meta=meta)).structured_content or {}
        await ended(api, started["batch"]["id"])
        [row] = await rows_of(api, started["batch"]["id"])
        twice = await mcp.call_tool("start-batch", {**wanted, "options": {"max_usd": 5}}, meta=meta)
    run = service.sandbox.run(row["run_id"])["options"]
    assert (run["maxTotalChargeUsd"], run["maxItems"]) == (0.5, 7)
    assert twice.is_error
    assert "'max_total_charge_usd'" in str(twice.content)


async def test_a_model_cancels_a_batch_and_what_is_under_way(service: Service, api: httpx.AsyncClient) -> None:
    async with client(service) as mcp:
        batch_id = (await called(mcp, "start-batch", **sleepers(3, 600)))[0]["batch"]["id"]
        assert "no results" in (await called(mcp, "get-batch-results", batchId=batch_id))[1].lower() or not (
            await rows_of(api, batch_id)
        )
        await called(mcp, "cancel-batch", batchId=batch_id)
        batch = await ended(api, batch_id)
    assert (batch["status"], batch["cancelled"]) == ("cancelled", 3)


async def test_the_same_key_meets_the_same_batch(service: Service, api: httpx.AsyncClient) -> None:
    meta: Any = {"outlast/idempotency-key": "a batch of a model"}
    async with client(service) as mcp:
        answers = await asyncio.gather(*(mcp.call_tool("start-batch", sleepers(1), meta=meta) for _ in range(3)))
    ids = {(answer.structured_content or {})["batch"]["id"] for answer in answers}
    assert len(ids) == 1
    assert (await seen(api, ids.pop()))["total"] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (doubles(1), "There is no tool 'double' on this connection"),
        ({"tool": "start-batch", "items": [{"arguments": {}}]}, "start-batch"),
        ({"tool": "call-actor"}, "one of them"),
        ({"tool": "call-actor", "items": [{}], "datasetId": "x"}, "one of them"),
        ({"tool": "call-actor", "items": []}, "items"),
        (
            {"tool": "call-actor", "items": [{"arguments": {"actor": "outlast/sleeper", "input": {"seconds": -1}}}]},
            "-1",
        ),
        ({"tool": "call-actor", "items": [{"key": "a"}, {"key": "a"}], "arguments": {"actor": "outlast/sleeper"}}, "a"),
        ({"tool": "call-actor", "datasetId": "no-such-dataset"}, "Dataset was not found"),
        ({"tool": "call-actor", "locator": "out_no-such-output"}, "not the locator of a stored output"),
        ({"tool": "call-actor", "items": [{}], "budgetUsd": -1}, "budgetUsd"),
        ({"tool": "call-actor", "items": [{}], "reuseMaxAge": "a while"}, "reuseMaxAge"),
        ({"tool": "call-actor", "items": [{}], "reuseMaxAge": "6h", "budgetUsd": 1}, "itemBudgetUsd"),
        ({"tool": "call-actor", "items": [{}], "itemBudgetUsd": 1, "options": {"max_usd": 2}}, "`max_usd`"),
        ({"tool": "call-actor", "items": [{}], "options": {"max_usdd": 2}}, "did you mean 'max_usd'?"),
        ({"tool": "call-actor", "items": [{}], "options": {"resurrect": 99}}, "10"),
        ({"tool": "call-actor", "items": [{}], "options": {"webhooks": []}}, "webhooks"),
    ],
)
async def test_what_cannot_be_a_batch_is_refused_in_words(
    service: Service, api: httpx.AsyncClient, arguments: dict[str, Any], says: str
) -> None:
    async def known() -> list[str]:
        return [batch["id"] for batch in (await api.get("/v1/batches")).json()["batches"]]

    async with client(service) as mcp:
        before = await known()
        assert says in await refused(mcp, "start-batch", **arguments)
        assert sorted(await known()) == sorted(before)


async def test_batches_of_others_are_unknown(service: Service, api: httpx.AsyncClient) -> None:
    """Of another account, told by its token."""
    mine = await begun(api, sleepers(1))
    token = service.sandbox.add_user("stranger-with-batches").token
    async with httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=180
    ) as strange:
        transport = streamable_http_client(f"{service.api_url}/mcp?tools=batches", http_client=strange)
        async with Client(transport, mode=MODERN) as mcp:
            for name in ("get-batch", "get-batch-results", "cancel-batch"):
                assert mine in await refused(mcp, name, batchId=mine)
    assert (await ended(api, mine))["completed"] == 1
