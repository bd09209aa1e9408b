"""The tools of a connection, beside those of the peer: which, in which order, with which schemas and hints."""

from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import LISTED_BESIDES, NOT_BUILT
from tests.contract.peer.shapes import differences, without_texts
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REVISIONS = pytest.mark.parametrize("revision", [LEGACY, MODERN])
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
]
ALL = "?tools=actors,docs,runs,storage,tasks,schedules,outlast/sleeper"


async def listed(wire: Wire) -> list[dict[str, Any]]:
    if wire.revision == LEGACY:
        await wire.initialize()
    return (await wire.request("tools/list"))["tools"]


@REVISIONS
async def test_the_same_selectors_give_the_same_tools_in_the_same_order(both: Both, revision: str) -> None:
    found: dict[str, tuple[list[str], list[str]]] = {}
    for query in SELECTORS:
        peer, ours = [[tool["name"] for tool in await listed(wire)] for wire in both.wires(revision, query)]
        kept = (
            [name for name in peer if name not in NOT_BUILT],
            [name for name in ours if name not in LISTED_BESIDES],
        )
        if kept[0] != kept[1]:
            found[query] = kept
    assert not found, "\n".join(f"{query}\n  {peer}\n  {ours}" for query, (peer, ours) in found.items())


@REVISIONS
async def test_each_tool_has_the_same_schemas_hints_and_task_support(both: Both, revision: str) -> None:
    peer, ours = [
        {tool["name"]: without_texts(tool) for tool in await listed(wire)} for wire in both.wires(revision, ALL)
    ]
    assert len(ours) > 24
    assert {name: list(differences(peer[name], tool)) for name, tool in ours.items() if peer[name] != tool} == {}
    assert peer.keys() - ours.keys() <= NOT_BUILT
