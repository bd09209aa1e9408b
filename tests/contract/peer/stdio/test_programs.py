"""The peer's program beside `outlast mcp`: flags, variables, names of clients, and requests that are cancelled."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import LISTED_BESIDES
from tests.contract.peer.stdio.program import Program, ours, peer, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SERVERS = (peer, ours)
CLIENT = "a-client"
REPORT = "report-problem"
Case = tuple[tuple[str, ...], dict[str, str], str]
ALWAYS: dict[str, Case] = {
    "a flag and its variable": (("--tools", "docs,dev"), {"TOOLS": "storage", "TELEMETRY_ENABLED": "false"}, CLIENT),
    "Actors and widgets": (("--tools=search-actors", "--actors=outlast/sleeper"), {"UI_MODE": "true"}, CLIENT),
}
OTHERS: dict[str, Case] = {
    "a client that has no reports": ((), {"TELEMETRY_ENABLED": "true"}, "Claude Desktop"),
    "nothing": ((), {}, CLIENT),
    "reports by name": (("--tools", "docs,dev"), {}, "claude-code"),
    "variables": ((), {"TOOLS": "docs,dev", "ACTORS": "outlast/sleeper", "TELEMETRY_ENABLED": "false"}, CLIENT),
    "no telemetry": (("--telemetry-enabled", "false"), {"TOOLS": "docs,dev"}, CLIENT),
    "Actors": (("--actors", "outlast/sleeper"), {"UI_MODE": "nonsense"}, CLIENT),
    "tools and Actors": (("--tools=runs", "--actors=outlast/sleeper", "--ui=apps"), {}, CLIENT),
    "widgets": (("--tools", "search-actors,call-actor-widget", "--ui", "apps"), {"UI_MODE": "default"}, CLIENT),
    "no widgets": (("--tools", "search-actors", "--ui", "off"), {"UI_MODE": "apps"}, CLIENT),
    "no tools": (("--tools", ""), {}, CLIENT),
}
"""Flags, variables and the name of the client."""
LONG: dict[str, Any] = {"seconds": 300, "steps": 300}


async def listed(program: Program) -> list[str]:
    return [tool["name"] for tool in (await program.request("tools/list", {}))["tools"]]


@pytest.mark.parametrize("case", [*ALWAYS, *(pytest.param(case, marks=pytest.mark.thorough) for case in OTHERS)])
async def test_flags_and_variables_choose_the_same_tools(service: Service, tmp_path: Path, case: str) -> None:
    """In the same order."""
    flags, variables, name = {**ALWAYS, **OTHERS}[case]
    commands = [server(service, tmp_path, *flags, **variables) for server in SERVERS]
    async with started(*commands[0], name) as theirs, started(*commands[1], name) as own:
        lists = await asyncio.gather(listed(theirs), listed(own))
    assert lists[0] == lists[1]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_the_same_clients_are_offered_no_reports(both: Both, revision: str) -> None:
    """Unless they ask for them."""
    found: dict[str, list[list[str]]] = {}
    for name in ("claude-ai", "My Anthropic Client", "local-agent-mode-apify", "Cursor"):
        for query in ("?telemetry-enabled=true", "?telemetry-enabled=true&tools=dev,docs"):
            lists: list[list[str]] = []
            for wire in both.wires(revision, query):
                if revision == LEGACY:
                    await wire.initialize(name=name)
                who = {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
                params = {"_meta": who} if revision == MODERN else {}
                tools = (await wire.request("tools/list", params))["tools"]
                lists.append([tool["name"] for tool in tools if tool["name"] not in LISTED_BESIDES])
            found[f"{name} {query}"] = lists
    assert {label: lists for label, lists in found.items() if lists[0] != lists[1]} == {}
    assert [REPORT in lists[1] for lists in found.values()] == [False, True] * 3 + [True, True]


async def cancelled_call(program: Program, tool: str, arguments: dict[str, Any]) -> str:
    """Cancel a call as soon as it has told of its run; the run's id."""
    number = program.send("tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}})
    while (message := await program.message()).get("method") != "notifications/progress":
        assert message.get("id") != number, message
    program.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
    return message["params"]["_meta"]["com.apify/ActorRun"]["runId"]


async def stop_runs(program: Program, sandbox: Sandbox) -> None:
    """Cancel calls that run an Actor, whose runs end, and one that waits for a run, which goes on."""
    actor = {"actor": "outlast/sleeper", "input": LONG}
    for tool, arguments in (("call-actor", actor), ("outlast--sleeper", LONG)):
        run_id = await cancelled_call(program, tool, {**arguments, "waitSecs": 45})
        await eventually(lambda run_id=run_id: sandbox.run(run_id)["status"] == "ABORTED")
    begun = await program.request("tools/call", {"name": "call-actor", "arguments": {**actor, "waitSecs": 0}})
    run_id = begun["structuredContent"]["runId"]
    assert await cancelled_call(program, "get-actor-run", {"runId": run_id, "waitSecs": 45}) == run_id
    answer = await program.request(
        "tools/call", {"name": "get-actor-run", "arguments": {"runId": run_id, "waitSecs": 1}}
    )
    assert answer["structuredContent"]["status"] == "RUNNING"
    sandbox.abort_run(run_id)


async def test_a_cancelled_request_stops_the_run_that_it_has_started_and_no_other(
    service: Service, tmp_path: Path
) -> None:
    for server in SERVERS:
        command, environment = server(service, tmp_path, "--tools", "actors,outlast/sleeper")
        async with started(command, environment, CLIENT) as program:
            await stop_runs(program, service.sandbox)
