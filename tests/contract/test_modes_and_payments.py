"""What every mode promises, with and without payment: the shape of its list, its answers, and what it never says."""

import json
import re
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from temporalio.client import WorkflowHandle

from outlast.api.mcp.widgets import UI_MODE, widget_page
from outlast.workflows.tools.core.payments import PAY_ID
from outlast.workflows.tools.framework.mode import Mode
from outlast.workflows.tools.framework.phases import ClientPhase
from outlast.workflows.tools.framework.selection import Selection
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import COMMON, MODES, actor_tool_of, load_tools, selection_rules
from outlast.workflows.tools.registry import tools_of as tools_of_mode
from tests.support.calls.back_ends import AdapterDoor, AnthropicDoor, ChatDoor, ResponsesDoor, new_id
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN, Wire, WireError, text_of
from tests.support.paths import ROOT
from tests.support.stacks.api_server import connect
from tests.support.stacks.service import Service, settings_environment

MODE = pytest.mark.parametrize("mode", ["default", "openai", "anthropic"])
EVERY_MODE = pytest.mark.parametrize("mode", ["default", "openai", "anthropic", "apify"])
"""For what is promised whatever the tools are; the surface of `apify` is compared with its peer's, see `peer/`."""
BUILT_IN = pytest.mark.parametrize("mode", ["default", "openai", "apify"])
PAYMENT = pytest.mark.parametrize("payment", ["", "skyfire"])
REVISIONS = pytest.mark.parametrize("revision", [LEGACY, MODERN])
CATEGORIES = "actors,runs,docs,storage,tasks,schedules,experimental,dev,ui"
ONLY_IN_UI = {"search-actors-internal", "fetch-actor-details-internal"}
PAID_BY_ITS_ACCOUNT = {"call-actor-task"}
"""What no payment that comes with a call can pay."""
OF_OTHER_PACKAGES = {"labelled", "pick_colour"}
HINTS = {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
UNSAID_HINTS = {"idempotentHint"}
"""What the peer does not say of the tool of a single Actor."""
COMPANIONS = {
    "get-actor-run",
    "get-actor-output",
    "get-task",
    "list-tasks",
    "cancel-task",
    "answer-task",
    "restore-tool-output",
}
DROP_IN_COMPANIONS = {"get-actor-run", "get-dataset-items", "get-key-value-store-record", "abort-actor-run"}
"""There tasks have methods alone, and rows are read."""
SECRET = "skyfire-pay-token-planted-0123456789"
SLEEPER = {"actor": "outlast/sleeper", "input": {"seconds": 0.2, "steps": 2, "rows": 2}}


def wire_of(
    http: httpx.AsyncClient, mode: str, payment: str = "", revision: str = MODERN, tools: str = CATEGORIES
) -> Wire:
    paid = f"&payment={payment}" if payment else ""
    return Wire(http, revision, f"?ui={mode}&tools={tools},outlast/sleeper{paid}")


async def tools_of(wire: Wire) -> dict[str, dict[str, Any]]:
    if wire.revision == LEGACY:
        await wire.initialize()
    return {tool["name"]: tool for tool in (await wire.request("tools/list"))["tools"]}


@EVERY_MODE
@PAYMENT
@REVISIONS
async def test_the_list_has_the_same_shape_everywhere(
    http: httpx.AsyncClient, mode: str, payment: str, revision: str
) -> None:
    tools = await tools_of(wire_of(http, mode, payment, revision))
    if mode == "apify":
        # Tools of other modules, which other tests may have loaded in this process, are not the mode's own.
        built_in = {definition.name for definition in (*MODES[mode].tools, *COMMON)}
        of_the_mode = built_in & {definition.name for definition in tools_of_mode(mode)}
        own = {name for name in of_the_mode if not name.endswith("-widget")}
        assert tools.keys() == own | {"outlast--sleeper", *OF_OTHER_PACKAGES}
    else:
        base = await tools_of(wire_of(http, "default"))
        assert tools.keys() - ONLY_IN_UI == base.keys() - (PAID_BY_ITS_ACCOUNT if payment else set())
    assert (tools.keys() >= ONLY_IN_UI) is (mode == "openai")
    for tool in tools.values():
        assert tool["description"].strip()
        assert tool["inputSchema"]["type"] == "object"
        Draft202012Validator.check_schema(tool["inputSchema"])
        Draft202012Validator.check_schema(tool.get("outputSchema", {}))
        unsaid = UNSAID_HINTS if mode == "apify" and tool["name"] == "outlast--sleeper" else set[str]()
        assert tool["annotations"].keys() == HINTS - unsaid


@EVERY_MODE
@REVISIONS
@pytest.mark.parametrize(
    "selected",
    ["", "&tools=", "&tools=docs", "&tools=search-actors", "&tools=runs,storage", "&tools=tasks", "&tools=schedules"],
)
async def test_models_are_told_of_no_tool_that_they_do_not_have(
    http: httpx.AsyncClient, mode: str, revision: str, selected: str
) -> None:
    wire = Wire(http, revision, f"?ui={mode}{selected}")
    hello = await (wire.initialize() if revision == LEGACY else wire.request("server/discover"))
    tools = (await wire.request("tools/list"))["tools"]
    known = {definition.name for each in ("default", "openai", "apify") for definition in tools_of_mode(each)}
    told = json.dumps([hello["instructions"], tools])
    named = set(re.findall(r"[A-Za-z]+(?:[-_][A-Za-z]+)+", told)) & known
    assert named <= {tool["name"] for tool in tools}


@MODE
async def test_instructions_name_the_tools_that_there_are(http: httpx.AsyncClient, mode: str) -> None:
    told = (await wire_of(http, mode).request("server/discover"))["instructions"]
    assert all(name in told for name in ("get-task", "get-actor-output", "get-actor-log"))
    assert ("search-actors-internal" in told) is (mode == "openai")


@pytest.mark.parametrize("selected", ["", "&tools=docs", "&tools="])
async def test_the_ui_mode_always_has_what_its_widgets_call(http: httpx.AsyncClient, selected: str) -> None:
    tools = await tools_of(Wire(http, MODERN, f"?ui=openai{selected}"))
    pages = [widget_page(page) for page in ("actor-run.html", "search-results.html")]
    called = {name for page in pages for name in re.findall(r'(?:callTool|ask)\("([\w-]+)"', page)}
    called |= {str(UI_MODE.facts[tool]) for tool in ("logTool", "searchTool", "detailsTool")}
    called |= {str(tool) for tool in cast(list[str], UI_MODE.facts["runTools"])}
    assert len(called) == 6
    assert tools.keys() >= called | ONLY_IN_UI
    assert all(tools[name]["_meta"]["openai/widgetAccessible"] for name in called)


@pytest.mark.parametrize("selected", ["batches", "start-batch"])
async def test_who_can_start_a_batch_has_what_its_widget_calls(http: httpx.AsyncClient, selected: str) -> None:
    tools = await tools_of(Wire(http, MODERN, f"?ui=openai&tools=docs,{selected}"))
    called = set(re.findall(r'callTool\("([\w-]+)"', widget_page("batch.html")))
    assert called == {"get-batch", "get-batch-results", "cancel-batch"}
    assert all(tools[name]["_meta"]["openai/widgetAccessible"] for name in called)
    assert tools["start-batch"]["_meta"]["ui"]["resourceUri"] == "ui://outlast/batch.html"


@EVERY_MODE
@PAYMENT
@pytest.mark.parametrize("selected", ["call-actor", "outlast/sleeper", "docs,outlast/sleeper"])
async def test_who_can_run_an_actor_can_follow_its_run_and_its_task(
    http: httpx.AsyncClient, mode: str, payment: str, selected: str
) -> None:
    paid = f"&payment={payment}" if payment else ""
    tools = await tools_of(Wire(http, MODERN, f"?ui={mode}&tools={selected}{paid}"))
    assert tools.keys() >= (DROP_IN_COMPANIONS if mode == "apify" else COMPANIONS)


@pytest.mark.parametrize("mode", ["default", "anthropic", "apify"])
async def test_who_cannot_run_an_actor_gets_no_companions(http: httpx.AsyncClient, mode: str) -> None:
    tools = await tools_of(Wire(http, MODERN, f"?ui={mode}&tools=docs"))
    assert tools.keys() == {"search-apify-docs", "fetch-apify-docs"}


async def test_actor_tools_say_what_they_do_in_the_mode(http: httpx.AsyncClient) -> None:
    purpose = {mode: (await tools_of(wire_of(http, mode)))["outlast--sleeper"]["description"] for mode in MODES}
    assert purpose["default"].startswith("This tool calls the Actor outlast/sleeper and returns what it produced.")
    assert purpose["openai"].startswith("This tool starts the Actor outlast/sleeper and answers at once")
    assert "returns what it produced" not in purpose["openai"]


async def test_a_mode_replaces_a_tool_common_to_the_others(http: httpx.AsyncClient) -> None:
    name = "get-key-value-store-list"
    listed = {mode: (await tools_of(wire_of(http, mode)))[name] for mode in ("default", "openai", "anthropic")}
    assert listed["default"]["description"] == listed["openai"]["description"]
    assert listed["anthropic"]["description"] == "Show the user's stores as an artifact."
    answer = await wire_of(http, "anthropic").request("tools/call", {"name": name, "arguments": {}})
    assert text_of(answer) == "<artifact>your stores</artifact>"


@MODE
async def test_output_schemas_are_those_of_the_mode(http: httpx.AsyncClient, mode: str) -> None:
    tools = await tools_of(wire_of(http, mode))
    with_schema = {name for name, tool in tools.items() if "outputSchema" in tool}
    assert {"call-actor", "call-actor-task", "outlast--sleeper", "get-actor-run"} <= with_schema
    assert {tool["outputSchema"]["type"] for tool in tools.values() if "outputSchema" in tool} == {"object"}
    run = tools["outlast--sleeper"]["outputSchema"]["properties"].keys()
    assert {"runId", "status", "storages", "items", "summary", "nextStep"} <= run
    for other in ("get-actor-run", "call-actor-task"):
        assert run == tools[other]["outputSchema"]["properties"].keys()


@MODE
@PAYMENT
async def test_only_the_ui_mode_links_widgets(http: httpx.AsyncClient, mode: str, payment: str) -> None:
    tools = await tools_of(wire_of(http, mode, payment))
    linked = {name for name, tool in tools.items() if any(key.startswith("openai/") for key in tool.get("_meta", {}))}
    assert tools["labelled"]["_meta"]["own"] == 1
    if mode == "openai":
        assert {"search-actors", "fetch-actor-details", "get-actor-run", "outlast--sleeper"} <= linked
        assert {"call-actor", *(PAID_BY_ITS_ACCOUNT if not payment else set())} <= linked
        resources = (await wire_of(http, mode).request("resources/list"))["resources"]
        offered = {resource["uri"] for resource in resources}
        assert {tools[name]["_meta"]["openai/outputTemplate"] for name in ("search-actors", "call-actor")} <= offered
    else:
        assert linked == set()
        resources = (await wire_of(http, mode).request("resources/list"))["resources"]
        assert [resource for resource in resources if resource["uri"].startswith("ui://")] == []


@PAYMENT
@pytest.mark.parametrize("tool", ["call-actor", "outlast--sleeper"])
async def test_the_same_call_gives_rows_or_a_run(http: httpx.AsyncClient, payment: str, tool: str) -> None:
    paid = {PAY_ID: SECRET} if payment else {}
    arguments = {**(SLEEPER if tool == "call-actor" else SLEEPER["input"]), **paid}
    answers = {}
    for mode in ("default", "openai", "anthropic"):
        answers[mode] = await wire_of(http, mode, payment).request("tools/call", {"name": tool, "arguments": arguments})
    ended, started, third = (answers[mode]["structuredContent"] for mode in ("default", "openai", "anthropic"))
    assert (ended["status"], len(ended["items"])) == ("SUCCEEDED", 2)
    assert started["status"] in ("READY", "RUNNING")
    assert "items" not in started
    assert any(key.startswith("openai/") for key in answers["openai"]["_meta"])
    assert not any(key.startswith("openai/") for key in answers["default"]["_meta"])
    assert (third["status"], text_of(answers["anthropic"])) == ("SUCCEEDED", "<artifact/>")


@EVERY_MODE
async def test_answers_fit_the_schema_that_was_listed(http: httpx.AsyncClient, mode: str) -> None:
    wire = wire_of(http, mode)
    schema = (await tools_of(wire))["call-actor"]["outputSchema"]
    answer = await wire.request("tools/call", {"name": "call-actor", "arguments": SLEEPER})
    Draft202012Validator(schema).validate(answer["structuredContent"])


@REVISIONS
async def test_in_the_ui_mode_a_task_is_completed_when_its_actor_has_started(
    http: httpx.AsyncClient, service: Service, revision: str
) -> None:
    wire = wire_of(http, "openai", revision=revision)
    call: dict[str, Any] = {"name": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 300}}}
    if revision == LEGACY:
        await wire.initialize()
        task_id = (await wire.request("tools/call", {**call, "task": {}}))["task"]["taskId"]
        result = await wire.request("tasks/result", {"taskId": task_id})
    else:
        task_id = (await wire.request("tools/call", call, capabilities=KNOWS_TASKS))["taskId"]

        async def completed() -> dict[str, Any] | None:
            state = await wire.request("tasks/get", {"taskId": task_id}, capabilities=KNOWS_TASKS)
            return state if state["status"] == "completed" else None

        result = (await eventually(completed))["result"]
    run_id = result["structuredContent"]["runId"]
    assert service.sandbox.run(run_id)["status"] in ("READY", "RUNNING")
    await wire.request("tools/call", {"name": "abort-actor-run", "arguments": {"runId": run_id}})


