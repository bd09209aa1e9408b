"""The task API over a real socket: what is accepted, what is refused, and what each refusal says."""

import json
import re
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.api.tasks.recorded_arguments import MAX_CALL_BYTES
from outlast.api.temporal.history_details import TASK_WORKFLOW
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.tool_calls import TaskCompleted, TaskStatus, TaskSummary, ToolCall, ToolResult
from tests.support.calls.tasks import WAIT, completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

COMPLETED = TaskCompleted(task_id="-", tool="say", status=TaskStatus.COMPLETED)


def problem(response: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The problem document of a refusal (RFC 9457)."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == status
    assert document["type"] == f"urn:outlast:problem:{kind}"
    assert document["title"]
    assert document["detail"]
    assert document["instance"] == response.request.url.path
    return document


@pytest.fixture
async def tasks_before(api: httpx.AsyncClient) -> set[str]:
    return await task_ids(api)


async def task_ids(api: httpx.AsyncClient) -> set[str]:
    return {task["id"] for task in (await api.get("/v1/tasks", params={"page_size": 200})).json()["tasks"]}


async def test_a_task_is_started_shown_and_collected(api: httpx.AsyncClient) -> None:
    response = await api.post("/v1/tasks", json=sleeper_call(0.1))
    assert response.status_code == 201
    task = response.json()
    assert (task["tool"], task["status"], task["executor"], task["mode"]) == (
        "call-actor",
        "working",
        "sync",
        "default",
    )
    assert task["workflow_url"] == f"https://temporal.example/namespaces/default/workflows/{task['id']}"
    assert (await result_of(api, task["id"]))["result"]["is_error"] is False
    again = await result_of(api, task["id"])
    assert again == await result_of(api, task["id"])
    shown = (await api.get(f"/v1/tasks/{task['id']}")).json()
    assert (shown["status"], shown["run"]["status"]) == ("completed", "SUCCEEDED")
    assert shown["finished_at"] > shown["created_at"]


async def test_the_stats_of_a_run_keep_the_platforms_names(api: httpx.AsyncClient) -> None:
    answer = await completed(api, sleeper_call(0.1))
    assert {"durationMillis", "runTimeSecs", "computeUnits"} <= set(answer["result"]["structured"]["stats"])


async def test_prefer_wait_answers_with_the_result_or_says_that_it_is_not_there(api: httpx.AsyncClient) -> None:
    done = await api.post("/v1/tasks", json=sleeper_call(0.1), headers={"Prefer": "respond-async, wait=60"})
    assert (done.status_code, done.headers["preference-applied"]) == (200, "wait=60")
    assert done.headers["location"] == f"/v1/tasks/{done.json()['task']['id']}"
    open_still = await api.post("/v1/tasks", json=sleeper_call(30), headers={"Prefer": "wait=1"})
    assert (open_still.status_code, open_still.json().get("result")) == (202, None)
    task_id = open_still.json()["task"]["id"]
    not_yet = await api.get(f"/v1/tasks/{task_id}/result")
    assert (not_yet.status_code, not_yet.json()["task"]["status"]) == (202, "working")
    assert (await api.post(f"/v1/tasks/{task_id}/cancel")).status_code == 202


async def test_a_tool_is_called_in_one_request(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    dataset_id = sandbox.new_dataset([{"n": n} for n in range(5)])
    body = {"arguments": {"datasetId": dataset_id, "offset": 1, "limit": 2}}
    response = await api.post("/v1/tools/get-dataset-items/call", json=body)
    assert response.status_code == 200
    structured = response.json()["result"]["structured"]
    assert structured["items"] == [{"n": 1}, {"n": 2}]
    assert (structured["totalItemCount"], structured["nextOffset"]) == (5, 3)
    assert (await api.get(response.headers["location"])).json()["status"] == "completed"


async def test_a_call_copied_from_mcp_may_say_how_long_to_wait(api: httpx.AsyncClient) -> None:
    run_input = {"seconds": 0.1, "steps": 1}
    copied = {"arguments": {"actor": "outlast/sleeper", "input": run_input, "waitSecs": 30}}
    assert (await api.post("/v1/tools/call-actor/call", json=copied)).json()["task"]["status"] == "completed"
    direct = {"tool": "outlast--sleeper", "arguments": {**run_input, "waitSecs": 30}}
    started = await api.post("/v1/tasks", json=direct, headers={"Prefer": "wait=30"})
    assert started.json()["task"]["status"] == "completed"
    short = {"arguments": {"datasetId": "x", "waitSecs": 30}}
    assert (await api.post("/v1/tools/get-dataset/call", json=short)).status_code == 422, "it lists no such argument"


async def test_the_other_tools_read_and_stop_runs(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    started_run = (await completed(api, sleeper_call(60, mode="openai")))["result"]["structured"]["runId"]

    async def call(tool: str, **arguments: Any) -> dict[str, Any]:
        response = await api.post(f"/v1/tools/{tool}/call", json={"arguments": {"runId": started_run, **arguments}})
        assert response.status_code == 200
        return response.json()["result"]

    assert (await call("get-actor-run"))["structured"]["status"] in {"READY", "RUNNING"}
    assert (await call("get-actor-log", lines=5))["structured"]["runId"] == started_run
    aborted = await call("abort-actor-run")
    assert aborted["structured"]["status"] == "ABORTED" == sandbox.run(started_run)["status"]
    gone = await api.post("/v1/tools/get-actor-run/call", json={"arguments": {"runId": "doesNotExist12345"}})
    assert (gone.status_code, gone.json()["task"]["status"]) == (200, "failed")
    assert gone.json()["result"]["error"]["category"] == "not_found"


@pytest.mark.parametrize("mode", ["default", "openai"])
async def test_a_run_is_told_with_how_it_was_started_and_how_it_ended(api: httpx.AsyncClient, mode: str) -> None:
    failing = {"actor": "outlast/sleeper", "input": {"seconds": 0, "failWith": {"exitCode": 3}}}
    options = {"memory": 512, "timeout": 77, "maxTotalChargeUsd": 2}
    failed = await completed(api, {"tool": "call-actor", "arguments": {**failing, "callOptions": options}})
    body = {"mode": mode, "arguments": {"runId": failed["result"]["structured"]["runId"]}}
    result = (await api.post("/v1/tools/get-actor-run/call", json=body)).json()["result"]
    run = result["structured"]
    assert (run["status"], run["exitCode"]) == ("FAILED", 3)
    assert run["options"].items() >= {"memoryMbytes": 512, "timeoutSecs": 77, "build": "latest"}.items()
    assert float(run["options"]["maxTotalChargeUsd"]) == 2
    assert re.fullmatch(r"\d+\.\d+\.\d+", run["buildNumber"])
    assert run["stats"]["runTimeSecs"] >= 0
    if mode == "default":
        facts = f"Exit code 3, build {run['buildNumber']}, 512 MB of memory, time-out 77 s."
        assert facts in result["content"][0]["text"]


@pytest.mark.parametrize("run_id", ["../users/me", "a/b", "x?y=1", "..", "%2e%2e/users/me", "é"])
async def test_an_id_is_never_more_than_an_id(api: httpx.AsyncClient, run_id: str) -> None:
    for tool in ("get-actor-run", "get-actor-log", "abort-actor-run"):
        response = await api.post(f"/v1/tools/{tool}/call", json={"arguments": {"runId": run_id}}, timeout=180)
        assert response.json()["result"]["error"]["category"] == "not_found", response.text


async def test_tools_are_listed_with_their_schemas_by_mode(api: httpx.AsyncClient) -> None:
    tools = {tool["name"]: tool for tool in (await api.get("/v1/tools")).json()["tools"]}
    assert {"call-actor", "get-actor-run", "get-dataset-items", "abort-actor-run", "get-actor-log"} <= set(tools)
    assert "seconds" in tools["outlast--sleeper"]["input_schema"]["properties"]
    assert tools["outlast--sleeper"]["actor"] == "outlast/sleeper"
    for tool in tools.values():
        one = (await api.get(f"/v1/tools/{tool['name']}")).json()
        assert one == tool
    ui = (await api.get("/v1/tools/call-actor", params={"mode": "openai"})).json()
    assert ui["description"] != tools["call-actor"]["description"]


@pytest.mark.parametrize("body", [b"", b"{", b'{"tool": }', b"\xff\xfe", b'{"tool": "call-actor"'])
async def test_bad_json_is_refused(api: httpx.AsyncClient, body: bytes) -> None:
    response = await api.post("/v1/tasks", content=body, headers={"content-type": "application/json"})
    assert response.status_code in ({422} if body == b"" else {400})
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]


@pytest.mark.parametrize("half", [b"\\ud800", b"\\uDFFF", b"\\u0000", b"\xed\xa0\xbd", b"\xff"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_invalid_text_in_a_request_is_replaced(api: httpx.AsyncClient, half: bytes, encoding: str) -> None:
    if encoding == "utf-16" and not half.isascii():
        pytest.skip("bytes that are no UTF-8 stand in UTF-8 alone")
    body = (
        b'{"tool": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"message": "caf%b", "x%b": 1, '
        % (
            half,
            half,
        )
    )
    body += b'"seconds": 0.1, "steps": 1}}}'
    content = body.decode().encode(encoding) if encoding != "utf-8" else body
    response = await api.post("/v1/tasks", content=content, headers={"content-type": "application/json"})
    assert response.status_code in (200, 201, 202), response.text
    rows = (await api.get(f"/v1/tasks/{response.json()['id']}/rows?format=jsonl")).text
    assert "caf\ufffd" in rows
    result = (await api.get(f"/v1/tasks/{response.json()['id']}/result")).json()["result"]
    assert "not valid Unicode" in result["content"][-1]["text"]


async def test_a_whole_character_may_be_escaped(api: httpx.AsyncClient) -> None:
    body = '{"tool": "call-actr", "arguments": {"query": "\\ud83d\\ude00"}}'
    response = await api.post("/v1/tasks", content=body, headers={"content-type": "application/json"})
    problem(response, 404, "unknown-tool")


async def test_a_body_of_another_shape_is_refused_with_every_violation(
    api: httpx.AsyncClient, tasks_before: set[str]
) -> None:
    body = {"tool": "", "arguments": [], "options": {"deadline_seconds": 0}, "extra/field": 1}
    document = problem(await api.post("/v1/tasks", json=body), 422, "invalid-request")
    assert {violation["path"] for violation in document["violations"]} == {
        "/tool",
        "/arguments",
        "/options/deadline_seconds",
        "/extra~1field",
    }
    assert await task_ids(api) == tasks_before


async def test_an_unknown_tool_is_refused_with_suggestions(api: httpx.AsyncClient, tasks_before: set[str]) -> None:
    for response in (
        await api.post("/v1/tasks", json={"tool": "call-actr"}),
        await api.post("/v1/tools/call-actr/call", json={}),
        await api.get("/v1/tools/call-actr"),
    ):
        document = problem(response, 404, "unknown-tool")
        assert "call-actor" in document["error"]["hint"]
        assert "get-dataset-items" in document["error"]["allowed_tools"]
    assert await task_ids(api) == tasks_before


async def test_an_actor_that_does_not_exist_is_no_tool(api: httpx.AsyncClient) -> None:
    problem(await api.post("/v1/tasks", json={"tool": "outlast--sleepr"}), 404, "unknown-tool")


async def test_an_unknown_mode_is_refused(api: httpx.AsyncClient) -> None:
    body = {"tool": "call-actor", "mode": "anthropic"}
    document = problem(await api.post("/v1/tasks", json=body), 404, "unknown-tool")
    assert "openai" in document["error"]["hint"]


async def test_arguments_that_break_a_schema_are_refused_with_every_path(
    api: httpx.AsyncClient, tasks_before: set[str]
) -> None:
    ours = {"tool": "get-dataset-items", "arguments": {"limit": 0, "offset": -1, "sort": 1}}
    actors = {"tool": "outlast--sleeper", "arguments": {"seconds": -1, "steps": 0, "failWith": {"exitCode": 999}}}
    for body, paths in (
        (ours, {"/datasetId", "/limit", "/offset", "/sort"}),
        (actors, {"/seconds", "/steps", "/failWith/exitCode"}),
    ):
        document = problem(await api.post("/v1/tasks", json=body), 422, "invalid-call")
        assert {violation["path"] for violation in document["error"]["violations"]} == paths
        assert document["error"]["category"] == "validation"
    assert await task_ids(api) == tasks_before


async def test_an_input_that_only_the_platform_refuses_fails_the_task(api: httpx.AsyncClient) -> None:
    body = {"tool": "call-actor", "arguments": {"actor": "outlast/absent", "input": {}}}
    response = await api.post("/v1/tasks", json=body, headers=WAIT)
    assert response.status_code in {200, 404}
    assert (response.json().get("error") or response.json()["result"]["error"])["category"] == "not_found"


LIMIT = 8 * 1024 * 1024


@pytest.mark.parametrize("announced", [True, False], ids=["content-length", "chunked"])
async def test_a_body_over_the_limit_is_refused(api: httpx.AsyncClient, announced: bool) -> None:
    body = json.dumps({"tool": "call-actor", "arguments": {"input": "x" * LIMIT}}).encode()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1 << 20):
            yield body[start : start + (1 << 20)]

    content = body if announced else chunks()
    response = await api.post("/v1/tasks", content=content, headers={"content-type": "application/json"})
    assert str(LIMIT) in problem(response, 413, "body-too-large")["detail"]


@pytest.mark.parametrize("actor", ["x" * 3_000, "nul\x00byte", "quote'\"\\"])
async def test_odd_actor_names_do_no_harm(api: httpx.AsyncClient, actor: str) -> None:
    body = {"tool": "call-actor", "arguments": {"actor": actor}}
    response = await api.post("/v1/tasks", json=body, headers=WAIT)
    assert response.status_code in {200, 404, 422}, response.text


async def test_arguments_too_large_for_a_worker_are_refused_before_anything_starts(
    service: Service, sandbox: Sandbox
) -> None:
    settings = api_settings(sandbox, max_body_bytes=2 * MAX_CALL_BYTES)
    async with serving_api(await connect(service.temporal_address), settings) as api:
        response = await api.post("/v1/tasks", json=sleeper_call(0, filler="y" * MAX_CALL_BYTES), headers=WAIT)
        assert "key-value store" in problem(response, 413, "call-too-large")["detail"]


async def test_a_tool_that_manages_tasks_cannot_run_as_a_task(api: httpx.AsyncClient) -> None:
    response = await api.post("/v1/tasks", json={"tool": "get-task", "arguments": {"taskId": "t"}})
    assert "/v1/tasks" in problem(response, 422, "invalid-call")["error"]["hint"]


@pytest.mark.parametrize("depth", [200, 2_000, 100_000])
async def test_deeply_nested_bodies_do_no_harm(api: httpx.AsyncClient, depth: int) -> None:
    body = b'{"tool": "get-dataset-items", "arguments": {"datasetId": ' + b"[" * depth + b"]" * depth + b"}}"
    response = await api.post("/v1/tasks", content=body, headers={"content-type": "application/json"})
    assert response.status_code in {400, 422}


@pytest.mark.parametrize("path", ["", "/result", "/events"])
@pytest.mark.parametrize("task_id", ["absent", "session:local:absent", "%00", "x" * 200])
async def test_an_unknown_task_is_not_found(api: httpx.AsyncClient, task_id: str, path: str) -> None:
    response = await api.get(f"/v1/tasks/{task_id}{path}")
    assert (response.status_code, response.json()["type"]) == (404, "urn:outlast:problem:task-not-found")


async def test_an_unknown_task_cannot_be_cancelled(api: httpx.AsyncClient) -> None:
    problem(await api.post("/v1/tasks/absent/cancel"), 404, "task-not-found")


async def test_a_session_is_not_a_task(api: httpx.AsyncClient) -> None:
    await completed(api, sleeper_call(0) | {"session_id": "no-task"})
    session = "session:local:no-task"
    for path in ("", "/result", "/events"):
        problem(await api.get(f"/v1/tasks/{session}{path}"), 404, "task-not-found")
    problem(await api.post(f"/v1/tasks/{session}/cancel"), 404, "task-not-found")
    assert (await completed(api, sleeper_call(0) | {"session_id": "no-task"}))["task"]["status"] == "completed"


async def test_a_finished_task_cannot_be_cancelled(api: httpx.AsyncClient) -> None:
    task_id = (await completed(api, sleeper_call(0)))["task"]["id"]
    problem(await api.post(f"/v1/tasks/{task_id}/cancel"), 409, "task-finished")


@pytest.mark.parametrize(
    ("recorded", "status"),
    [
        ({memo.TASK_COMPLETED: COMPLETED}, 409),
        ({memo.TASK_COMPLETED: COMPLETED, memo.RESULT: ToolResult()}, 202),
        ({}, 202),
    ],
    ids=["answered", "answered while its run goes on", "not answered"],
)
async def test_a_task_whose_workflow_is_about_to_end_cannot_be_cancelled(
    api: httpx.AsyncClient, temporal: Client, recorded: dict[str, Any], status: int
) -> None:
    """No worker runs this task, so that its workflow stays open."""
    task_id = f"say-{uuid.uuid4()}"
    summary = TaskSummary(tool="say", mode="default", executor="none", created_at=datetime.now(UTC), fingerprint="-")
    call = ToolCall(tool="say", caller=Caller(id="local"))
    await temporal.start_workflow(
        TASK_WORKFLOW,
        call,
        id=task_id,
        task_queue="nobody",
        memo={memo.SUMMARY: summary, **recorded},
        search_attributes=search_attributes.of_task(call, summary),
    )
    assert (await api.post(f"/v1/tasks/{task_id}/cancel")).status_code == status
    await temporal.get_workflow_handle(task_id).terminate()


@pytest.mark.parametrize("token", ["x", "é", "====", "AAAAAAAAAAAAAAAA"])
async def test_a_bad_page_token_is_refused(api: httpx.AsyncClient, token: str) -> None:
    problem(await api.get("/v1/tasks", params={"page_token": token}), 400, "bad-request")


async def test_a_page_token_that_was_tampered_with_is_refused(api: httpx.AsyncClient) -> None:
    for _ in range(2):
        await completed(api, {"tool": "get-actor-run", "arguments": {"runId": "absent"}})

    async def token() -> str | None:
        return (await api.get("/v1/tasks", params={"page_size": 1})).json().get("next_page_token")

    given = await eventually(token)
    response = await api.get("/v1/tasks", params={"page_size": 1, "page_token": given[:-8] + "AAAAAAAA"})
    assert response.status_code == 400, response.text


@pytest.mark.parametrize("last", ["x", "1", "1.x", "-1.1", "1.1.1", "9" * 5_000 + ".1"])
async def test_a_wrong_last_event_id_is_refused(api: httpx.AsyncClient, last: str) -> None:
    task_id = (await completed(api, {"tool": "get-actor-run", "arguments": {"runId": "absent"}}))["task"]["id"]
    problem(await api.get(f"/v1/tasks/{task_id}/events", headers={"Last-Event-ID": last}), 400, "bad-request")


@pytest.mark.parametrize(
    ("path", "params", "violation"),
    [
        ("/v1/tasks", {"status": "done"}, "/query/status/0"),
        ("/v1/tasks", {"page_size": "0"}, "/query/page_size"),
        ("/v1/tasks/x/result", {"wait": "-1"}, "/query/wait"),
    ],
)
async def test_a_parameter_out_of_range_is_refused(
    api: httpx.AsyncClient, path: str, params: dict[str, str], violation: str
) -> None:
    document = problem(await api.get(path, params=params), 422, "invalid-request")
    assert document["violations"][0]["path"] == violation


@pytest.mark.parametrize("name", ["tool", "session_id"])
async def test_a_filter_with_control_characters_is_refused(api: httpx.AsyncClient, name: str) -> None:
    problem(await api.get("/v1/tasks", params={name: "nul\x00byte"}), 400, "bad-request")


async def test_a_wait_that_is_no_number_is_refused(api: httpx.AsyncClient) -> None:
    problem(await api.post("/v1/tasks", json=sleeper_call(), headers={"Prefer": "wait=soon"}), 400, "bad-request")


async def test_the_same_key_and_request_give_the_same_task(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    before = sandbox.counters["startsAccepted"]
    key = {"Idempotency-Key": "same-key"}
    first = await api.post("/v1/tasks", json=sleeper_call(0.1), headers=key)
    second = await api.post("/v1/tasks", json=sleeper_call(0.1), headers=key)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] == second.json()["id"]
    third = await completed(api, sleeper_call(0.1), **key)
    assert third["task"]["id"] == first.json()["id"]
    assert sandbox.counters["startsAccepted"] == before + 1


async def test_an_idempotency_key_can_be_read_nowhere(api: httpx.AsyncClient, service: Service) -> None:
    key = "pay-invoice-quagga"  # in letters: any digits stand in some log line's time
    answer = await completed(api, sleeper_call(0.1), **{"Idempotency-Key": key})
    again = {"arguments": {"runId": "absent"}}
    refused = await api.post("/v1/tools/get-actor-run/call", json=again, headers={"Idempotency-Key": key})
    temporal = await connect(service.temporal_address, namespace=service.namespace)
    handle = temporal.get_workflow_handle(answer["task"]["id"])
    described = await handle.describe()
    places = {
        "task": str(answer) + refused.text,
        "history": (await handle.fetch_history()).to_json(),
        "description": str(described.raw_description),
        "metrics": (await api.get("/metrics")).text + (await api.get(service.worker_metrics_url)).text,
        "logs": (service.folder / "api.log").read_text() + (service.folder / "worker.log").read_text(),
    }
    assert refused.status_code == 409
    assert "server" not in refused.headers
    assert [place for place, text in places.items() if "invoice" in text or "quagga" in text] == []


async def test_the_same_key_with_another_request_is_refused(api: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "reused-key"}
    task_id = await started(api, sleeper_call(0.1), **key)
    document = problem(await api.post("/v1/tasks", json=sleeper_call(0.2), headers=key), 409, "idempotency-key-reused")
    assert task_id in document["detail"]
    other = {"arguments": {"runId": "absent"}}
    problem(await api.post("/v1/tools/get-actor-run/call", json=other, headers=key), 409, "idempotency-key-reused")


async def test_paths_and_methods_that_do_not_exist_are_problems_too(api: httpx.AsyncClient) -> None:
    for response, status in ((await api.get("/v2/tasks"), 404), (await api.delete("/v1/tasks"), 405)):
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == status


async def test_probes_and_metrics_answer(api: httpx.AsyncClient) -> None:
    assert (await api.get("/healthz")).text == "ok"
    ready = await api.get("/readyz")
    assert (ready.status_code, ready.json()) == (
        200,
        {"ready": True, "checks": {"temporal": "ok", "worker": "ok", "disk": "ok"}},
    )
    metrics = await api.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "outlast_open_tasks" in metrics.text


async def test_probes_name_the_instance_that_answers(service: Service, sandbox: Sandbox) -> None:
    settings = api_settings(sandbox, instance_id="this-one")
    async with serving_api(await connect(service.temporal_address), settings) as api:
        for probe in ("/healthz", "/readyz"):
            assert (await api.get(probe)).headers["outlast-instance"] == "this-one"


async def test_without_a_known_bearer_token_nothing_is_answered(service: Service, sandbox: Sandbox) -> None:
    settings = api_settings(sandbox, api_keys="alice:alice-key-0123456789")
    async with serving_api(await connect(service.temporal_address), settings) as api:
        requests = [("GET", "/v1/tasks"), ("POST", "/v1/tasks"), ("GET", "/v1/tools"), ("GET", "/v1/tasks/x/events")]
        for method, path in requests:
            for headers in ({}, bearer("nobody"), {"Authorization": "Basic eDp5"}):
                response = await api.request(method, path, headers=headers, json={"tool": "call-actor"})
                problem(response, 401, "unauthenticated")
                assert response.headers["www-authenticate"].startswith("Bearer")
        assert (await api.get("/v1/tasks", headers=bearer("alice-key-0123456789"))).status_code == 200
        assert (await api.get("/healthz")).status_code == 200


async def test_a_platform_that_does_not_answer_is_told_from_a_bad_token(service: Service, sandbox: Sandbox) -> None:
    async with serving_api(await connect(service.temporal_address), api_settings(sandbox)) as api:
        sandbox.order_fault("status", path="/v2/users/me", status=503)
        response = await api.get("/v1/tasks", headers=bearer("apify_api_someTokenNobodyHas"))
        problem(response, 503, "platform-unavailable")
        assert response.headers["retry-after"] == "5"
        sandbox.clear_faults()
        problem(await api.get("/v1/tasks", headers=bearer("apify_api_someTokenNobodyHas")), 401, "unauthenticated")


async def test_a_loopback_api_answers_to_loopback_names_only(api: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/mcp", "/nowhere"):
        refused = await api.get(path, headers={"Host": "rebound.example:8400"})
        assert problem(refused, 400, "unknown-host")["instance"] == path
    port = api.base_url.port
    for name in (f"localhost:{port}", f"LOCALHOST:{port}", "127.0.0.1", "[::1]:1", "[::1]"):
        assert (await api.get("/healthz", headers={"Host": name})).status_code == 200, name
