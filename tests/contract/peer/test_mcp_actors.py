"""Actors that are MCP servers beside those of the peer: which tools they have, what these answer, and what fails."""

import asyncio
from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import (
    LISTED_BESIDES,
    LISTED_OF_SERVERS,
    SERVERS_ON_PURPOSE,
    SERVERS_TOLD_OTHERWISE,
)
from tests.contract.peer.shapes import differences, without_texts
from tests.contract.peer.test_answers import beginning, called, comparable
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REVISIONS = pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
TOOLBOX = "outlast/toolbox"
LONG_NAMED = "toolbox-makers/a-toolbox-whose-name-leaves-few-letters"
BROKEN = "outlast/broken-server"
PLAIN = "outlast/plain-standby"
SOMETIME = "outlast/sometime-server"
FIRST_PAGE = {"show", "count.calls"}
"""The tools that the server lists first: those that the peer has."""
SELECTORS = [
    f"?tools={TOOLBOX}",
    f"?tools={LONG_NAMED}",
    f"?tools={BROKEN},docs",
    f"?tools={PLAIN},docs",
    f"?tools={SOMETIME}",
    f"?tools={TOOLBOX},docs,outlast/sleeper",
    f"?tools={TOOLBOX},call-actor&ui=default",
    f"?tools=call-actor-widget,{TOOLBOX},outlast/heavy&ui=apps",
]
ANSWERED: dict[str, tuple[str, dict[str, Any]]] = {
    "every shape": ("outlast--toolbox--show", {}),
    "data": ("outlast--toolbox--count.calls", {"times": "1", "more": True}),
    "every shape by call-actor": ("call-actor", {"actor": f"{TOOLBOX}:show", "input": {}}),
    "an error by call-actor": ("call-actor", {"actor": f"{TOOLBOX}:fail", "input": {}}),
    "its tools": ("fetch-actor-details", {"actor": TOOLBOX, "output": {"mcpTools": True}}),
    "no tools": ("fetch-actor-details", {"actor": "outlast/sleeper", "output": {"mcpTools": True}}),
}
NOT_THERE = "a server that is not there"
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "no tool named": ("call-actor", {"actor": TOOLBOX, "input": {}}),
    "no tool behind the colon": ("call-actor", {"actor": f"{TOOLBOX}:", "input": {}}),
    "no tool named for the page": ("call-actor-widget", {"actor": TOOLBOX, "input": {}}),
    "no server": ("call-actor", {"actor": f"{SOMETIME}:show", "input": {}}),
    "no Actor": ("call-actor", {"actor": "outlast/nothing-there:show", "input": {}}),
    "no server and no input": ("call-actor", {"actor": PLAIN, "input": {}}),
    "a tool of no server": ("call-actor", {"actor": f"{PLAIN}:show", "input": {}}),
    "an unknown tool": ("call-actor", {"actor": f"{TOOLBOX}:nothing", "input": {}}),
    NOT_THERE: ("call-actor", {"actor": f"{BROKEN}:show", "input": {}}),
    "wrong arguments": ("outlast--toolbox--count.calls", {"times": "many"}),
    "no arguments": ("outlast--toolbox--count.calls", {}),
}


async def connected(both: Both, revision: str, query: str) -> tuple[Wire, Wire]:
    wires = both.wires(revision, query)
    if revision == LEGACY:
        for wire in wires:
            await wire.initialize()
    return wires


def is_compared(name: str) -> bool:
    """Not a tool of other packages, nor one of the toolbox that the peer has not asked for."""
    parts = name.split("--")
    if name in LISTED_BESIDES or len(parts) < 3:
        return name not in LISTED_BESIDES
    return any(parts[-1].startswith(tool[:4]) for tool in FIRST_PAGE)


@REVISIONS
async def test_a_server_has_the_same_tools_under_the_same_names(both: Both, revision: str) -> None:
    found: dict[str, list[str]] = {}
    for query in SELECTORS:
        peer, ours = [
            {tool["name"]: without_texts(tool) for tool in (await wire.request("tools/list"))["tools"]}
            for wire in await connected(both, revision, query)
        ]
        ours = {name: tool for name, tool in ours.items() if is_compared(name)}
        assert list(peer) == list(ours), query
        for name in peer:
            if "--" in name:
                lines = differences(peer[name], ours[name])
                found[f"{query} {name}"] = [line for line in lines if line.split(":")[0] not in LISTED_OF_SERVERS]
    assert {label: lines for label, lines in found.items() if lines} == {}


@REVISIONS
async def test_its_tools_are_answered_and_refused_alike(both: Both, service: Service, revision: str) -> None:
    wires = await connected(both, revision, f"?ui=apps&tools=actors,call-actor-widget,{TOOLBOX}")
    starts = service.sandbox.counters["startsAccepted"]
    # Ours tries for a while to reach a server that is not there: once is enough, and beside the other calls.
    refused = {label: call for label, call in REFUSED.items() if revision == MODERN or label != NOT_THERE}
    asked = {**ANSWERED, **refused}
    calls = [asyncio.gather(*(called(wire, *call) for call in asked.values())) for wire in wires]
    theirs, ours = [dict(zip(asked, answers, strict=True)) for answers in await asyncio.gather(*calls)]
    found: dict[str, list[str]] = {}
    for label in ANSWERED:
        lines = differences(comparable(theirs[label]), comparable(ours[label]))
        found[label] = [line for line in lines if (label, line.partition(":")[0]) not in SERVERS_ON_PURPOSE]
    for label in refused.keys() - SERVERS_TOLD_OTHERWISE:
        told = [beginning(label, answers[label]) for answers in (theirs, ours)]
        found[label] = [] if told[0] == told[1] else [f"the peer says {told[0]}, ours {told[1]}"]
    assert {label: lines for label, lines in found.items() if lines} == {}
    assert all(ours[label]["isError"] for label in SERVERS_TOLD_OTHERWISE)
    assert service.sandbox.counters["startsAccepted"] == starts, "no run stands behind a tool of a server"


async def test_an_answer_that_is_too_large_is_cut_and_says_so(both: Both) -> None:
    _, ours = await connected(both, MODERN, "?tools=call-actor")
    call = {"actor": f"{TOOLBOX}:show", "input": {"characters": 600_000}}
    answer = await called(ours, "call-actor", call)
    words, picture = (block["text"] for block in answer["content"])
    assert 262_000 < len(words) < 263_000
    assert words.startswith("xxx")
    assert "Ask the tool for less." in words
    assert picture.startswith("[A block of type image and ")
    assert answer["structuredContent"]["status"] == "SUCCEEDED"
