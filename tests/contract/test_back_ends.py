"""The same calls through every back end mean the same: REST, MCP, Anthropic, OpenAI Responses, OpenAI Chat."""

import asyncio
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import pictures
from tests.support.calls.back_ends import (
    AdapterDoor,
    AnthropicDoor,
    ChatDoor,
    Door,
    McpDoor,
    Meaning,
    ResponsesDoor,
    RestDoor,
    new_id,
    split_details,
)
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN, Wire, text_of
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.providers.script import Asked, Call, Step, says
from tests.support.providers.server import running_provider
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.service import Service, settings_environment
from tests.support.tools.back_end_tools import ODD_FIELD, ODD_NAME

ADAPTERS: tuple[type[AdapterDoor], ...] = (AnthropicDoor, ResponsesDoor, ChatDoor)
DOORS: tuple[Any, ...] = (RestDoor, McpDoor, *ADAPTERS)
DOCUMENTED = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adapters.md").read_text(), re.DOTALL)
ADAPTER = pytest.mark.parametrize("adapter", ADAPTERS)


service = service_fixture(scope="module", tools=["tests.support.tools.back_end_tools"])


async def good(door: Door) -> Meaning:
    return await door.call("say", {"text": "hey", "times": 2}, call_id=new_id())


async def unknown_tool(door: Door) -> Meaning:
    refused = await door.call("sing", {}, call_id=new_id())
    # Which tools there are depends on what was asked for.
    return replace(refused, text=refused.text.partition("\n")[0])


async def bad_arguments(door: Door) -> Meaning:
    return await door.call("say", {"times": 11, "volume": 3}, call_id=new_id())


async def arguments_of_other_types(door: Door) -> Meaning:
    """As models write them: a list as JSON in a text, and a number in one."""
    media = json.dumps([{"kind": "audio", "media_type": "audio/wav", "data": pictures.WAV, "note": 1}])
    refused = await door.call("show-media", {"media": media}, call_id=new_id())
    assert "/media/0/note" in refused.text, "the list was read, and checked"
    return await door.call("say", {"text": "hey", "times": "2"}, call_id=new_id())


async def arguments_of_no_type(door: Door) -> Meaning:
    return await door.call("say", {"text": "hey", "times": "often"}, call_id=new_id())


async def failing_tool(door: Door) -> Meaning:
    return await door.call("fail", {}, call_id=new_id())


async def cancelled(door: Door) -> Meaning:
    call_id = new_id()
    started = await door.call("wait-for-ever", {}, call_id=call_id, wait=0)
    assert started.task_id is not None
    await door.cancel(started.task_id)
    ended = await door.look(started.task_id)
    again = await door.call("wait-for-ever", {}, call_id=call_id)
    assert replace(again, task_id=None) == replace(ended, task_id=None)
    return ended


async def awaiting_input(door: Door) -> Meaning:
    call_id = new_id()
    asked = await door.call("ask-name", {}, call_id=call_id, wait=0 if isinstance(door, RestDoor) else 30)
    assert asked.task_id is not None
    if not isinstance(door, RestDoor):
        assert "It asks (name): What is your name?" in asked.text
        assert f"Answer with answer-task (taskId {asked.task_id})" in asked.text
    await door.reply(asked.task_id, "name", {"name": "Ann"})
    ended = await door.look(asked.task_id)
    assert (await door.call("ask-name", {}, call_id=call_id)).text == ended.text
    return ended


async def compressed_output(door: Door) -> Meaning:
    short = await door.call("say-much", {"size_bytes": 20_000}, call_id=new_id())
    assert short.locator is not None
    assert short.locator in short.text
    part = {"locator": short.locator, "offset": 19_990}
    assert "x" * 10 in (await door.call("restore-tool-output", part, call_id=new_id())).text
    return replace(short, text="", locator="given")


MEANS = {
    good: Meaning("hey hey"),
    unknown_tool: Meaning("There is no tool 'sing'.", True, "not_found", False),
    bad_arguments: Meaning(
        "The arguments of say do not fit its schema.\n"
        "- /volume: Unknown field 'volume': known are note, text, times.\n"
        "- /text: Field required\n"
        "- /times: Input should be less than or equal to 10\n"
        "Correct every violation listed and call again.",
        True,
        "validation",
        False,
    ),
    arguments_of_other_types: Meaning(
        "hey hey\nNote: arguments were read as the schema has them: /times: a string was read as a number."
    ),
    arguments_of_no_type: Meaning(
        "The arguments of say do not fit its schema.\n"
        "- /times: Input should be a valid integer, unable to parse string as an integer; you sent a string\n"
        "Correct every violation listed and call again.",
        True,
        "validation",
        False,
    ),
    failing_tool: Meaning("The shelf is empty.\nFill it and call again.", True, "not_found", True),
    cancelled: Meaning("Task ID was cancelled.", True, "cancelled", False),
    awaiting_input: Meaning("Hello, Ann!"),
    compressed_output: Meaning("", locator="given"),
}
STARTS_NOTHING = (unknown_tool, bad_arguments, arguments_of_no_type)


