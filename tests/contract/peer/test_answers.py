"""Answers and errors beside those of the peer: keys and types, blocks, codes, and how messages begin."""

import json
import re
from typing import Any

import pytest

from outlast.workflows.tools.registry import MODES
from tests.contract.peer.calls import ANSWERED, COMPARED_ELSEWHERE, ENDED, ENDS, LONG, REFUSED, SLEEPER
from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import (
    BEGINNINGS,
    ERRORS_ON_PURPOSE,
    NO_LINE_ON_PURPOSE,
    ON_PURPOSE,
    SOMETIMES,
)
from tests.contract.peer.shapes import beyond, differences, shape_of
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.http.pages import WebServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REVISIONS = pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
QUERY = "?tools=actors,docs,runs,storage,dev,outlast/sleeper&telemetry-enabled=true"
OWN_META = "outlast/"
SERVER = "io.modelcontextprotocol/serverInfo"


async def connected(both: Both, revision: str) -> tuple[Wire, Wire]:
    wires = both.wires(revision, QUERY)
    if revision == LEGACY:
        for wire in wires:
            await wire.initialize()
    return wires


async def called(wire: Wire, name: str, arguments: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """The answer, or the protocol error as one."""
    given = {} if arguments is None else {"arguments": arguments}
    try:
        return await wire.request("tools/call", {"name": name, **given, **more})
    except WireError as error:
        return {"code": error.code, "message": str(error).partition(": ")[2]}


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer by keys and types, without what is ours alone; of the server (see test_http.py) that it is named."""
    meta = {key: value for key, value in answer.get("_meta", {}).items() if not key.startswith(OWN_META)}
    if SERVER in meta:
        meta[SERVER] = {}
    content = [block["type"] for block in answer["content"]]
    kept = {key: value for key, value in answer.items() if key not in ("_meta", "content")}
    return {**shape_of(kept), "content": content, **({"_meta": shape_of(meta)} if meta else {})}


def unexplained(label: str, peer: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """How two answers differ beyond the list, and what stands on it for nothing."""
    always, sometimes = [[place for each, place in listed if each == label] for listed in (ON_PURPOSE, SOMETIMES)]
    return beyond(differences(comparable(peer), comparable(ours)), always, sometimes)


def unlike_errors(peer: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """How the keys of two tool errors differ, but for those of `ERRORS_ON_PURPOSE`."""
    if "content" not in peer or "content" not in ours:
        return []
    found = differences(comparable(peer), comparable(ours))
    return [line for line in found if not line.startswith(tuple(ERRORS_ON_PURPOSE))]


def beginning(label: str, answer: dict[str, Any]) -> tuple[Any, str]:
    """The code of a refused call, and its message as far as clients may match on it."""
    assert "code" in answer or answer["isError"], f"{label}: {answer}"
    text = answer.get("message") or answer["content"][0]["text"]
    told = BEGINNINGS.get(label)
    if told is not None and told in text:
        return answer.get("code"), told
    sentence = re.match(r"(.*?[.:])(?:\s|$)", text.partition("\n")[0])
    lines = text.split("\n")
    reason = [line.partition(". ")[0].rstrip(".") for line in lines if line.startswith("Validation errors: ")]
    return answer.get("code"), " | ".join([sentence[1] if sentence else lines[0], *reason])


@REVISIONS
async def test_answers_have_the_same_keys_types_and_blocks(both: Both, revision: str) -> None:
    peer, ours = await connected(both, revision)
    ended = [await called(wire, "call-actor", ENDED) for wire in (peer, ours)]
    found = {"a call": unexplained("a call", *ended)}
    run = ended[0]["structuredContent"]
    places = {
        "$run": run["runId"],
        "$dataset": run["storages"]["datasets"]["default"]["id"],
        "$store": run["storages"]["keyValueStores"]["default"]["id"],
    }

    def filled(arguments: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(arguments)
        for name, value in places.items():
            text = text.replace(name, value)
        return json.loads(text)

    for label, (name, arguments) in ANSWERED.items():
        answers = [await called(wire, name, filled(arguments)) for wire in (peer, ours)]
        found[label] = unexplained(label, *answers)
    error_parts: set[str] = set()
    for label, (name, arguments) in REFUSED.items():
        refused = [await called(wire, name, arguments and filled(arguments)) for wire in (peer, ours)]
        theirs, mine = [beginning(label, answer) for answer in refused]
        found[label] = [] if theirs == mine else [f"the peer says {theirs}, ours {mine}"]
        found[label] += unlike_errors(*refused)
        if all("content" in answer for answer in refused):
            lines = differences(comparable(refused[0]), comparable(refused[1]))
            error_parts |= {f"/{line[1:].partition(':')[0].partition('/')[0]}" for line in lines}
    assert {label: lines for label, lines in found.items() if lines} == {}
    assert error_parts == ERRORS_ON_PURPOSE.keys()
    unfit = [await called(wire, *REFUSED["input that does not fit"]) for wire in (peer, ours)]
    schemas = [json.loads(answer["content"][1]["text"].partition("```json")[2].rstrip("` \n")) for answer in unfit]
    assert schemas[0]["properties"].keys() - {"waitSecs"} == schemas[1]["properties"].keys()
    assert "seconds" in schemas[1]["properties"]


async def test_a_call_that_outlasts_its_wait_goes_on_and_can_be_aborted(both: Both) -> None:
    peer, ours = await connected(both, LEGACY)
    own_tool = [await called(wire, "outlast--sleeper", {"seconds": "0.1", "unknown": 1}) for wire in (peer, ours)]
    assert unexplained("an Actor's own tool", *own_tool) == []
    for name in ("outlast/sleeper", "outlast-slash-sleeper"):
        by_name = [await called(wire, name, {"seconds": 0}) for wire in (peer, ours)]
        assert unexplained(name, *by_name) == []
    for label, wait in (("a call that is not waited for", 0), ("a call that is waited for", 1)):
        begun = [await called(wire, "call-actor", {**LONG, "waitSecs": wait}) for wire in (peer, ours)]
        assert unexplained(label, *begun) == []
        assert begun[1]["structuredContent"]["status"] in ("READY", "RUNNING")
        runs = [answer["structuredContent"]["runId"] for answer in begun]
        aborted = [
            await called(wire, "abort-actor-run", {"runId": run}) for wire, run in zip((peer, ours), runs, strict=True)
        ]
        assert unexplained("an abort", *aborted) == []
        told = aborted[1]["structuredContent"]
        assert told["status"] == "ABORTED"
        assert told["storages"]["datasets"]["default"]["id"] in told["nextStep"]
        assert "empty" not in told["nextStep"], "nobody has looked"


async def test_documentation_is_found_and_read_alike(both: Both, docs_site: WebServer) -> None:
    """Both ask the tests' own site: the peer takes it for Apify's, ours for an operator's copy."""
    wires = await connected(both, LEGACY)
    sites = ("https://docs.apify.com", docs_site.url)
    found = [await called(wire, "search-apify-docs", {"query": "actors run"}) for wire in wires]
    assert unexplained("a search", *found) == []
    assert found[1]["structuredContent"]["results"][0]["url"] == f"{docs_site.url}/guide/actors"
    pages = [
        await called(wire, "fetch-apify-docs", {"url": f"{site}/guide/actors"})
        for wire, site in zip(wires, sites, strict=True)
    ]
    assert unexplained("a page", *pages) == []
    for site, page in zip(sites, pages, strict=True):
        assert page["content"][0]["text"].startswith(f"Fetched content from {site}/guide/actors:")
        assert "Actors run." in page["structuredContent"]["content"]
    gone = [
        await called(wire, "fetch-apify-docs", {"url": f"{site}/guide/gone"})
        for wire, site in zip(wires, sites, strict=True)
    ]
    for site, answer in zip(sites, gone, strict=True):
        text = f'Failed to fetch the documentation page at "{site}/guide/gone".'
        assert answer["content"][0]["text"].startswith(text)
    assert unlike_errors(*gone) == []
    for elsewhere in (
        "http://169.254.169.254/x",
        f"{docs_site.url}/elsewhere",
        "actors",
        "https://docs.apify.com.x.org/",
    ):
        answer = await called(wires[1], "fetch-apify-docs", {"url": elsewhere})
        assert answer["content"][0]["text"].startswith(f'Invalid URL: "{elsewhere}".'), answer


def test_every_tool_of_the_mode_is_compared_when_it_succeeds() -> None:
    asked = {tool for tool, _ in ANSWERED.values()} | COMPARED_ELSEWHERE.keys()
    assert {definition.name for definition in MODES["apify"].tools} == asked


async def test_runs_of_every_end_are_answered_alike(both: Both) -> None:
    """One that fails, one whose time is over, one that writes nothing, and one that is asked to end."""
    wires = await connected(both, MODERN)
    found: dict[str, list[str]] = {}

    async def compared(label: str, tool: str, arguments: dict[str, Any], runs: list[str] | None = None) -> list[str]:
        """What both answer, to the same arguments or each of its own run; the ids of the runs."""
        given = [{**arguments, **({"runId": run} if run else {})} for run in runs or ["", ""]]
        answers = [await called(wire, tool, each) for wire, each in zip(wires, given, strict=True)]
        found[label] = unexplained(label, *answers)
        return [answer.get("structuredContent", {}).get("runId", "") for answer in answers]

    runs: list[str] = []
    for label, more in ENDS.items():
        runs = await compared(label, "call-actor", {"actor": SLEEPER, **more})
        await compared(f"{label}, looked at", "get-actor-run", {}, runs)
        await compared(f"{label}, aborted", "abort-actor-run", {"gracefully": True}, runs)
    silent = [await called(wire, "get-actor-run-log", {"runId": run}) for wire, run in zip(wires, runs, strict=True)]
    assert beginning("", silent[0]) == (None, f"Run with ID '{runs[0]}' not found."), NO_LINE_ON_PURPOSE
    assert (silent[1]["isError"], silent[1]["structuredContent"]) == (False, {"log": ""}), NO_LINE_ON_PURPOSE
    for status in ("FAILED", "TIMED-OUT"):
        await compared("runs", "get-actor-run-list", {"status": status, "limit": 1})
    begun = [await called(wire, "call-actor", {**LONG, "waitSecs": 0}) for wire in wires]
    runs = [answer["structuredContent"]["runId"] for answer in begun]
    await compared("an abort", "abort-actor-run", {"gracefully": True}, runs)
    written = await called(wires[0], "call-actor", {"actor": "outlast/aliased", "input": {}})
    for given in ({}, {"lines": 0}, {"lines": 1}, {"lines": 50}):
        which = {"runId": written["structuredContent"]["runId"], **given}
        logs = [(await called(wire, "get-actor-run-log", which))["structuredContent"]["log"] for wire in wires]
        found[f"a log, {given}"] = [*differences(logs[0], logs[1])]
        assert len(logs[0].splitlines()) == (given.get("lines", 10) or len(logs[0].splitlines())), (
            "a log of enough lines"
        )
    assert {label: lines for label, lines in found.items() if lines} == {}


async def progress_of(wire: Wire, arguments: dict[str, Any], tool: str = "call-actor") -> list[dict[str, Any]]:
    """What a client that asks for progress is told of a call."""
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
    messages = [message async for message in wire.messages("tools/call", params)]
    return [message["params"] for message in messages if message.get("method") == "notifications/progress"]


async def test_progress_names_the_actor_and_carries_the_run(both: Both) -> None:
    slow = {"actor": "outlast/sleeper", "input": {"seconds": 1.5, "steps": 3}}
    theirs, ours = [await progress_of(wire, slow) for wire in await connected(both, LEGACY)]
    assert theirs
    assert [step["progress"] for step in ours] == [1 + number for number in range(len(ours))]
    for steps in (theirs, ours):
        assert {tuple(sorted(step)) for step in steps} == {("_meta", "message", "progress", "progressToken")}
        assert all(re.match(r"outlast/sleeper: [A-Z-]+( — |$)", step["message"]) for step in steps), steps
        assert {tuple(step["_meta"]["com.apify/ActorRun"]) for step in steps} == {("runId",)}
    assert theirs[-1]["message"] == ours[-1]["message"] == "outlast/sleeper: SUCCEEDED"


@pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
async def test_progress_of_a_run_that_is_waited_for(both: Both, revision: str) -> None:
    """At once, on each change, and at the end; none of a run that has ended, or that is not waited for."""
    told: list[list[dict[str, Any]]] = []
    for wire in await connected(both, revision):
        slow = {"seconds": 9, "steps": 3, "message": "Out of order"}
        begun = await called(wire, "call-actor", {"actor": "outlast/sleeper", "input": slow, "waitSecs": 0})
        run_id = begun["structuredContent"]["runId"]
        assert await progress_of(wire, {"runId": run_id, "waitSecs": 0}, "get-actor-run") == []
        steps = await progress_of(wire, {"runId": run_id, "waitSecs": 45}, "get-actor-run")
        assert await progress_of(wire, {"runId": run_id, "waitSecs": 5}, "get-actor-run") == []
        assert [step["progress"] for step in steps] == [1 + number for number in range(len(steps))]
        assert {step["_meta"]["com.apify/ActorRun"]["runId"] for step in steps} == {run_id}
        assert re.match(r"outlast/sleeper: RUNNING( — |$)", steps[0]["message"]), steps
        assert any(" — " in step["message"] for step in steps[:-1]), steps
        told.append(steps)
    assert told[0][-1]["message"] == told[1][-1]["message"]
    shapes = [{json.dumps(shape_of(step), sort_keys=True) for step in steps} for steps in told]
    assert shapes[0] == shapes[1]


async def test_only_tools_that_run_actors_are_tasks(both: Both) -> None:
    wires = await connected(both, LEGACY)
    for name, arguments in (("get-actor-run", {"runId": "x"}), ("call-actor", {})):
        refused = [await called(wire, name, arguments, task={}) for wire in wires]
        assert beginning(name, refused[0]) == beginning(name, refused[1])
    started = [await called(wire, "call-actor", {**ENDED, "waitSecs": 0}, task={"ttl": 60_000}) for wire in wires]
    assert [answer["task"]["status"] for answer in started] == ["working", "working"]
