"""Masks through every front door of a real stack, and the switches that decide whether they count."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.api.settings import ApiSettings
from tests.support.calls.tasks import completed
from tests.support.http.mcp_wire import MODERN, Wire, WireError, text_of
from tests.support.ports import free_port
from tests.support.processes.module_process import started_module
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service, settings_environment

LIST = {"tool": "get-dataset-list"}
ONLY_RUNS = {"get-actor-run": True, "get-dataset-list": False, "get-actor-log": "yes"}
PROVIDERS = ("anthropic", "openai-responses", "openai-chat")


@pytest.fixture
async def masking(temporal: Client, sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    async with serving_api(temporal, api_settings(sandbox, tool_masking=True)) as api:
        yield api


@pytest.fixture(scope="module")
def masking_process(tmp_path_factory: pytest.TempPathFactory, service: Service) -> Iterator[str]:
    """The address of an API process with masks switched on, beside the shared worker."""
    folder, port = tmp_path_factory.mktemp("masking"), free_port()
    environment = settings_environment(
        service.temporal_address,
        service.sandbox,
        OUTLAST_DATA_DIR=str(folder),
        OUTLAST_API_PORT=str(port),
        OUTLAST_TOOL_MASKING="true",
    )
    url = f"http://127.0.0.1:{port}"
    with started_module(
        "outlast.api", ready_url=f"{url}/readyz", log=folder / "api.log", environment=environment
    ) as process:
        process.await_answer()
        yield url


@pytest.fixture
async def process_api(masking_process: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=masking_process, trust_env=False, timeout=180) as api:
        yield api


async def count(api: httpx.AsyncClient, outcome: str) -> float:
    """How often a mask was resolved so in this process."""
    name = f'outlast_tool_mask_resolutions_total{{outcome="{outcome}"}} '
    lines = (await api.get("/metrics")).text.splitlines()
    return next((float(line.removeprefix(name)) for line in lines if line.startswith(name)), 0)


def masked(envelope: dict[str, Any], *allowed: str) -> None:
    """This is what is said of a tool that the mask switches off."""
    assert (envelope["category"], envelope["retryable"]) == ("permission", False)
    assert envelope["allowed_tools"] == list(allowed)
    assert envelope["hint"]


@pytest.mark.parametrize("field", ["toolMask", "tool_mask"])
async def test_a_masked_tool_is_refused_and_nothing_is_started(masking: httpx.AsyncClient, field: str) -> None:
    before = await count(masking, "masked")
    refused = await masking.post("/v1/tasks", json={**LIST, "session_id": "masked", field: ONLY_RUNS})
    assert refused.status_code == 403
    assert refused.json()["type"] == "urn:outlast:problem:tool-masked"
    masked(refused.json()["error"], "get-actor-run")
    assert await count(masking, "masked") == before + 1
    assert (await masking.get("/v1/tasks", params={"session_id": "masked"})).json()["tasks"] == []


async def test_an_active_tool_is_called_and_its_hints_name_active_tools_only(
    masking: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    dataset_id = sandbox.new_dataset([{"n": n} for n in range(3)])
    body = {"tool": "get-actor-run-log", "arguments": {"runId": "absent"}, "toolMask": {"get-actor-run-log": True}}
    answer = await completed(masking, body)
    assert answer["result"]["error"]["category"] == "not_found"
    history = await temporal.get_workflow_handle(answer["task"]["id"]).fetch_history()
    assert b"tool_mask" in history.events[0].workflow_execution_started_event_attributes.input.payloads[0].data
    mask = {"get-dataset-items": True}
    rows = await masking.post(
        "/v1/tools/get-dataset-items/call", json={"arguments": {"datasetId": dataset_id}, "toolMask": mask}
    )
    assert rows.json()["result"]["is_error"] is False


@pytest.mark.parametrize("mask", [{}, {"get-actor-run": "yes", "call-actor": 1}, None])
async def test_an_empty_mask_is_no_mask(masking: httpx.AsyncClient, mask: Any) -> None:
    before = await count(masking, "unmasked")
    assert (await completed(masking, {**LIST, "toolMask": mask}))["result"]["is_error"] is False
    assert await count(masking, "unmasked") == before + 1


async def test_a_mask_that_enables_nothing_allows_nothing(masking: httpx.AsyncClient) -> None:
    before = await count(masking, "nothing")
    refused = await masking.post("/v1/tasks", json={"tool": "call-actor", "toolMask": {"call-actor": False}})
    masked(refused.json()["error"])
    assert "without tools" in refused.json()["error"]["hint"]
    assert await count(masking, "nothing") == before + 1


@pytest.mark.parametrize("mask", [[], "call-actor", 1, True])
@pytest.mark.parametrize("door", ["/v1/tasks", "/v1/tools/get-dataset-list/call", "/v1/adapters/anthropic/calls"])
async def test_a_mask_that_is_no_object_is_refused(masking: httpx.AsyncClient, door: str, mask: Any) -> None:
    body: dict[str, Any] = {"/v1/tasks": LIST, "/v1/adapters/anthropic/calls": {"message": []}}.get(door, {})
    refused = await masking.post(door, json={**body, "toolMask": mask})
    assert refused.status_code == 422
    assert [violation["path"] for violation in refused.json()["violations"]] == ["/toolMask"]


async def test_an_unknown_tool_is_told_of_the_active_ones_only(masking: httpx.AsyncClient) -> None:
    body = {"tool": "get-actor-runs", "toolMask": {"get-actor-run": True, "get-actor-run-list": False}}
    error = (await masking.post("/v1/tasks", json=body)).json()["error"]
    assert (error["category"], error["allowed_tools"]) == ("not_found", ["get-actor-run"])
    assert error["hint"] == "Did you mean get-actor-run?"


async def test_the_mask_is_no_part_of_what_an_idempotency_key_stands_for(masking: httpx.AsyncClient) -> None:
    first = await completed(masking, LIST, **{"Idempotency-Key": "mask-or-not"})
    mask = {"get-dataset-list": True}
    again = await completed(masking, {**LIST, "toolMask": mask}, **{"Idempotency-Key": "mask-or-not"})
    assert again["task"]["id"] == first["task"]["id"]


async def test_mcp_refuses_masked_tools_those_included_that_start_nothing(process_api: httpx.AsyncClient) -> None:
    wire = Wire(process_api, MODERN, "?tools=runs,get-task")
    meta = {"outlast/tool-mask": {"get-actor-run-list": True}}
    for tool in ("get-actor-log", "get-task"):
        called = {"name": tool, "arguments": {"runId": "x", "taskId": "x"}, "_meta": meta}
        result = await wire.request("tools/call", called)
        assert result["isError"] is True
        masked(result["_meta"]["outlast/error"], "get-actor-run-list")
    active = await wire.request("tools/call", {"name": "get-actor-run-list", "arguments": {}, "_meta": meta})
    assert active["isError"] is False
    with pytest.raises(WireError) as unknown:
        await wire.request("tools/call", {"name": "get-actor-runs", "arguments": {"token": "abcdefgh"}, "_meta": meta})
    assert unknown.value.data is not None
    assert unknown.value.data["allowed_tools"] == ["get-actor-run-list"]
    assert unknown.value.data["input"] == '{"token": "***"}'
    with pytest.raises(WireError, match="outlast/tool-mask"):
        await wire.request("tools/call", {**called, "_meta": {"outlast/tool-mask": ["get-task"]}})


def message(provider: str, *tools: str) -> Any:
    calls = [(f"call-{index}", tool) for index, tool in enumerate(tools)]
    if provider == "anthropic":
        return [{"type": "tool_use", "id": call_id, "name": tool, "input": {}} for call_id, tool in calls]
    if provider == "openai-responses":
        return [
            {"type": "function_call", "call_id": call_id, "name": tool, "arguments": "{}"} for call_id, tool in calls
        ]
    function_calls = [
        {"id": call_id, "type": "function", "function": {"name": tool, "arguments": "{}"}} for call_id, tool in calls
    ]
    return {"role": "assistant", "tool_calls": function_calls}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_adapters_give_masked_and_unknown_calls_an_error_result(
    masking: httpx.AsyncClient, provider: str
) -> None:
    said = message(provider, "get-dataset-list", "list-tasks", "get-actor-runs", "get-actor-run-list")
    body = {"message": said, "toolMask": {"get-actor-run-list": True}, "session_id": f"masks-{provider}"}
    response = await masking.post(f"/v1/adapters/{provider}/calls", json=body)
    assert response.status_code == 200, response.text
    storage, in_front, unknown, active = response.json()["calls"]
    for refused in (storage, in_front):
        masked(refused["error"], "get-actor-run-list")
        assert refused["task_id"] is None
    assert (unknown["error"]["category"], unknown["error"]["allowed_tools"]) == ("not_found", ["get-actor-run-list"])
    assert unknown["structured"] == {
        "tool": "get-actor-runs",
        "input": "{}",
        "category": "not_found",
        "allowed_tools": ["get-actor-run-list"],
    }
    assert active["is_error"] is False
    assert json.dumps(response.json()["append"]).count("allowed_tools") == 3
    listed = f"/v1/adapters/{provider}/tools"
    assert (await masking.get(listed)).content == (await masking.get(listed)).content


def serving(temporal: Client, sandbox: Sandbox, service: Service) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """The API with what the environment says, and the store of the service's worker."""
    known = api_settings(sandbox, store_url=str(service.folder / "outputs"))
    return serving_api(temporal, ApiSettings(**{name: getattr(known, name) for name in known.model_fields_set}))


