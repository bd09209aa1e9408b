"""What both servers say of Actors that cost something, have many fields or need much memory, and of rows."""

import json
import re
from typing import Any

import pytest

from tests.contract.peer.conftest import Both, both_of
from tests.contract.peer.differences import (
    CONSOLE_ON_PURPOSE,
    LISTED_BESIDES,
    OUTPUTS_ON_PURPOSE,
    SCHEMAS_ON_PURPOSE,
)
from tests.contract.peer.shapes import differences, without_texts
from tests.contract.peer.test_answers import called, comparable, unexplained
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PRICED = ("tiered-events", "tiered-rows", "many-events", "sleeper")
NOTES = ("pricingNote", "eventDescriptionsNote")
"""Texts, which are each server's own words."""
VARIED = [
    {
        "at": "2027-01-31T12:00:00Z",
        "zone": "2027-01-31T12:00:00.5+02:00",
        "day": "2027-01-31",
        "id": "123e4567-e89b-42d3-a456-426614174000",
        "mail": "ann@example.com",
        "page": "https://example.com/a?b=1",
        "file": "ftp://example.com/a",
        "word": "none of these",
        "mixed": "2027-01-31",
        "loose": "2027-01-31 12:00:00",
        "deep": {"tags": ["a", "b"], "more": [{"url": "https://example.com"}]},
        "some": None,
        "count": 1,
    },
    {"mixed": "not a date", "some": "now", "count": 1.5, "deep": {"tags": []}, "only": True},
]


async def connected(both: Both, query: str) -> tuple[Wire, Wire]:
    wires = both.wires(LEGACY, query)
    for wire in wires:
        await wire.initialize()
    return wires


