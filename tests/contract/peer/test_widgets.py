"""Widgets beside those of the peer: `_meta` of tools, answers and pages; what the tools answer and refuse."""

import json
from typing import Any

import pytest

from tests.contract.peer.conftest import Both, both_of
from tests.contract.peer.differences import LEFT_OUT_OF_META, LEFT_OUT_OF_PAGES, OWN_WORDS_OF_META
from tests.contract.peer.shapes import differences, shape_of
from tests.contract.peer.test_actors import PRICED, with_marks
from tests.contract.peer.test_answers import beginning, called, unexplained
from tests.contract.peer.test_lists import SHOWS_APPS, listed
from tests.contract.peer.test_resources import read
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN, Wire
from tests.support.paths import ROOT
from tests.support.stacks.service import Service
from tests.support.x402_wallet import Wallet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REVISIONS = pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
QUERY = "?ui=apps&tools=actors,runs,call-actor-widget,get-actor-run-widget"
WIDGETS = ("search-actors-widget", "fetch-actor-details-widget", "call-actor-widget", "get-actor-run-widget")
PAGES = ("ui://widget/search-actors.html", "ui://widget/actor-run.html")
SLEEPER = "outlast/sleeper"
LONG: dict[str, Any] = {"actor": SLEEPER, "input": {"seconds": 300, "steps": 10}}
UNKNOWN = "nothingHere12345x"
REFUSED: dict[str, tuple[str, dict[str, Any] | None]] = {
    "many results": ("search-actors-widget", {"limit": 11}),
    "details without an Actor": ("fetch-actor-details-widget", {}),
    "details of an unknown Actor": ("fetch-actor-details-widget", {"actor": "outlast/nothing-there"}),
    "an empty Actor": ("fetch-actor-details-widget", {"actor": ""}),
    "no input": ("call-actor-widget", {"actor": SLEEPER}),
    "no arguments": ("call-actor-widget", None),
    "input that does not fit": ("call-actor-widget", {"actor": SLEEPER, "input": {"seconds": "x"}}),
    "an unknown Actor": ("call-actor-widget", {"actor": "outlast/nothing-there", "input": {}}),
    "a tool of an MCP server": ("call-actor-widget", {"actor": f"{SLEEPER}:tool", "input": {}}),
    "little memory": ("call-actor-widget", {"actor": SLEEPER, "input": {}, "callOptions": {"memory": 1}}),
    "no run": ("get-actor-run-widget", {}),
    "an unknown run": ("get-actor-run-widget", {"runId": UNKNOWN}),
}


async def connected(both: Both, revision: str, query: str = QUERY) -> tuple[Wire, Wire]:
    wires = both.wires(revision, query)
    if revision == LEGACY:
        for wire in wires:
            await wire.initialize()
    return wires


def without_own_words(meta: dict[str, Any]) -> dict[str, Any]:
    """`_meta` of a widget, without what each server says or allows in its own way."""
    kept = {key: value for key, value in meta.items() if key not in {*OWN_WORDS_OF_META, *LEFT_OUT_OF_META, "ui"}}
    policy = {key: shape_of(value) for key, value in meta["ui"]["csp"].items()}
    return {**kept, "ui": {**meta["ui"], "csp": dict.fromkeys(policy), "prefersBorder": None}}