@pytest.mark.parametrize("case", MEANS, ids=lambda case: case.__name__)
async def test_a_call_means_the_same_through_every_back_end(http: httpx.AsyncClient, case: Any) -> None:
    async def meaning(door: Door) -> Meaning:
        came = await case(door)
        if case in STARTS_NOTHING:
            assert came.task_id is None
        elif came.task_id is not None:
            came = replace(came, text=came.text.replace(came.task_id, "ID"))
        return replace(came, text=re.sub(r"Task \S+ was", "Task ID was", came.text), task_id=None)

    meanings = await asyncio.gather(*(meaning(door(http)) for door in DOORS))
    assert {door.__name__: came for door, came in zip(DOORS, meanings, strict=True)} == dict.fromkeys(
        [door.__name__ for door in DOORS], MEANS[case]
    )


def runs_and_repeats(asked: Asked) -> Step:
    """A model that calls one tool, and then repeats what it was answered."""
    return says(*asked.results) if asked.results else says(Call("outlast--sleeper", {"seconds": 0.1}))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(DOCUMENTED)))
async def test_the_documented_agents_run_as_they_stand(service: Service, tmp_path: Path, number: int) -> None:
    program = tmp_path / "agent.py"
    program.write_text(DOCUMENTED[number])
    environment = settings_environment(service.temporal_address, service.sandbox, OUTLAST_URL=service.api_url)
    with running_provider(runs_and_repeats) as provider:
        agent = await asyncio.create_subprocess_exec(
            sys.executable,
            str(program),
            cwd=ROOT,
            env={**environment, **provider.environment, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, errors = await agent.communicate()
    assert agent.returncode == 0, errors.decode()
    assert "SUCCEEDED" in said.decode()


@ADAPTER
async def test_a_call_that_outlasts_the_wait_names_its_task(
    http: httpx.AsyncClient, adapter: type[AdapterDoor]
) -> None:
    door = adapter(http)
    answered = await door.send(door.message((new_id(), "wait-for-ever", "{}")), wait=0)
    ((_, text, _),) = door.outputs(answered["append"])
    said, details = split_details(text)
    (report,) = answered["calls"]
    assert details["task"] == {"id": report["task_id"], "status": "working"}
    assert f"Collect the result with get-task (taskId {report['task_id']}" in said
    assert not report["finished"]
    await door.cancel(report["task_id"])


@ADAPTER
async def test_an_open_question_is_told_with_its_schema(http: httpx.AsyncClient, adapter: type[AdapterDoor]) -> None:
    door = adapter(http)
    answered = await door.send(door.message((new_id(), "ask-name", "{}")), wait=30)
    ((_, text, _),) = door.outputs(answered["append"])
    details = split_details(text)[1]
    assert details["task"]["status"] == "input_required"
    assert details["questions"]["name"]["message"] == "What is your name?"
    assert details["questions"]["name"]["schema"]["required"] == ["name"]
    await door.cancel(details["task"]["id"])


@ADAPTER
async def test_several_calls_run_at_once_and_keep_their_order(
    http: httpx.AsyncClient, adapter: type[AdapterDoor]
) -> None:
    door, session = adapter(http), f"order-{adapter.provider}"
    calls = [(new_id(), "wait-for-ever", "{}"), (new_id(), "say", '{"text": "one"}')]
    calls += [(new_id(), "sing", "{}"), (new_id(), "wait-for-ever", "{}")]
    answering = asyncio.create_task(door.send(door.message(*calls), wait=60, session_id=session))

    async def both_wait() -> list[str] | None:
        params = {"session_id": session, "tool": "wait-for-ever", "status": "working"}
        found = (await http.get("/v1/tasks", params=params)).json()["tasks"]
        return [task["id"] for task in found] if len(found) == 2 else None

    for task_id in await eventually(both_wait):
        await door.cancel(task_id)
    answered = await answering
    outputs = door.outputs(answered["append"])
    assert [call_id for call_id, _, _ in outputs] == [call_id for call_id, _, _ in calls]
    assert [report["id"] for report in answered["calls"]] == [call_id for call_id, _, _ in calls]
    categories = [split_details(text)[1].get("error", {}).get("category") for _, text, _ in outputs]
    assert categories == ["cancelled", None, "not_found", "cancelled"]
    assert [report["is_error"] for report in answered["calls"]] == [True, False, True, True]
    assert outputs[1][1] == "one"


@ADAPTER
async def test_the_same_call_again_runs_no_tool_twice(http: httpx.AsyncClient, adapter: type[AdapterDoor]) -> None:
    door, call_id = adapter(http), new_id()

    async def number(arguments: str = "{}", tool: str = "draw-number", **scope: str) -> str:
        answered = await door.send(door.message((call_id, tool, arguments)), wait=30, **scope)
        ((_, text, _),) = door.outputs(answered["append"])
        return text

    session = {"session_id": f"again-{adapter.provider}"}
    first = await number(**session)
    assert await asyncio.gather(*(number(**session) for _ in range(5))) == [first] * 5
    others = {await number(session_id=f"other-{adapter.provider}"), await number(**session, message_id="msg_2")}
    assert len({first, *others}) == 3
    reused = split_details(await number('{"text": "hey"}', "say", **session))[1]
    assert reused["error"]["category"] == "conflict"


async def test_a_task_knows_the_id_that_the_model_gave_the_call(http: httpx.AsyncClient, service: Service) -> None:
    door, call_id = AnthropicDoor(http), new_id()
    scope = {"session_id": "ids", "message_id": "msg_1"}
    answered = await door.send(door.message((call_id, "say", '{"text": "hey"}')), **scope)
    (report,) = answered["calls"]
    assert report["task_id"].startswith("task-"), "the id is a digest: keys of callers are readable nowhere"
    temporal = await connect(service.temporal_address)
    history = await temporal.get_workflow_handle(report["task_id"]).fetch_history()
    given = json.loads(history.events[0].workflow_execution_started_event_attributes.input.payloads[0].data)
    assert {name: given[name] for name in ("session_id", "message_id", "tool_call_id")} == {
        **scope,
        "tool_call_id": call_id,
    }


async def test_a_call_that_the_output_limit_cut_off_is_told_as_that(http: httpx.AsyncClient) -> None:
    call = {"id": new_id(), "type": "function", "function": {"name": "say", "arguments": '{"text": "Once upon'}}
    message = {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "length"}]}
    answered = (await http.post("/v1/adapters/openai-chat/calls", json={"message": message})).raise_for_status().json()
    (said,) = answered["append"]
    assert "cut at its output limit" in said["content"]
    assert "JSON" not in said["content"]
    assert answered["calls"][0].get("task_id") is None


