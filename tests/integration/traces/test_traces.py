"""What a call, a turn and an MCP task do, in all processes, is one tree of spans at a real OTLP receiver."""

import json
import secrets
import time
from typing import Any

import httpx

from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.calls.turns import new_session
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import KNOWS_TASKS, MODERN, Wire
from tests.support.http.otlp import Collector, labels_of
from tests.support.processes.module_process import started_module
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import KEY, ProviderServer
from tests.support.stacks.service import Service, settings_environment

SECRET = "nobody-may-read-this-in-a-span"
CALL = "execute_tool call-actor"
START = "POST /v2/actors/{id}/runs"


def parent() -> tuple[str, str, str]:
    """A trace that a client has begun, its span, and how it tells of both (W3C Trace Context)."""
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return trace, span, f"00-{trace}-{span}-01"


async def test_a_call_is_one_tree_from_the_request_to_the_platform(
    api: httpx.AsyncClient, collector: Collector, service: Service
) -> None:
    trace, root, traceparent = parent()
    body = sleeper_call(0, note=SECRET)
    answer = await completed(api, body, traceparent=traceparent, baggage=f"user={SECRET}")
    tree = await collector.whole_trace(trace, "POST /v1/tasks", CALL, "start_run", START, "wait_for_run", root=root)
    request, call = tree.one("POST /v1/tasks"), tree.one(CALL)
    assert request.parent == root
    assert tree.path(START) == ["POST /v1/tasks", CALL, "start_run", START]
    assert {request.process, call.process} == {"outlast-api", "outlast-worker"}
    assert (
        call.attributes.items()
        >= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "call-actor",
            "gen_ai.tool.call.id": answer["task"]["id"],
            "outlast.caller.id": "local",
            "outlast.run.id": answer["task"]["run"]["run_id"],
        }.items()
    )
    asked = tree.one(START).attributes
    assert (asked["http.request.method"], asked["http.response.status_code"]) == ("POST", 201)
    assert (request.attributes["http.route"], request.attributes["http.response.status_code"]) == ("/v1/tasks", 200)
    assert collector.headers[-1]["authorization"] == "Bearer of-the-collector"


async def test_a_call_that_fails_tells_what_kind_of_failure_it_was_and_nothing_of_it(
    api: httpx.AsyncClient, collector: Collector
) -> None:
    trace, root, traceparent = parent()
    body = {"tool": "call-actor", "arguments": {"actor": f"nobody/{SECRET}", "input": {}}}
    answer = await completed(api, body, traceparent=traceparent)
    tree = await collector.whole_trace(trace, CALL, root=root)
    assert answer["result"]["is_error"]
    assert tree.one(CALL).is_error
    assert tree.one(CALL).attributes["error.type"] == answer["result"]["error"]["category"]


async def test_a_turn_is_one_tree_with_its_models_and_its_tools(
    api: httpx.AsyncClient, collector: Collector, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("call-actor", sleeper_call(0)["arguments"])), says("Slept."))
    session = await new_session(api, providerId="anthropic", modelId="m")
    trace, root, traceparent = parent()
    body = {"message": SECRET, "stream": False}
    path = f"/v1/sessions/{session}/messages"
    answer = (await api.post(path, json=body, headers={"traceparent": traceparent})).json()
    assert answer["text"] == "Slept.", answer
    route, turn = "POST /v1/sessions/{session_id}/messages", "invoke_agent outlast"
    tree = await collector.whole_trace(trace, route, turn, "chat m", CALL, START, root=root)
    assert tree.path(START) == [route, turn, CALL, "start_run", START]
    models = [span for span in tree.spans if span.name == "chat m"]
    assert len(models) == 2
    assert (
        models[0].attributes.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "m",
            "gen_ai.conversation.id": session,
        }.items()
    )
    assert min(span.attributes["gen_ai.usage.input_tokens"] for span in models) > 0
    reasons = [span.attributes["gen_ai.response.finish_reasons"] for span in models]
    assert sorted(reasons) == [["stop"], ["tool_calls"]]
    assert tree.one(turn).attributes["gen_ai.operation.name"] == "invoke_agent"


async def test_an_mcp_task_belongs_to_the_trace_that_its_meta_names(
    api: httpx.AsyncClient, collector: Collector
) -> None:
    trace, root, traceparent = parent()
    params = {**_named(sleeper_call(0)), "_meta": {"traceparent": traceparent}}
    created = await Wire(api, MODERN).request("tools/call", params, capabilities=KNOWS_TASKS)
    assert created["resultType"] == "task"
    tree = await collector.whole_trace(trace, "tools/call call-actor", CALL, START, root=root)
    assert tree.path(START) == ["tools/call call-actor", CALL, "start_run", START]
    asked = tree.one("tools/call call-actor")
    assert asked.parent == root
    assert asked.attributes.items() >= {"mcp.method.name": "tools/call", "gen_ai.tool.name": "call-actor"}.items()