@REVISIONS
async def test_tools_and_pages_are_linked_by_the_same_keys(both: Both, revision: str) -> None:
    wires = await connected(both, revision)
    tools = [
        {tool["name"]: tool.get("_meta") for tool in (await wire.request("tools/list"))["tools"]} for wire in wires
    ]
    pages = [
        {page["uri"]: page for page in (await wire.request("resources/list"))["resources"] if page["uri"] in PAGES}
        for wire in wires
    ]
    assert list(pages[0]) == list(pages[1]) == list(PAGES)
    for name in WIDGETS:
        theirs, mine = [each[name] for each in tools]
        assert theirs.keys() - mine.keys() == LEFT_OUT_OF_META.keys()
        assert without_own_words(mine) == without_own_words(theirs)
    for uri in PAGES:
        entries = [each[uri] for each in pages]
        assert entries[0].keys() == entries[1].keys()
        assert [entry["mimeType"] for entry in entries] == ["text/html;profile=mcp-app"] * 2
        assert entries[0]["name"] == entries[1]["name"]
        contents = [(await read(wire, uri))["contents"][0] for wire in wires]
        assert contents[0].keys() - contents[1].keys() == LEFT_OUT_OF_PAGES.keys()
        for theirs, mine in (entries, contents):
            assert without_own_words(mine["_meta"]) == without_own_words(theirs["_meta"])
        assert contents[1]["text"].startswith("<!doctype html>")
        allowed = entries[1]["_meta"]["ui"]["csp"]
        assert allowed["connectDomains"] == [], "the host calls for the page"
        assert set(allowed["resourceDomains"]) <= set(entries[0]["_meta"]["ui"]["csp"]["resourceDomains"])
    assert {name: meta for name, meta in tools[1].items() if meta and name not in WIDGETS} == {}


async def test_pages_have_the_sizes_that_the_documentation_tells(both: Both) -> None:
    (theirs, _), ours = [
        [len((await read(wire, uri))["contents"][0]["text"].encode()) for uri in PAGES]
        for wire in await connected(both, MODERN)
    ]
    told = " ".join((ROOT / "docs" / "from-apify-mcp.md").read_text().split())
    assert f"have {max(ours) / 1000:.0f} KB instead of {theirs / 1e6:.1f} MB" in told


@REVISIONS
async def test_a_page_that_there_is_not_is_told_in_words(both: Both, revision: str) -> None:
    apps, none = await connected(both, revision), await connected(both, revision, "?ui=default&tools=actors")
    for uri in ("ui://widget/nothing.html", "ui://widget/", f"{PAGES[0]}?x=1", "ui://widget/../x"):
        theirs, mine = [(await read(wire, uri))["contents"] for wire in apps]
        assert [shape_of(each) for each in mine] == [shape_of(each) for each in theirs]
        told = [entry["text"].partition(". ")[0] for entry in (*theirs, *mine)]
        assert (mine[0]["uri"], mine[0]["mimeType"], told[1]) == (uri, "text/plain", told[0])
    for uri in ("ui://other/x.html", "UI://widget/search-actors.html", "ui:///widget/search-actors.html"):
        theirs, mine = [await read(wire, uri) for wire in apps]
        assert mine == theirs
    for uri in (PAGES[0], "ui://widget/nothing.html"):
        theirs, mine = [await read(wire, uri) for wire in none]
        assert mine == theirs
    refused = [await called(wire, WIDGETS[0], {}) for wire in none]
    assert beginning("", refused[1]) == beginning("", refused[0])


