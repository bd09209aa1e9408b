"""The tools of a connection, beside those of the peer: which, in which order, with which schemas and hints."""

from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import FIELDS_ON_PURPOSE, LISTED_BESIDES
from tests.contract.peer.shapes import differences, without_texts
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REVISIONS = pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
SELECTORS = [
    "?telemetry-enabled=false",
    "?telemetry-enabled=true",
    "?telemetry-enabled=true&ui=default",
    "?telemetry-enabled=true&tools=dev,docs",
    "?tools=report-problem&telemetry-enabled=true",
    "?tools=report-problem&telemetry-enabled=true&telemetry-enabled=false",
    "?tools=",
    "?actors=",
    "?tools=docs&actors=",
    "?tools=actors",
    "?tools=runs",
    "?tools=storage,docs",
    "?tools=schedules,tasks",
    "?tools=runs,actors",
    "?tools=get-dataset-items,call-actor,docs",
    "?tools=outlast/sleeper",
    "?tools=outlast~sleeper",
    "?tools='outlast/sleeper'",
    "?actors=outlast/sleeper",
    "?tools=docs&actors=outlast/sleeper",
    "?tools=get-actor-run",
    "?tools=get-actor-run,search-actors",
    "?tools=search-actors,fetch-actor-details",
    "?tools=add-actor,experimental,preview,get-actor-log",
    "?tools=ui",
    "?tools=Actors",
    "?tools= docs , runs ",
    "?tools=docs&tools=runs",
    "?tools=docs,docs,search-apify-docs",
    "?tools=outlast/nothing-there",
    "?tools=dev&telemetry-enabled=true",
    "?tools=dev&telemetry-enabled=false",
    "?tools=docs,outlast/sleeper&ui=default",
    "?tools=actors,outlast/sleeper&ui=default",
    "?tools=actors,outlast/sleeper&ui=auto",
    "?tools=actors,outlast/sleeper&ui=nonsense",
    "?tools=actors&payment=nonsense&unknown=1",
    "?tools=docs,outlast/sleeper,get-dataset-items",
    "?tools=call-actor-widget",
    "?tools=schedules,outlast/sleeper,tasks,actors,storage",
    "?tools=outlast/heavy,docs,outlast/sleeper,runs",
    "?tools=outlast/sleeper,outlast/heavy&ui=default",
    "?actors=outlast/sleeper&tools=storage,outlast/heavy",
    "?tools=abort-actor-run,get-dataset-items,get-actor-run,call-actor",
    "?tools=get-key-value-store-record,outlast/sleeper,call-actor,runs&ui=default",
    "?ui=default&telemetry-enabled=true&tools=dev,docs",
    "?ui=apps&telemetry-enabled=false",
    "?ui=apps&telemetry-enabled=true",
    "?ui=apps&telemetry-enabled=true&tools=report-problem,docs,search-actors,outlast/sleeper",
    "?ui=true&tools=search-actors",
    "?ui=on&tools=fetch-actor-details",
    "?ui=openai&tools=actors",
    "?ui=off&tools=actors,search-actors-widget",
    "?ui=false&tools=actors",
    "?ui=APPS&tools=actors",
    "?ui= apps &tools=actors",
    "?ui=&tools=actors",
    "?ui=apps&ui=default&tools=actors",
    "?ui=default&ui=apps&tools=actors",
    "?ui=apps&tools=",
    "?ui=apps&tools=ui,some-widget",
    "?ui=apps&tools=runs",
    "?ui=apps&tools=call-actor",
    "?ui=apps&tools=call-actor-widget,docs",
    "?ui=apps&tools=get-actor-run-widget,docs",
    "?ui=apps&tools=get-actor-run-widget,call-actor",
    "?ui=apps&tools=get-actor-run-widget,get-actor-run",
    "?ui=apps&tools=get-actor-run-widget,outlast/sleeper",
    "?ui=apps&tools=call-actor-widget,get-actor-run-widget,docs",
    "?ui=apps&tools=get-dataset-items,call-actor-widget,get-actor-run-widget,abort-actor-run",
    "?ui=apps&tools=search-actors-widget",
    "?ui=apps&tools=search-actors-widget,search-actors",
    "?ui=apps&tools=fetch-actor-details-widget,search-actors,docs",
    "?ui=apps&tools=storage,search-actors-widget,call-actor-widget,outlast/sleeper,docs",
]
WITH_CAPABILITY = [
    "?telemetry-enabled=false",
    "?ui=default&tools=actors",
    "?ui=auto&tools=actors",
    "?ui=nonsense&tools=search-actors",
    "?ui=&tools=search-actors",
    "?tools=search-actors,docs,outlast/sleeper",
    "?tools=outlast/sleeper,call-actor-widget",
    "?tools=call-actor,outlast/sleeper,get-actor-run-widget",
    "?telemetry-enabled=true",
    "?telemetry-enabled=true&tools=dev,search-actors,outlast/sleeper",
]
ALL = (
    "?ui=apps&telemetry-enabled=true"
    "&tools=actors,docs,runs,storage,tasks,schedules,dev,outlast/sleeper,call-actor-widget,get-actor-run-widget"
)
UI = "io.modelcontextprotocol/ui"
SHOWS_APPS = {"extensions": {UI: {"mimeTypes": ["text/html", "text/html;profile=mcp-app"]}}}
NOT_QUITE = [
    {"extensions": {UI: {}}},
    {"extensions": {UI: {"mimeTypes": ["text/html"]}}},
    {"extensions": {UI: {"mimeTypes": "text/html;profile=mcp-app"}}},
    {"experimental": {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}},
]