@BUILT_IN
async def test_payment_is_baked_into_new_definitions(mode: str) -> None:
    async def load_actor(actor: str) -> tuple[Tool, ...]:
        return (actor_tool_of(mode, actor, title=actor, description="An Actor.", schema={"type": "object"}),)

    chosen = Selection(mode=mode, selectors=("actors", "outlast/sleeper"))
    plain = await load_tools(chosen, load_actor)
    payment = selection_rules(mode).read(mode, {"payment": ["skyfire"]}).payment
    assert payment is not None
    paid = await load_tools(replace(chosen, payment=payment), load_actor)
    for name in ("call-actor", "outlast--sleeper"):
        assert PAY_ID in paid.get(name).input_schema["properties"]  # type: ignore[operator]
        assert PAY_ID in paid.get(name).description
        assert PAY_ID not in plain.get(name).input_schema_json + plain.get(name).description
    assert paid.get("search-actors") is plain.get("search-actors")


def test_what_a_mode_or_a_phase_was_made_of_may_change_later() -> None:
    meta: dict[str, Any] = {"own": {"colours": ["red"]}}
    mode = Mode(name="m", executor=MODES["default"].executor, tools=(), common_meta={"x": meta}, actor_tool_meta=meta)
    schema: dict[str, Any] = {"type": "object", "properties": {"colours": {"enum": ["red"]}}}
    default: dict[str, Any] = {"colours": "red"}
    phase = ClientPhase(name="pick", message="?", answer=schema, default=default)
    meta["own"]["colours"].append("blue")
    schema["properties"].clear()
    default["colours"] = "blue"
    for frozen in (mode.common_meta["x"], mode.actor_tool_meta):
        assert frozen == {"own": {"colours": ["red"]}}
        frozen["own"]["colours"].append("green")  # type: ignore[index, union-attr]
    assert mode.common_meta["x"] == mode.actor_tool_meta == {"own": {"colours": ["red"]}}
    assert phase.default == {"colours": "red"}
    assert phase.answer == phase.schema == {"type": "object", "properties": {"colours": {"enum": ["red"]}}}
    assert hash(phase) == hash(ClientPhase(name="pick", message="?", answer=phase.schema, default={"colours": "red"}))
    for frozen in (mode.actor_tool_meta, phase.default, phase.answer):
        with pytest.raises(TypeError):
            frozen["own"] = {}  # type: ignore[index]