@pytest.mark.parametrize("door", [ResponsesDoor, ChatDoor])
@pytest.mark.parametrize(
    ("arguments", "flaw"),
    [
        ('{"text": ', "not valid JSON"),
        ("[1]", "one JSON object"),
        ('"hey"', "one JSON object"),
        ('{"text": NaN}', "not valid JSON"),
        ('{"text": 1e999}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
async def test_arguments_that_are_no_json_object_are_told_to_the_model(
    http: httpx.AsyncClient, door: type[AdapterDoor], arguments: str, flaw: str
) -> None:
    came = await door(http).call_with("say", arguments, call_id=new_id())
    assert (came.is_error, came.category, came.task_id) == (True, "validation", None)
    assert flaw in came.text


@ADAPTER
@pytest.mark.parametrize(
    "field",
    [
        b'"toolMask": {"\\ud800": true}',
        b'"session_id": "\\uDFFF"',
        b'"message_id": "\xed\xa0\x80"',
        b'"tools": ["\\ud83d x"]',
        b'"mode": "\\ud800"',
        b'"\\ud800": 1',
    ],
)
async def test_half_a_character_beside_the_message_is_replaced_before_it_is_read(
    http: httpx.AsyncClient, adapter: type[AdapterDoor], field: bytes
) -> None:
    url, headers = f"/v1/adapters/{adapter.provider}/calls", {"content-type": "application/json"}
    body = field.join((b'{"message": [], ', b"}"))
    replaced = body.replace(b"\\ud800", b"\\ufffd").replace(b"\\uDFFF", b"\\ufffd").replace(b"\\ud83d", b"\\ufffd")
    answers = [await http.post(url, content=content, headers=headers) for content in (body, replaced)]
    assert answers[0].status_code < 500
    if b"\xed" not in field:
        assert (answers[0].status_code, answers[0].json()) == (answers[1].status_code, answers[1].json())


async def test_half_a_character_in_the_message_is_replaced_and_noted(http: httpx.AsyncClient) -> None:
    call = b'{"type": "tool_use", "id": "toolu_half", "name": "say", "input": {"text": "caf\\ud83d"}}'
    body, headers = call.join((b'{"message": [', b"]}")), {"content-type": "application/json"}
    answered = (await http.post("/v1/adapters/anthropic/calls", content=body, headers=headers)).raise_for_status()
    (report,) = answered.json()["calls"]
    assert (report["is_error"], report["finished"]) == (False, True)
    said, note = (block["text"] for block in answered.json()["append"][0]["content"][0]["content"])
    assert said == "caf\ufffd"
    assert "not valid Unicode" in note


@pytest.mark.parametrize("door", [ResponsesDoor, ChatDoor])
async def test_half_a_character_in_the_text_of_arguments_is_replaced(
    http: httpx.AsyncClient, door: type[AdapterDoor]
) -> None:
    came = await door(http).call_with("say", '{"text": "caf\\ud800"}', call_id=new_id())
    assert not came.is_error
    assert "caf\ufffd" in came.text


@pytest.mark.parametrize("door", [ResponsesDoor, ChatDoor])
async def test_a_call_without_arguments_may_say_nothing(http: httpx.AsyncClient, door: type[AdapterDoor]) -> None:
    assert not (await door(http).call_with("draw-number", "", call_id=new_id())).is_error


@ADAPTER
async def test_fields_with_odd_names_are_offered_and_found_again(
    http: httpx.AsyncClient, adapter: type[AdapterDoor]
) -> None:
    door = adapter(http)
    url = f"/v1/adapters/{door.provider}/tools"
    listed = (await http.get(url, params={"tools": "dev"})).raise_for_status().json()["tools"]
    plain = [{**tool, **tool.pop("function", {})} for tool in listed]
    (odd,) = [tool for tool in plain if tool["name"].startswith("shelf-of-odd-fields")]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]) for tool in plain)
    schema = odd.get("input_schema") or odd["parameters"]
    (field,) = schema["required"]
    assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", field)
    assert "anyOf" not in schema
    assert "anyOf" in odd["description"]
    came = await door.call(odd["name"], {field: "b7", "limit": 2}, call_id=new_id())
    assert came.text == "b7 of 2"
    refused = await door.call(odd["name"], {}, call_id=new_id())
    assert (ODD_FIELD in refused.text, field in refused.text) == (True, True)
    assert ODD_NAME in refused.text