async def listed(wire: Wire, capabilities: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    if wire.revision == LEGACY:
        await wire.initialize(capabilities)
    return (await wire.request("tools/list", capabilities=capabilities))["tools"]


@REVISIONS
async def test_the_same_selectors_give_the_same_tools_in_the_same_order(both: Both, revision: str) -> None:
    found = [line for query in SELECTORS for line in await unlike(both, revision, query)]
    assert not found, "\n".join(found)


@REVISIONS
async def test_what_the_client_can_show_decides_where_the_address_does_not(both: Both, revision: str) -> None:
    found = [line for query in WITH_CAPABILITY for line in await unlike(both, revision, query, SHOWS_APPS)]
    for capabilities in NOT_QUITE:
        found += await unlike(both, revision, "?tools=actors", capabilities)
    assert not found, "\n".join(found)


async def test_in_the_newer_version_each_request_says_what_its_client_can_show(both: Both) -> None:
    _, ours = both.wires(MODERN, "?tools=search-actors")
    names = [[tool["name"] for tool in await listed(ours, given)] for given in (SHOWS_APPS, None, SHOWS_APPS)]
    assert [("search-actors-widget" in each) for each in names] == [True, False, True]
    pages = [
        [page["uri"] for page in (await ours.request("resources/list", capabilities=given))["resources"]]
        for given in (None, SHOWS_APPS)
    ]
    assert [sum(uri.startswith("ui://widget/") for uri in each) for each in pages] == [0, 2]


async def unlike(both: Both, revision: str, query: str, capabilities: dict[str, Any] | None = None) -> list[str]:
    """How the names differ, or their order."""
    wires = both.wires(revision, query)
    peer, ours = [[tool["name"] for tool in await listed(wire, capabilities)] for wire in wires]
    ours = [name for name in ours if name not in LISTED_BESIDES]
    return [] if peer == ours else [f"{query} {capabilities}\n  {peer}\n  {ours}"]


def marks_of(field: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a description says that the field is required, and that something was left out of it."""
    told = field.get("description", "")
    return told.startswith("**REQUIRED** "), told.endswith("[Description truncated]")


async def test_the_fields_of_an_actor_are_listed_alike(both: Both) -> None:
    """Names with dots, editors of the platform's form, long texts and enums, what is required, a field `waitSecs`."""
    found: dict[str, list[str]] = {}
    for actor in ("many-fields", "long-enums"):
        lists = [await listed(wire) for wire in both.wires(LEGACY, f"?tools=outlast/{actor}")]
        tools = [next(tool for tool in each if tool["name"] == f"outlast--{actor}") for each in lists]
        found[actor] = list(differences(*(without_texts(tool) for tool in tools)))
        found[actor] = [line for line in found[actor] if not line.startswith(tuple(FIELDS_ON_PURPOSE))]
        fields = [tool["inputSchema"]["properties"] for tool in tools]
        marks = [{name: marks_of(field) for name, field in each.items() if name != "waitSecs"} for each in fields]
        found[actor] += differences(marks[0], marks[1])
        assert fields[1]["waitSecs"]["type"] == "integer", "the Actor's own field is replaced"
    different = [f"{actor} {line}" for actor, lines in found.items() for line in lines]
    assert not different, "\n".join(different)


@REVISIONS
async def test_each_tool_has_the_same_schemas_hints_and_task_support(both: Both, revision: str) -> None:
    peer, ours = [
        {tool["name"]: without_texts(tool) for tool in await listed(wire)} for wire in both.wires(revision, ALL)
    ]
    ours = {name: tool for name, tool in ours.items() if name not in LISTED_BESIDES}
    assert len(ours) > 28
    for tool in (*peer.values(), *ours.values()):
        if tool["name"].endswith("-widget"):
            tool.pop("_meta")  # see test_widgets.py
    assert {name: list(differences(peer[name], tool)) for name, tool in ours.items() if peer[name] != tool} == {}
    assert peer.keys() == ours.keys()