def test_definitions_cannot_be_changed() -> None:
    for definition in (*(tool for mode in MODES.values() for tool in mode.tools), *COMMON):
        with pytest.raises(FrozenInstanceError):
            definition.description = "changed"  # type: ignore[misc]
        schema = definition.input_schema
        schema.clear()
        assert definition.input_schema != {}


async def everything_said_of(http: httpx.AsyncClient, mode: str) -> str:
    """What each front door says of a call whose answer has `_meta` for widgets and for the front door alone."""
    said: list[Any] = []
    call: dict[str, Any] = {"name": "labelled", "arguments": {}}
    modern, older = wire_of(http, mode), wire_of(http, mode, revision=LEGACY)
    await older.initialize()
    task_id = (await modern.request("tools/call", call, capabilities=KNOWS_TASKS))["taskId"]
    said += [await wire.request("tools/call", call) for wire in (modern, older)]
    said += [await wire.request("tools/list") for wire in (modern, older)]
    said.append(await modern.request("resources/list"))
    said += [
        await modern.request("resources/read", {"uri": uri})
        for uri in ("test://labelled", f"outlast://tasks/{task_id}")
    ]
    # In the mode `apify` only what runs an Actor is a task of the older version, and tasks have no tools.
    if mode != "apify":
        started = await older.request("tools/call", {**call, "task": {}})
        task_id = started["task"]["taskId"]
        said.append(await modern.request("tools/call", {"name": "get-task", "arguments": {"taskId": task_id}}))
    said.append(await older.request("tasks/result", {"taskId": task_id}))
    said.append(await modern.request("tasks/get", {"taskId": task_id}, capabilities=KNOWS_TASKS))
    body = {"tool": "labelled", "mode": mode, "session_id": f"labelled-{mode}"}
    answers = [
        await http.post("/v1/tasks", json=body, headers={"Prefer": "wait=60"}),
        await http.post("/v1/tools/labelled/call", json={"mode": mode}),
        await http.get(f"/v1/tasks/{task_id}/result"),
        await http.get(f"/v1/tasks/{task_id}/events"),
        await http.get(f"/v1/tools?mode={mode}"),
    ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    return "\n".join([*(json.dumps(each) for each in said), *(answer.text for answer in answers)])


@EVERY_MODE
async def test_no_front_door_gives_away_what_is_not_for_its_client(http: httpx.AsyncClient, mode: str) -> None:
    said = await everything_said_of(http, mode)
    assert said.count('"own": 1') + said.count('"own":1') >= 10
    assert "outlast/added" not in said
    assert ("openai/" in said) is (mode in ("openai", "apify"))


UNPAID = [{}, {PAY_ID: ""}, {PAY_ID: "  "}, {PAY_ID: None}, {PAY_ID: 7}, {PAY_ID: [SECRET]}]
UNPAID_IN_DROP_IN = UNPAID[:4]
"""There a number is taken as a text, and so as a payment; a list is not what the schema says."""


@REVISIONS
@BUILT_IN
@pytest.mark.parametrize("tool", ["call-actor", "outlast--sleeper"])
async def test_a_paid_tool_is_refused_without_payment(
    http: httpx.AsyncClient, service: Service, mode: str, tool: str, revision: str
) -> None:
    wire = wire_of(http, mode, "skyfire", revision)
    schema = (await tools_of(wire))[tool]["inputSchema"]
    is_drop_in = mode == "apify"
    # There a call without it is answered with what it lacks, so the argument is optional.
    assert (PAY_ID in schema["properties"], PAY_ID in schema.get("required", ())) == (True, not is_drop_in)
    said = f'Missing required "{PAY_ID}" field.' if is_drop_in else f"{tool} is paid with `{PAY_ID}`, and the call has"
    arguments: dict[str, Any] = dict(SLEEPER if tool == "call-actor" else SLEEPER["input"])
    started = service.sandbox.counters["startsAccepted"]
    for unpaid in UNPAID_IN_DROP_IN if is_drop_in else UNPAID:
        call = {"name": tool, "arguments": {**arguments, **unpaid}}
        answer = await wire.request("tools/call", call)
        assert (answer["isError"], answer["_meta"]["outlast/error"]["category"]) == (True, "payment")
        assert "outlast/taskId" not in answer["_meta"]
        assert text_of(answer).startswith(said)
        if revision == LEGACY:
            with pytest.raises(WireError, match="-32602"):
                await wire.request("tools/call", {**call, "task": {}})
        else:
            assert (await wire.request("tools/call", call, capabilities=KNOWS_TASKS))["isError"]
    assert service.sandbox.counters["startsAccepted"] == started


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "revision"),
    [
        ("default", "legacy"),
        pytest.param("default", MODERN, marks=pytest.mark.thorough),
        pytest.param("apify", "legacy", marks=pytest.mark.thorough),
        ("apify", MODERN),
    ],
)
async def test_a_paid_tool_is_refused_without_payment_over_stdio_too(
    service: Service, tmp_path: Path, mode: str, revision: str
) -> None:
    started = service.sandbox.counters["startsAccepted"]
    environment = settings_environment(service.temporal_address, service.sandbox, OUTLAST_DATA_DIR=str(tmp_path))
    command = ["-m", "tests.support.http.stdio_server", f"mode={mode}", "payment=skyfire"]
    command.append("tools=actors,outlast/sleeper")
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=ROOT)
    async with Client(stdio_client(server), mode=revision) as mcp:
        for tool, arguments in (("call-actor", SLEEPER), ("outlast--sleeper", SLEEPER["input"])):
            for unpaid in UNPAID_IN_DROP_IN if mode == "apify" else UNPAID:
                answer = await mcp.call_tool(tool, {**arguments, **unpaid})
                assert answer.is_error
                assert answer.meta is not None
                assert answer.meta["outlast/error"]["category"] == "payment"
                assert "outlast/taskId" not in answer.meta
    assert service.sandbox.counters["startsAccepted"] == started


