"""Searching Actors and looking them up, in both modes: what comes back, and what to do next."""

import json

import httpx
import jsonschema
import pytest
from apify_client import ApifyClient

from tests.integration.tools.conftest import ToolCaller

SHIPPED = {
    "outlast/an-actor-whose-name-is-longer-than-names-of-tools-may-be",
    "outlast/big-table",
    "outlast/cutter",
    "outlast/hostile",
    "outlast/older-toolbox",
    "outlast/rough-server",
    "outlast/site-crawler",
    "outlast/sleeper",
    "outlast/toolbox",
}


async def test_a_search_answers_with_cards_and_pages(call: ToolCaller) -> None:
    page = await call("search-actors", limit=4)
    assert page.structured["total"] == len(SHIPPED)
    assert (page.structured["count"], page.structured["nextOffset"]) == (4, 4)
    rest = await call("search-actors", limit=5, offset=4)
    assert "nextOffset" not in rest.structured
    cards = [*page.structured["actors"], *rest.structured["actors"]]
    assert {card["fullName"] for card in cards} == SHIPPED
    assert page.text.startswith("Actors 1 to 4 of 9.")
    assert "search again with offset 4" in page.text
    assert "call-actor" in page.text


async def test_keywords_choose_and_nothing_found_says_what_to_try(call: ToolCaller) -> None:
    found = await call("search-actors", keywords="crawl pages")
    assert [card["title"] for card in found.structured["actors"]] == ["Site crawler"]
    assert "## Site crawler (`outlast/site-crawler`)" in found.text
    assert "Price: Free" in found.text
    nothing = await call("search-actors", keywords="submarines")
    assert nothing.structured["actors"] == []
    assert nothing.text.startswith("No Actors found for “submarines”.")
    assert await call.violations("search-actors", limit=0, offset=-1) == ["/limit", "/offset"]


async def test_details_hold_input_readme_price_and_usage(call: ToolCaller) -> None:
    answer = await call("fetch-actor-details", actor="outlast~big-table")
    report = answer.structured
    assert report["actor"]["fullName"] == "outlast/big-table"
    jsonschema.Draft202012Validator.check_schema(report["inputSchema"])
    assert report["inputSchema"]["properties"]["columns"]["enum"] == ["narrow", "standard", "wide"]
    assert report["outputSchemaSource"] == "declared", "no run yet, so the Actor's own declaration"
    assert "### README" in answer.text
    assert report["readme"].strip() in answer.text
    assert "Run it with call-actor, actor `outlast/big-table`" in answer.text
    missing = await call("fetch-actor-details", actor="nobody/nothing")
    assert missing.error is not None
    assert missing.error["category"] == "not_found"


async def test_the_output_is_inferred_from_rows_of_recent_runs(call: ToolCaller, platform: ApifyClient) -> None:
    platform.actor("outlast/sleeper").call(run_input={"seconds": 0, "rows": 3, "steps": 1}, logger=None)
    report = (await call("fetch-actor-details", actor="outlast/sleeper")).structured
    assert report["outputSchemaSource"] == "recent_runs"
    assert report["outputSchema"]["properties"]["index"] == {"type": "integer"}


async def test_parts_of_the_details_can_be_left_out(call: ToolCaller) -> None:
    lean = await call("fetch-actor-details", actor="outlast/sleeper", output={"readme": False, "outputSchema": False})
    assert not lean.structured.keys() & {"readme", "outputSchema"}
    assert "README" not in lean.text
    assert len(lean.text) < 6_000


async def listed(http: httpx.AsyncClient, mode: str) -> dict[str, dict]:
    answer = await http.get("/v1/tools", params={"mode": mode})
    return {tool["name"]: tool for tool in answer.raise_for_status().json()["tools"]}


@pytest.mark.parametrize(
    ("tool", "arguments", "is_widget"),
    [
        ("search-actors", {"keywords": "sleeper"}, True),
        ("search-actors-internal", {"keywords": "sleeper"}, False),
        ("fetch-actor-details", {"actor": "outlast/sleeper"}, True),
        ("fetch-actor-details-internal", {"actor": "outlast/sleeper"}, False),
    ],
)
async def test_the_ui_mode_answers_briefly_and_links_a_widget_or_none(
    http: httpx.AsyncClient, tool: str, arguments: dict[str, str], is_widget: bool
) -> None:
    answer = await http.post(f"/v1/tools/{tool}/call", json={"mode": "openai", "arguments": arguments})
    result = answer.raise_for_status().json()["result"]
    definition = (await listed(http, "openai"))[tool]
    jsonschema.validate(result["structured"], definition["output_schema"])
    text = result["content"][0]["text"]
    assert "outlast/sleeper" in text
    assert len(text) < 4_500
    linked = "openai/outputTemplate" in result["meta"]
    assert linked is is_widget
    assert definition["category"] == ("actors" if is_widget else "ui")
    assert ("inputSchema" in json.dumps(result["structured"])) is ("details" in tool)


async def test_silent_look_ups_are_offered_in_the_ui_mode_only(http: httpx.AsyncClient) -> None:
    default, openai = await listed(http, "default"), await listed(http, "openai")
    assert openai.keys() - default.keys() == {"search-actors-internal", "fetch-actor-details-internal"}
    assert not default.keys() - openai.keys()
    assert all(openai[name]["category"] == tool["category"] for name, tool in default.items())