def with_marks(value: Any) -> Any:
    """The value with marks for texts that are each server's own."""
    if isinstance(value, list):
        return [with_marks(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {name: "TEXT" if name in NOTES else with_marks(entry) for name, entry in value.items()}


@pytest.mark.parametrize(
    "tier", ["GOLD", "none-of-these", *(pytest.param(tier, marks=pytest.mark.thorough) for tier in ("", "DIAMOND"))]
)
async def test_cards_have_the_same_prices_pictures_and_fields(service: Service, peer_url: str, tier: str) -> None:
    """To the value: a user pays by the tier of the plan."""
    user = service.sandbox.add_user(f"tier-{tier.lower() or 'unset'}", tier=tier)
    async with both_of(service, peer_url, user.token) as both:
        wires = await connected(both, "?tools=actors")
        found: dict[str, list[str]] = {}
        for name in PRICED:
            answers = [await called(wire, "search-actors", {"keywords": name}) for wire in wires]
            cards = [with_marks(answer["structuredContent"]) for answer in answers]
            assert cards[1]["count"] == 1
            assert cards[1]["userTier"] == (tier if tier in ("GOLD", "DIAMOND") else "FREE")
            found[f"search {name}"] = [*differences(cards[0]["actors"], cards[1]["actors"])]
            for output in ({}, {"pricing": True}, {"stats": True}, {"metadata": True, "rating": True}):
                arguments = {"actor": f"outlast/{name}", "output": output}
                details = [await called(wire, "fetch-actor-details", arguments) for wire in wires]
                infos = [with_marks(answer["structuredContent"]["actorInfo"]) for answer in details]
                found[f"details {name} {output}"] = [*differences(infos[0], infos[1])]
        assert {label: lines for label, lines in found.items() if lines} == {}


async def test_a_price_that_is_not_the_users_is_not_shown_as_it(service: Service, peer_url: str) -> None:
    user = service.sandbox.add_user("tier-shown", tier="SILVER")
    async with both_of(service, peer_url, user.token) as both:
        _, ours = await connected(both, "?tools=actors")
        card = (await called(ours, "search-actors", {"keywords": "tiered-events"}))["structuredContent"]["actors"][0]
        assert [event.get("priceUsd") for event in card["pricing"]["events"]] == [0.01, 0.003, None]
        assert "tier SILVER" in card["pricing"]["pricingNote"]
        rows = (await called(ours, "search-actors", {"keywords": "tiered-rows"}))["structuredContent"]["actors"][0]
        assert rows["pricing"]["pricePerUnit"] == 0.01  # It has no price for this tier, but one for the lowest.
        assert "tier FREE" in rows["pricing"]["pricingNote"]


async def test_tools_of_actors_have_their_pictures(both: Both) -> None:
    listed = []
    for wire in await connected(both, "?tools=outlast/heavy,outlast/tiered-events,outlast/sleeper"):
        tools = (await wire.request("tools/list"))["tools"]
        listed.append({tool["name"]: without_texts(tool) for tool in tools if tool["name"] not in LISTED_BESIDES})
    assert listed[0].keys() == listed[1].keys()
    assert {
        name: [*differences(tool, listed[1][name])] for name, tool in listed[0].items() if tool != listed[1][name]
    } == {}
    assert listed[1]["outlast--heavy"]["icons"][0]["src"].endswith("/heavy.png")
    assert "icons" not in listed[1]["outlast--sleeper"]


async def test_a_connection_that_cannot_run_an_actor_is_told_so(both: Both) -> None:
    """And of no tool that it has not."""
    sleeper = {"actor": "outlast/sleeper"}
    calls: dict[str, dict[str, Any]] = {
        "fetch-actor-details": {**sleeper, "output": {"description": True}},
        "fetch-actor-details-widget": sleeper,
        "search-actors": {"keywords": "sleeper"},
        "search-actors-widget": {"keywords": "sleeper"},
    }
    told: dict[str, list[tuple[str, int, bool]]] = {}
    for beside in ("docs", "outlast/sleeper", "outlast/heavy", "call-actor", "call-actor-widget"):
        wires = await connected(both, f"?ui=apps&tools=search-actors,fetch-actor-details,{beside}")
        told[beside] = []
        for tool, arguments in calls.items():
            answers = [await called(wire, tool, arguments) for wire in wires]
            assert len(answers[0]["content"]) == len(answers[1]["content"]), (beside, tool)
            words = [" ".join(block["text"] for block in answer["content"]) for answer in answers]
            cannot = [bool(re.search("cannot be run|can run only|cannot run", text)) for text in words]
            assert cannot[0] == cannot[1], (beside, tool)
            told[beside].append((tool, len(answers[1]["content"]), cannot[1]))
    runs = {beside: {cannot for *_, cannot in each} for beside, each in told.items()}
    assert runs == {
        "docs": {True},
        "outlast/sleeper": {False},
        "outlast/heavy": {True},
        "call-actor": {False},
        "call-actor-widget": {True},
    }
    _, alone = both.wires(MODERN, "?tools=fetch-actor-details")
    for output in ({"mcpTools": True}, {"pricing": True}):
        answer = await called(alone, "fetch-actor-details", {**sleeper, "output": output})
        assert "Run it with call-actor" not in answer["content"][0]["text"]
    lost = await called(alone, "fetch-actor-details", {"actor": "outlast/nothing-there"})
    assert "search-actors" not in lost["content"][0]["text"]
    _, found = both.wires(MODERN, "?tools=search-actors")
    assert "fetch-actor-details" not in json.dumps(await called(found, "search-actors", calls["search-actors"]))


async def test_sessions_of_the_console_get_no_links_into_it(service: Service, peer_url: str) -> None:
    user = service.sandbox.add_user("of-the-console", token=f"apify_ui_{'a1' * 18}")
    async with both_of(service, peer_url, user.token) as both:
        wires = both.wires(MODERN, "?tools=actors,runs,storage")
        begun = await called(wires[1], "call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0}})
        run = begun["structuredContent"]
        dataset, store = (run["storages"][kind]["default"]["id"] for kind in ("datasets", "keyValueStores"))
        calls: dict[str, dict[str, Any]] = {
            "get-actor-run": {"runId": run["runId"]},
            "get-dataset-items": {"datasetId": dataset},
            "get-dataset": {"datasetId": dataset},
            "get-key-value-store-record": {"keyValueStoreId": store, "recordKey": "INPUT"},
            "search-actors": {"keywords": "sleeper"},
        }
        found: set[str] = set()
        for tool, arguments in calls.items():
            theirs, ours = [await called(wire, tool, arguments) for wire in wires]
            assert "https://console.apify.com" in json.dumps(theirs), CONSOLE_ON_PURPOSE
            assert "console.apify.com" not in json.dumps(ours)
            lines = differences(comparable(theirs), comparable(ours))
            found |= {re.sub(r"/\d+", "", line.partition(":")[0]) for line in lines}
    assert found == {
        "/content",
        "/structuredContent/apifyConsoleUrl",
        "/structuredContent/storages/datasets/default/apifyConsoleUrl",
        "/structuredContent/storages/keyValueStores/default/apifyConsoleUrl",
    }


async def memory_of(service: Service, wire: Wire, name: str, arguments: dict[str, Any]) -> int:
    """The memory of the run of a call, in megabytes."""
    answer = await called(wire, name, arguments)
    assert "structuredContent" in answer, answer
    return service.sandbox.run(answer["structuredContent"]["runId"])["options"]["memoryMbytes"]


async def test_the_tool_of_an_actor_asks_for_no_more_memory_than_the_peers(both: Both, service: Service) -> None:
    """`call-actor` leaves it to the Actor, and to its caller."""
    wires = await connected(both, "?tools=actors,outlast/heavy")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("outlast--heavy", {}),
        ("call-actor", {"actor": "outlast/heavy", "input": {}}),
        ("call-actor", {"actor": "outlast/heavy", "input": {}, "callOptions": {"memory": 512}}),
    ]
    service.sandbox.limit(memoryMbytes=65_536)
    try:
        memory = [[await memory_of(service, wire, *call) for call in asked] for wire in wires]
    finally:
        service.sandbox.restore()
    assert memory == [[4096, 8192, 512]] * 2


async def test_a_dataset_has_the_same_schema(both: Both, service: Service) -> None:
    wires = await connected(both, "?tools=storage")
    dataset = service.sandbox.new_dataset(VARIED)
    for rows in (1, 2):
        answers = [await called(wire, "get-dataset-schema", {"datasetId": dataset, "limit": rows}) for wire in wires]
        schemas = [answer["structuredContent"]["schema"] for answer in answers]
        found = [line for line in differences(*schemas) if line.partition(":")[0] not in SCHEMAS_ON_PURPOSE]
        assert found == [], rows


async def test_what_an_actors_items_are_like(both: Both) -> None:
    wires = await connected(both, "?tools=actors")
    await called(wires[1], "call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0, "rows": 2}})
    given = {"actor": "outlast/sleeper", "output": {"outputSchema": True}}
    theirs, ours = [await called(wire, "fetch-actor-details", given) for wire in wires]
    assert [block["type"] for block in theirs["content"]] == [block["type"] for block in ours["content"]]
    for answer in (theirs, ours):
        assert answer["content"][0]["text"].startswith("# Output Schema")
        assert isinstance(answer["structuredContent"]["outputSchema"], dict)
    assert ours["structuredContent"]["outputSchema"]["index"] == "number"
    assert theirs["structuredContent"]["outputSchema"] == {}, OUTPUTS_ON_PURPOSE


async def test_what_a_run_writes_beside_its_default_storages_is_told(both: Both) -> None:
    """By alias, while it is called, afterwards, and where it is not waited for."""
    wires = await connected(both, "?tools=actors,outlast/aliased&ui=default")
    told = [await called(wire, "call-actor", {"actor": "outlast/aliased", "input": {}}) for wire in wires]
    runs = [answer["structuredContent"]["runId"] for answer in told]
    looked = [await called(wire, "get-actor-run", {"runId": run}) for wire, run in zip(wires, runs, strict=True)]
    by_tool = [await called(wire, "outlast--aliased", {}) for wire in wires]
    at_once = {"actor": "outlast/aliased", "input": {}, "waitSecs": 0}
    begun = [await called(wire, "call-actor", at_once) for wire in wires]
    for label, answers in (("a call", told), ("a run", looked), ("an Actor's own tool", by_tool)):
        assert unexplained(label, *answers) == []
    names = [{kind: list(found) for kind, found in answer["structuredContent"]["storages"].items()} for answer in begun]
    assert names[0] == names[1]
    storages = looked[1]["structuredContent"]["storages"]
    assert storages["datasets"]["errors"]["itemCount"] == 1
    assert storages["datasets"]["errors"]["fields"] == ["page", "reason"]
    assert storages["keyValueStores"]["pictures"]["keys"] == ["first"]