@REVISIONS
async def test_answers_have_the_same_keys_types_and_blocks(both: Both, revision: str) -> None:
    wires = await connected(both, revision)
    ended = [await called(wire, "call-actor", {"actor": SLEEPER, "input": {"seconds": 0, "rows": 3}}) for wire in wires]
    run = ended[0]["structuredContent"]["runId"]
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "a search": (WIDGETS[0], {"keywords": "sleeper", "limit": "2", "unknown": 1}),
        "a search for the most used": (WIDGETS[0], {}),
        "a search in vain": (WIDGETS[0], {"keywords": "no such thing at all"}),
        "details": (WIDGETS[1], {"actor": SLEEPER}),
        "details with more": (WIDGETS[1], {"actor": SLEEPER, "output": {"readme": False}}),
        "a call": (WIDGETS[2], LONG),
        "a call with a wait": (WIDGETS[2], {**LONG, "waitSecs": 5}),
        "a run": (WIDGETS[3], {"runId": run}),
    }
    found: dict[str, list[str]] = {}
    for label, (name, arguments) in calls.items():
        answers = [await called(wire, name, arguments) for wire in wires]
        found[label] = unexplained(label, *(without_page(answer) for answer in answers))
        linked = [answer.get("_meta", {}).get("ui", {}).get("resourceUri") for answer in answers]
        assert linked[0] == linked[1], label
        if name == WIDGETS[2]:
            assert [answer["structuredContent"]["status"] for answer in answers] == ["READY", "READY"]
            for answer in answers:
                stop = {"runId": answer["structuredContent"]["runId"]}
                looked = await called(wires[1], WIDGETS[3], stop)
                assert looked["structuredContent"]["status"] in ("READY", "RUNNING")
                assert "runId=" not in looked["structuredContent"]["nextStep"], "the page follows the run"
                await called(wires[1], "abort-actor-run", stop)
    assert {label: lines for label, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "tier", ["GOLD", *(pytest.param(tier, marks=pytest.mark.thorough) for tier in ("", "none-of-these"))]
)
async def test_pages_are_told_the_same_of_an_actor(service: Service, peer_url: str, tier: str) -> None:
    """To the value: prices by the tier of the user's plan, pictures, use."""
    user = service.sandbox.add_user(f"shown-{tier.lower() or 'unset'}", tier=tier)
    async with both_of(service, peer_url, user.token) as both:
        wires = await connected(both, MODERN)
        found: dict[str, list[str]] = {}
        for name in PRICED:
            searches = [await called(wire, WIDGETS[0], {"keywords": name}) for wire in wires]
            shown = [with_marks(answer["structuredContent"]) for answer in searches]
            for part in ("actors", "widgetActors", "userTier"):
                found[f"search {name} {part}"] = [*differences(shown[0][part], shown[1][part])]
            details = [await called(wire, WIDGETS[1], {"actor": f"outlast/{name}"}) for wire in wires]
            infos = [with_marks(answer["structuredContent"]["actorDetails"]["actorInfo"]) for answer in details]
            found[f"details {name}"] = [*differences(infos[0], infos[1])]
        assert {label: lines for label, lines in found.items() if lines} == {}