def _named(body: dict[str, Any]) -> dict[str, Any]:
    return {"name": body["tool"], "arguments": body["arguments"]}


async def test_a_slow_call_is_logged_with_its_trace_and_where_its_time_went(
    api: httpx.AsyncClient, service: Service
) -> None:
    trace, _, traceparent = parent()
    began = time.monotonic()
    answer = await completed(api, sleeper_call(1, rows=500, message=SECRET), traceparent=traceparent)
    took = time.monotonic() - began

    def end() -> dict[str, Any] | None:
        lines = [json.loads(line) for line in service.worker.log.read_text().splitlines() if line.startswith("{")]
        of_task = [line for line in lines if line.get("task") == answer["task"]["id"]]
        # Of less than warnings nothing is written here.
        assert {line["level"] for line in of_task} <= {"warning"}
        return of_task[-1] if of_task else None

    line = await eventually(end)
    assert line.items() >= {"event": "task ended", "slow": True, "trace_id": trace, "tool": "call-actor"}.items()
    parts = {part: line[f"{part}_seconds"] for part in ("queue", "start", "run", "fetch", "store")}
    assert parts["run"] > max(parts["start"], parts["fetch"], parts["queue"]), parts
    assert min(parts.values()) > 0
    assert 1 <= sum(parts.values()) <= line["seconds"] + 0.01
    assert line["seconds"] <= took
    assert SECRET not in json.dumps(line)


async def test_the_series_of_all_processes_are_sent_too(
    api: httpx.AsyncClient, collector: Collector, service: Service
) -> None:
    await completed(api, sleeper_call(0))

    def calls() -> float:
        return collector.total("outlast_tool_calls", tool="call-actor", outcome="completed")

    def requests() -> float:
        return collector.total("outlast_http_requests", method="POST", route="/v1/tasks", status="200")

    assert await eventually(lambda: calls() >= 1 and requests() >= 1)
    durations = collector.metrics["outlast_http_request_duration_seconds"].histogram.data_points
    of_calls = [point for point in durations if labels_of(point).items() >= {"route": "/v1/tasks"}.items()]
    assert of_calls
    assert {sum(point.bucket_counts) for point in of_calls} == {point.count for point in of_calls}
    assert list(of_calls[0].explicit_bounds) == sorted(of_calls[0].explicit_bounds)
    assert collector.metrics["outlast_open_tasks"].gauge.data_points
    # The same worker is scraped as before.
    async with httpx.AsyncClient(trust_env=False, timeout=180) as http:
        scraped = (await http.get(service.worker_metrics_url)).text
    sent = {name for name in collector.metrics if name.startswith("temporal_")}
    assert {name for name in sent if name not in scraped} == set()
    assert len(sent) > 10


async def test_a_call_that_another_worker_continues_has_one_span(
    api: httpx.AsyncClient, collector: Collector, service: Service
) -> None:
    trace, root, traceparent = parent()
    task = await started(api, {"tool": "deploy", "arguments": {"item": "x"}}, traceparent=traceparent)
    asked = await asks(api, task)
    service.worker.process.kill()
    service.worker.process.wait()
    environment = settings_environment(
        service.temporal_address,
        service.sandbox,
        OUTLAST_DATA_DIR=str(service.folder),
        OUTLAST_WORKER_METRICS_PORT=service.worker_metrics_url.split(":")[2].split("/")[0],
        OUTLAST_TOOLS_FROM="tests.support.tools.protocol_tools",
        OUTLAST_OTLP_ENDPOINT=collector.url,
        OTEL_BSP_SCHEDULE_DELAY="100",
    )
    log = service.folder / "second-worker.log"
    with started_module(
        "outlast.worker", ready_url=service.worker_metrics_url, log=log, environment=environment
    ) as worker:
        worker.await_answer()
        await taken(api, asked, {"decision": "yes"})
        answer = await result_of(api, task)
        assert not answer["result"]["is_error"], answer
    # The worker has ended, so everything that it had to tell is there.
    tree = await collector.whole_trace(trace, "POST /v1/tasks", "execute_tool deploy", root=root)
    call = tree.one("execute_tool deploy")
    assert call.parent == tree.one("POST /v1/tasks").id


async def test_no_span_tells_of_arguments_secrets_or_outputs(
    api: httpx.AsyncClient, collector: Collector, service: Service
) -> None:
    """Neither those of the tests before, whose notes, messages and failures had the text in them."""
    trace, root, traceparent = parent()
    params = {"session_id": SECRET}
    assert (await api.get("/v1/tasks", params=params, headers={"traceparent": traceparent})).status_code == 200
    await collector.whole_trace(trace, "GET /v1/tasks", root=root)
    assert len({span.trace for span in collector.spans}) > 1
    for secret in (SECRET, KEY, service.sandbox.token):
        assert [span.name for span in collector.spans if secret.encode() in span.raw] == []