@pytest.mark.parametrize(
    ("switches", "masks", "compresses"),
    [
        ({}, False, True),
        ({"OUTLAST_TOOL_MASKING": "true"}, True, True),
        ({"OUTLAST_TOOL_MASKING": "false", "OUTLAST_COMPRESSION": "false"}, False, False),
        ({"OUTLAST_TOOL_MASKING": "true", "OUTLAST_COMPRESSION": "false"}, True, False),
        ({"OUTLAST_TOOL_MASKING": "true", "OUTLAST_KILL_SWITCH": "true"}, False, False),
        ({"OUTLAST_TOOL_MASKING": "true", "OUTLAST_KILL_SWITCH": "false"}, True, True),
        ({"OUTLAST_KILL_SWITCH": "true", "OUTLAST_COMPRESSION": "true"}, False, False),
    ],
)
async def test_switches_of_the_environment_decide_in_both_directions(
    temporal: Client,
    sandbox: Sandbox,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    switches: dict[str, str],
    masks: bool,
    compresses: bool,
) -> None:
    for name, value in switches.items():
        monkeypatch.setenv(name, value)
    dataset_id = sandbox.new_dataset([{"n": n, "text": "x" * 100} for n in range(100)])
    read = {"tool": "get-dataset-items", "arguments": {"datasetId": dataset_id, "limit": 100}}
    async with serving(temporal, sandbox, service) as api:
        ignored = await count(api, "switched_off")
        answer = await api.post(
            "/v1/tasks", json={**read, "toolMask": {"call-actor": True}}, headers={"Prefer": "wait=60"}
        )
        assert answer.status_code == (403 if masks else 200), answer.text
        assert await count(api, "switched_off") == ignored + (0 if masks else 1)
        result = (await completed(api, {**read, "options": {"output": {"threshold_bytes": 4096}}}))["result"]
        assert result["is_error"] is False
        assert ((result.get("structured") or {}).get("compressed") is True) is compresses


async def test_a_call_under_a_mask_offers_active_tools_only(masking: httpx.AsyncClient) -> None:
    """What a tool says goes through `HandlerContext.offers`; the hint for a search names a tool to go on with."""
    body = {"tool": "search-actors", "arguments": {"keywords": "sleeper"}}
    everything = await completed(masking, body)
    alone = await completed(masking, {**body, "toolMask": {"search-actors": True}})
    assert "call-actor" in text_of(everything["result"])
    assert "call-actor" not in text_of(alone["result"])


async def test_every_resolution_is_logged_with_what_was_selected_and_skipped_and_why(
    masking: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="outlast.api"):
        await masking.post("/v1/tasks", json={**LIST, "toolMask": ONLY_RUNS})
    (line,) = [vars(record) for record in caplog.records if record.message == "tool mask resolved"]
    assert (line["tool"], line["mask_outcome"], line["selected"]) == ("get-dataset-list", "masked", ["get-actor-run"])
    assert (line["skipped"]["get-dataset-list"], line["skipped"]["call-actor"]) == ("disabled", "not_named")