def without_page(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer whose `_meta` has of its page only what both servers have."""
    meta = {key: value for key, value in answer.get("_meta", {}).items() if key not in LEFT_OUT_OF_META}
    policy = {"openai/widgetCSP", "ui"} & meta.keys()
    return {**answer, **({"_meta": {**meta, **{key: {} for key in policy}}} if meta else {})}


@REVISIONS
async def test_calls_that_are_refused_are_refused_alike(both: Both, service: Service, revision: str) -> None:
    wires = await connected(both, revision)
    starts = service.sandbox.counters["startsAccepted"]
    found: dict[str, Any] = {}
    for label, (name, arguments) in REFUSED.items():
        refused = [await called(wire, name, arguments) for wire in wires]
        theirs, mine = [beginning(label, answer) for answer in refused]
        if theirs != mine:
            found[label] = (theirs, mine)
        assert "ui" not in refused[1].get("_meta", {}), "an error has no page"
    for status, kind, message in ((402, "not-enough-usage-to-run-paid-actor", "No money."), (403, "forbidden", "No.")):
        service.sandbox.order_fault("status", method="POST", path="/runs$", status=status, type=kind, message=message)
        try:
            refused = [await called(wire, WIDGETS[2], LONG) for wire in wires]
        finally:
            service.sandbox.restore()
        if beginning("", refused[0]) != beginning("", refused[1]):
            found[kind] = refused
    assert found == {}
    assert service.sandbox.counters["startsAccepted"] == starts


async def test_a_shown_call_is_no_task_for_its_client_and_one_paid_run_for_us(both: Both, service: Service) -> None:
    wires = await connected(both, LEGACY)
    refused = [await called(wire, WIDGETS[2], LONG, task={"ttl": 60_000}) for wire in wires]
    assert beginning("", refused[1]) == beginning("", refused[0])
    _, ours = wires
    service.sandbox.order_fault("drop_after", path="/runs$", method="POST", times=1)
    before = service.sandbox.counters["startsAccepted"]
    try:
        shown = await called(ours, WIDGETS[2], {"actor": SLEEPER, "input": {"seconds": 0.5}})
    finally:
        service.sandbox.clear_faults()
    assert service.sandbox.counters["startsAccepted"] == before + 1
    run_id = shown["structuredContent"]["runId"]

    async def succeeded() -> bool:
        looked = await called(ours, "get-actor-run", {"runId": run_id})
        return looked["structuredContent"]["status"] == "SUCCEEDED"

    await eventually(succeeded)
    kept = await ours.request("tasks/result", {"taskId": shown["_meta"]["outlast/taskId"]})
    assert kept["structuredContent"] == shown["structuredContent"]
    # A client with tasks of the newer version gets the answer that the page needs, and no task.
    _, modern = await connected(both, MODERN)
    call = {"name": WIDGETS[2], "arguments": {"actor": SLEEPER, "input": {"seconds": 0}}}
    direct = await modern.request("tools/call", call, capabilities={**KNOWS_TASKS, **SHOWS_APPS})
    assert direct["structuredContent"]["status"] in ("READY", "RUNNING", "SUCCEEDED")


@pytest.mark.parametrize("payment", ["skyfire", "x402"])
async def test_paid_widgets_ask_for_payment_in_the_same_places(both: Both, payment: str) -> None:
    wires = both.wires(MODERN, f"{QUERY}&payment={payment}")
    theirs, mine = [{tool["name"]: tool for tool in await listed(wire)} for wire in wires]
    for name in WIDGETS:
        assert mine[name]["inputSchema"]["properties"].keys() == theirs[name]["inputSchema"]["properties"].keys()
        assert mine[name]["outputSchema"].keys() - {"description"} == theirs[name]["outputSchema"].keys()
        assert mine[name]["_meta"].get("x402") == theirs[name]["_meta"].get("x402")
    for name, arguments in ((WIDGETS[2], LONG), (WIDGETS[3], {"runId": "x"})):
        unpaid = [await called(wire, name, arguments) for wire in wires]
        assert list(differences(shape_of(unpaid[0]["content"]), shape_of(unpaid[1]["content"]))) == []
        assert unpaid[1].get("structuredContent") == unpaid[0].get("structuredContent")
        assert unpaid[1]["isError"]
    free = [await called(wire, WIDGETS[0], {"keywords": "sleeper"}) for wire in wires]
    assert unexplained("a search", *(without_page(answer) for answer in free)) == []


async def test_a_shown_call_is_paid_by_its_payment(both: Both, service: Service) -> None:
    _, ours = both.wires(MODERN, f"{QUERY}&payment=x402")
    wallet = Wallet()
    call = {"name": WIDGETS[2], "arguments": {"actor": SLEEPER, "input": {"seconds": 0}}}
    shown = await ours.request("tools/call", {**call, "_meta": {"x402/payment": wallet.payment()}})
    run_id = shown["structuredContent"]["runId"]
    assert service.sandbox.paid_runs(wallet.payer) == {run_id}
    paid = {"name": WIDGETS[3], "arguments": {"runId": run_id}, "_meta": {"x402/payment": wallet.payment()}}
    assert (await ours.request("tools/call", paid))["structuredContent"]["runId"] == run_id
    polled = await called(ours, "get-actor-run", {"runId": run_id, "waitSecs": 0})
    assert polled["structuredContent"]["x402Version"], "what the page gets, which has nothing to pay with"


@REVISIONS
async def test_instructions_speak_of_the_widgets_that_are_there(both: Both, revision: str) -> None:
    for chosen in ("actors", "call-actor-widget", "get-actor-run-widget", "docs", "actors,runs,call-actor-widget"):
        told: list[str] = []
        for wire in both.wires(revision, f"?ui=apps&tools={chosen}"):
            hello = await (wire.initialize() if revision == LEGACY else wire.request("server/discover"))
            told.append(hello["instructions"])
        named = [{name for name in WIDGETS if name in text} for text in told]
        assert named[0] == named[1], chosen
    plain = (await connected(both, revision, "?tools=actors"))[1]
    hello = await (plain.initialize() if revision == LEGACY else plain.request("server/discover"))
    assert "widget" not in json.dumps(hello["instructions"])