async def test_mcp_lists_schemas_that_providers_accept_and_finds_the_fields_again(http: httpx.AsyncClient) -> None:
    """Its clients hand them on, and a provider refuses the whole request for one of them."""
    wire = Wire(http, MODERN, "?tools=dev,runs")
    tools = {tool["name"]: tool for tool in (await wire.request("tools/list"))["tools"]}
    schema, description = tools[ODD_NAME]["inputSchema"], tools[ODD_NAME]["description"]
    (field,) = schema["required"]
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in schema["properties"])
    assert (schema["type"], "anyOf" in schema, "anyOf" in description) == ("object", False, True)

    async def called(**arguments: Any) -> dict[str, Any]:
        return await wire.request("tools/call", {"name": ODD_NAME, "arguments": arguments})

    assert text_of(await called(**{field: "b7", "limit": "2"})).startswith("b7 of 2\nNote: ")
    assert text_of(await called(**{ODD_FIELD: "b7", "limit": 2})) == "b7 of 2", "its own name is known, too"
    missing, wrong = text_of(await called(limit=1)), text_of(await called(**{field: {}}))
    assert f'"{field}" ({ODD_FIELD})' in missing
    assert f"/{field}: " in wrong
    own = {tool["name"]: tool for tool in (await http.get("/v1/tools")).json()["tools"]}
    for name, tool in tools.items():
        if name != ODD_NAME and name in own and "waitSecs" not in tool["inputSchema"].get("properties", {}):
            assert tool["inputSchema"] == own[name]["input_schema"], name


@ADAPTER
async def test_tools_that_were_not_offered_are_unknown(http: httpx.AsyncClient, adapter: type[AdapterDoor]) -> None:
    door = adapter(http)
    answered = await door.send(door.message((new_id(), "say", '{"text": "hey"}')), tools=["docs"])
    (report,) = answered["calls"]
    assert report["error"]["category"] == "not_found"
    assert "say" not in report["error"]["allowed_tools"]
    assert {"search-apify-docs", "get-task"} <= set(report["error"]["allowed_tools"])