@pytest.mark.parametrize("tool", ["call-actor", "outlast--sleeper"])
@pytest.mark.parametrize("adapter", [AnthropicDoor, ResponsesDoor, ChatDoor])
async def test_a_payment_that_a_model_makes_up_is_refused_by_the_adapters(
    http: httpx.AsyncClient, service: Service, adapter: type[AdapterDoor], tool: str
) -> None:
    started = service.sandbox.counters["startsAccepted"]
    arguments: dict[str, Any] = dict(SLEEPER if tool == "call-actor" else SLEEPER["input"])
    for invented in ("", "made-up", None, 7):
        answer = await adapter(http).call(tool, {**arguments, PAY_ID: invented}, call_id=new_id())
        assert (answer.is_error, answer.category, answer.task_id) == (True, "payment", None)
    assert service.sandbox.counters["startsAccepted"] == started


@BUILT_IN
async def test_a_payment_where_nobody_takes_it_is_refused(http: httpx.AsyncClient, service: Service, mode: str) -> None:
    started = service.sandbox.counters["startsAccepted"]
    arguments = {**SLEEPER["input"], PAY_ID: SECRET}
    answers = [
        await http.post("/v1/tools/outlast--sleeper/call", json={"mode": mode, "arguments": arguments}),
        await http.post(
            "/v1/tasks", json={"tool": "call-actor", "mode": mode, "arguments": {**SLEEPER, PAY_ID: SECRET}}
        ),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["category"]) == (422, "payment")
    within = {"actor": "outlast/sleeper", "input": arguments}
    answers.append(await http.post("/v1/tasks", json={"tool": "call-actor", "mode": mode, "arguments": within}))
    assert (answers[-1].status_code, answers[-1].json()["error"]["category"]) == (422, "payment")
    for field in ({"payment": SECRET}, {"offered_tools": ["add-actor"]}):
        answers.append(await http.post("/v1/tasks", json={"tool": "call-actor", "arguments": SLEEPER, **field}))
        assert (answers[-1].status_code, "Unknown field" in answers[-1].text) == (422, True)
    call = {"name": "outlast--sleeper", "arguments": arguments}
    refused = await wire_of(http, mode).request("tools/call", call)
    assert refused["_meta"]["outlast/error"]["category"] == "payment"
    both = {"name": "call-actor", "arguments": {**within, PAY_ID: SECRET}}
    misplaced = await wire_of(http, mode, "skyfire").request("tools/call", both)
    assert misplaced["_meta"]["outlast/error"]["message"].startswith(
        "call-actor takes no `skyfire-pay-id` within `input`"
    )
    assert SECRET not in json.dumps([refused, misplaced, *(answer.json() for answer in answers)])
    assert service.sandbox.counters["startsAccepted"] == started


async def test_a_payment_id_is_found_nowhere(http: httpx.AsyncClient, service: Service) -> None:
    call = {"name": "call-actor", "arguments": {**SLEEPER, PAY_ID: SECRET}}
    answer = await wire_of(http, "default", "skyfire").request("tools/call", call)
    bad = {"name": "call-actor", "arguments": {"input": 1, PAY_ID: SECRET}}
    refused = await wire_of(http, "default", "skyfire").request("tools/call", bad)
    assert SECRET not in str(answer) + str(refused)
    temporal = await connect(service.temporal_address)
    task: WorkflowHandle[Any, Any] = temporal.get_workflow_handle(answer["_meta"]["outlast/taskId"])
    assert SECRET not in (await task.fetch_history()).to_json()
    for url in (f"{service.api_url}/metrics", service.worker_metrics_url):
        async with httpx.AsyncClient(trust_env=False, timeout=180) as metrics:
            assert SECRET not in (await metrics.get(url)).text
    written = [path for path in service.folder.rglob("*") if path.is_file() and "sandbox" not in path.parts]
    assert written
    assert [path.name for path in written if SECRET.encode() in _content(path)] == []


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # a database's journal, put away meanwhile
        return b""