async def test_every_piece_of_an_answer_is_shown_or_told(http: httpx.AsyncClient) -> None:
    async def shown(door: AdapterDoor) -> Any:
        return (await door.send(door.message((new_id(), "show", "{}"))))["append"]

    blocks = (await shown(AnthropicDoor(http)))[0]["content"][0]["content"]
    assert [block["type"] for block in blocks] == ["text", "image", "text", "text", "document"]
    assert "audio/wav" in blocks[2]["text"]
    assert "https://example.com/a.csv" in blocks[3]["text"]
    items = (await shown(ResponsesDoor(http)))[0]["output"]
    assert [item["type"] for item in items] == ["input_text", "input_image", "input_text", "input_text", "input_file"]
    assert items[1]["image_url"].startswith("data:image/png;base64,")
    told = (await shown(ChatDoor(http)))[0]["content"]
    assert [part in told for part in ("Look:", "image/png", "audio/wav", "a.csv", "application/pdf")] == [True] * 5


async def test_media_that_are_not_what_they_are_called_are_repaired_or_told(http: httpx.AsyncClient) -> None:
    """Programs and MCP clients hand an answer to a model as it is, so a picture that it refuses ends their session."""
    shown = [
        ("image/png", pictures.JPEG),
        ("image/png", ""),
        ("image/png", "no base64!"),
        ("image/svg+xml", pictures.SVG),
    ]
    media = [{"kind": "image", "media_type": media_type, "data": data} for media_type, data in shown]
    arguments = json.dumps({"media": media})

    async def appended(door: AdapterDoor) -> Any:
        return (await door.send(door.message((new_id(), "show-media", arguments))))["append"]

    blocks = (await appended(AnthropicDoor(http)))[0]["content"][0]["content"]
    assert [block["type"] for block in blocks] == ["text", "image", "text", "text", "text"]
    assert blocks[1]["source"] == {"type": "base64", "media_type": "image/jpeg", "data": pictures.JPEG}
    items = (await appended(ResponsesDoor(http)))[0]["output"]
    assert items[1]["image_url"] == f"data:image/jpeg;base64,{pictures.JPEG}"
    told = (await appended(ChatDoor(http)))[0]["content"]
    assert (told.count("cannot be shown here"), "image/jpeg" in told) == (4, True)
    wire = Wire(http, MODERN, "?tools=dev")
    content = (await wire.request("tools/call", {"name": "show-media", "arguments": {"media": media}}))["content"]
    assert [block["type"] for block in content] == ["text", "image", "text", "text", "text"]
    assert (content[1]["mimeType"], content[1]["data"]) == ("image/jpeg", pictures.JPEG)
    assert [word in block["text"] for word, block in zip(("empty", "not base64", "svg"), content[2:], strict=True)] == [
        True
    ] * 3


@ADAPTER
async def test_an_empty_answer_and_a_message_without_calls(http: httpx.AsyncClient, adapter: type[AdapterDoor]) -> None:
    door = adapter(http)
    empty = await door.call("say-nothing", {}, call_id=new_id())
    assert (empty.text, empty.is_error) == ("", False)
    answered = await door.send(door.message())
    assert answered == {"append": [], "calls": []}


@ADAPTER
async def test_what_says_nothing_of_a_call_refuses_the_request(service: Service, adapter: type[AdapterDoor]) -> None:
    away = await connect(f"127.0.0.1:{free_port()}", lazy=True)
    async with serving_api(away, api_settings(service.sandbox)) as api:
        message = adapter(api).message((new_id(), "get-actor-run-list", "{}")).model_dump(mode="json")
        response = await api.post(f"/v1/adapters/{adapter.provider}/calls", json={"message": message})
    assert response.status_code == 503
    assert response.json()["type"] == "urn:outlast:problem:temporal-unavailable"


@ADAPTER
async def test_what_is_no_message_of_the_provider_is_refused(
    http: httpx.AsyncClient, adapter: type[AdapterDoor]
) -> None:
    url = f"/v1/adapters/{adapter.provider}/calls"
    for message in ({"hello": "world"}, {"content": 1, "output": 1, "tool_calls": 1}):
        response = await http.post(url, json={"message": message})
        assert response.status_code == 400, response.text
        assert response.json()["type"] == "urn:outlast:problem:bad-request"
    response = await http.post(url, json={"message": [], "mode": "none"})
    assert response.status_code == 404
    named = json.dumps(adapter(http).message(("x" * 201, "say", "{}")).model_dump(mode="json"))
    assert (await http.post(url, json={"message": json.loads(named)})).status_code == 400
