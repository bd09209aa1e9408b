"""Calls that cannot go on, or whose errors and answers are larger than Temporal takes: each ends, and says why."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from outlast.activities.runs.contracts import operation_id
from outlast.workflows.contracts.sessions import POSTED_SIGNAL, session_workflow_id
from tests.support.calls.tasks import completed, events, result_of, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN, Wire, text_of
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.fixtures import service_fixture, temporal_fixture
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment

pytestmark = pytest.mark.slow

service = service_fixture(
    scope="module",
    tools=["tests.support.tools.poisonous_tools"],
    settings={"OUTLAST_STUCK_ATTEMPTS": "2", "OUTLAST_STUCK_AFTER_SECONDS": "1"},
)
temporal = temporal_fixture()


ACTIVITY, LOCAL = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, EventType.EVENT_TYPE_MARKER_RECORDED
SLEEPER = {"actor": "outlast/sleeper"}
SPINNING: list[tuple[dict[str, Any], set[EventType.ValueType]]] = [
    ({"tool": "spin", "session_id": "spinning"}, {ACTIVITY}),
    ({"tool": "spin-later", "arguments": SLEEPER}, {LOCAL}),
    ({"tool": "spin-first", "arguments": SLEEPER}, set()),
    ({"tool": "spin-first"}, {ACTIVITY}),
]
"""Calls that start a run and cannot go on, and what their histories have of the start. Without any trace the run is
found by its mark, among the runs of the Actor that the call names: a call that names none leaves a trace."""


async def traces(temporal: Client, task_id: str) -> set[EventType.ValueType]:
    history = await temporal.get_workflow_handle(task_id).fetch_history()
    return {ACTIVITY, LOCAL} & {event.event_type for event in history.events}


async def runs_of(sandbox: Sandbox, temporal: Client, task_id: str) -> list[str]:
    """The states of the runs that a task has started."""
    first_run_id = (await temporal.get_workflow_handle(task_id).describe()).run_id
    mark = operation_id(namespace=temporal.namespace, workflow_id=task_id, first_run_id=first_run_id, number=1)
    return [sandbox.run(run_id)["status"] for run_id in sandbox.counters["operations"].get(mark, [])]


async def test_a_task_that_cannot_go_on_ends_with_an_error_and_its_run_is_aborted(
    api: httpx.AsyncClient, service: Service, temporal: Client
) -> None:
    assert (await api.post("/v1/sessions", json={"sessionId": "stuck"})).status_code == 201
    # A signal without what belongs to it: no handler can take it, and none can be left out.
    await temporal.get_workflow_handle(session_workflow_id("local", "stuck")).signal(POSTED_SIGNAL)
    task_ids = [await started(api, call) for call, _ in SPINNING]
    task_id = task_ids[0]

    async def ended() -> bool:
        tasks = [(await api.get(f"/v1/tasks/{one}")).json() for one in task_ids]
        return all(task["status"] == "failed" for task in tasks)

    await eventually(ended)
    error = (await result_of(api, task_id))["result"]["error"]
    assert "could not continue: a step of its workflow has failed" in error["message"]
    assert "deadlock" in error["message"].lower()
    assert (error["tool"], error["category"], error["retryable"]) == ("spin", "unknown", False)

    async def aborted() -> bool:
        found = [
            (call, await runs_of(service.sandbox, temporal, one))
            for (call, _), one in zip(SPINNING, task_ids, strict=True)
        ]
        assert found == [(call, ["ABORTED"]) for call, _ in SPINNING]
        return True

    await eventually(aborted, timeout_seconds=60)
    assert [await traces(temporal, one) for one in task_ids] == [expected for _, expected in SPINNING]
    told = [event.data async for event in events(api, task_id) if event.name == "task_completed"]
    assert told[-1]["error"]["message"] == error["message"]
    shown = await Wire(api, MODERN).request("tools/call", {"name": "get-task", "arguments": {"taskId": task_id}})
    assert "could not continue" in text_of(shown)
    assert "could not continue" in await printed(service, "tasks", "result", task_id)
    assert (await eventually(lambda: gone(api, "stuck"))).startswith("Session 'stuck' is over. It could not continue")
    assert (await api.post("/v1/sessions", json={"sessionId": "stuck"})).status_code == 201, "another one"
    async with httpx.AsyncClient(trust_env=False, timeout=180) as http:
        metrics = (await http.get(service.worker_metrics_url)).text
    assert "outlast_stuck_workflows_ended{" in metrics or "outlast_stuck_workflows_ended_total{" in metrics


async def printed(service: Service, *command: str) -> str:
    """What a command of the command line prints, without its line breaks."""
    process = await asyncio.create_subprocess_exec(
        *outlast_command(*command), env=clean_environment(OUTLAST_URL=service.api_url), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return " ".join(output.decode().split())


async def gone(api: httpx.AsyncClient, session: str) -> str | None:
    answer = await api.get(f"/v1/sessions/{session}")
    return answer.json()["detail"] if answer.status_code == 410 else None


@pytest.mark.parametrize("tool", ["throw", "throw-here"])
async def test_an_error_of_5_mb_is_an_ordinary_failure(api: httpx.AsyncClient, temporal: Client, tool: str) -> None:
    answer = await completed(api, {"tool": tool, "arguments": {"megabytes": 5}})
    assert answer["task"]["status"] == "failed"
    assert 0 < len(answer["result"]["error"]["message"]) <= 2_000
    history = await temporal.get_workflow_handle(answer["task"]["id"]).fetch_history()
    assert sum(event.ByteSize() for event in history.events) < 50_000


@pytest.mark.parametrize(
    ("megabytes", "form"), [(5, "text"), (10, "quoted"), (10, "twice")], ids=["text", "quotes", "text-and-structure"]
)
async def test_a_function_may_answer_with_megabytes(api: httpx.AsyncClient, megabytes: int, form: str) -> None:
    answer = await completed(api, {"tool": "answer", "arguments": {"megabytes": megabytes, "form": form}})
    assert answer["task"]["status"] == "completed"
    assert answer["result"]["locator"].startswith("out_")


@pytest.mark.parametrize(
    ("tool", "arguments"), [("answer", {"megabytes": 1, "form": "deep"}), ("answer-deep", {})], ids=["plain", "here"]
)
async def test_an_answer_that_no_step_can_read_is_refused(
    api: httpx.AsyncClient, tool: str, arguments: dict[str, Any]
) -> None:
    answer = await completed(api, {"tool": tool, "arguments": arguments})
    assert answer["task"]["status"] == "failed"
    assert "nested more than 180 levels deep" in answer["result"]["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"megabytes": 50}, "bytes; the limit is 16777216"),
        ({"megabytes": 20, "form": "result"}, "bytes; the limit is 16777216"),
        ({"megabytes": 20, "form": "twice"}, "bytes; the limit is 16777216"),
        ({"megabytes": 8, "values": True}, "more than 50000 values"),
    ],
    ids=["bytes", "bytes-of-a-result", "bytes-of-both", "values"],
)
async def test_an_answer_that_no_workflow_can_decode_is_refused(
    api: httpx.AsyncClient, arguments: dict[str, Any], reason: str
) -> None:
    answer = await completed(api, {"tool": "answer", "arguments": arguments})
    assert answer["task"]["status"] == "failed"
    assert reason in answer["result"]["error"]["message"]


def executions(marks: Path) -> int:
    """How often the tool was executed that leaves its marks there."""
    return len(list(marks.iterdir()))


WRITTEN: dict[str, Any] = {
    "when": "2026-01-02T03:04:05Z", "price": "1.10", "id": "00000000-0000-0000-0000-000000000001", "set": [1],
    "tuple": [1, "a"], "bytes": "text", "enum": "yes", "point": {"x": "2"}, "path": "/a/b",
    "7": {"2026-01-02": "PT1M30S"}, "half": "caf\ufffd",
}  # fmt: skip


@pytest.mark.parametrize("tool", ["odd-answer", "odd-answer-here"])
async def test_an_answer_is_written_as_pydantic_writes_it(api: httpx.AsyncClient, tmp_path: Path, tool: str) -> None:
    answer = await completed(api, {"tool": tool, "arguments": {"kind": "written", "marks": str(tmp_path)}})
    assert answer["result"]["structured"] == WRITTEN
    assert json.loads(answer["result"]["content"][0]["text"]) == WRITTEN
    half = await completed(api, {"tool": tool, "arguments": {"kind": "half", "marks": str(tmp_path)}})
    assert half["result"]["content"][0]["text"] == "caf\ufffd"
    assert half["result"]["structured"] == {"\ufffd": ["\ufffd"]}
    names = await completed(api, {"tool": tool, "arguments": {"kind": "names", "marks": str(tmp_path)}})
    assert names["result"]["structured"] == {
        "caf\ufffd\ufffd": {"\ufffd": {"when": "2026-01-02", "model": "yes"}},
        "caf\ufffd": 1,
    }
    result = await completed(api, {"tool": tool, "arguments": {"kind": "result", "marks": str(tmp_path)}})
    assert result["result"]["content"][0]["text"] == "done"
    assert result["result"]["structured"] == WRITTEN


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("number", "the value at /rows/1/score is of type _Number"),
        ("bytes", "the value at /a~1b is bytes that are not text in UTF-8"),
        ("endless", "more than 50000 values"),
        ("list", "a ToolResult, not list"),
        ("validation", "ValidationError"),
        ("parser", "JSONDecodeError"),
        ("result of a number", "the value at /score is of type _Number"),
        ("exit", "SystemExit"),
        ("cancelled", "CancelledError"),
    ],
)
async def test_an_answer_that_is_none_belongs_to_the_tool_whose_effect_happens_once(
    api: httpx.AsyncClient, tmp_path: Path, kind: str, named: str
) -> None:
    answer = await completed(api, {"tool": "odd-answer", "arguments": {"kind": kind, "marks": str(tmp_path)}})
    error = answer["result"]["error"]
    assert named in error["message"]
    assert (error["retryable"], error["category"]) == (False, "unknown")
    assert executions(tmp_path) == 1
    if kind not in {"endless", "cancelled"}:
        here = await completed(api, {"tool": "odd-answer-here", "arguments": {"kind": kind, "marks": str(tmp_path)}})
        assert named in here["result"]["error"]["message"]


@pytest.mark.parametrize("tool", ["odd-answer", "odd-answer-here"])
async def test_an_expected_error_may_quote_half_a_character(api: httpx.AsyncClient, tmp_path: Path, tool: str) -> None:
    answer = await completed(api, {"tool": tool, "arguments": {"kind": "expected", "marks": str(tmp_path)}})
    error = answer["result"]["error"]
    assert error["category"] == "validation"
    assert error["message"] == error["hint"] == error["violations"][0]["message"] == "caf\ufffd"
    assert executions(tmp_path) == (1 if tool == "odd-answer" else 0)


async def test_a_tool_may_say_half_a_character_wherever_it_has_words_for_others(
    api: httpx.AsyncClient, service: Service
) -> None:
    task_id = await started(api, {"tool": "half-words"})

    async def asks() -> dict[str, Any] | None:
        shown = (await api.get(f"/v1/tasks/{task_id}")).json()
        return shown if shown["status"] != "working" else None

    shown = await eventually(asks)
    question = shown["input_requests"]["half"]
    assert shown["progress"]["message"] == question["message"] == "caf\ufffd"
    assert question["requested_schema"]["properties"]["a"]["title"] == "caf\ufffd"
    given = {"answers": {"half": {"action": "accept", "content": {"a": "yes"}}}}
    answered = await api.post(f"/v1/tasks/{task_id}/input", json=given)
    assert answered.is_success, answered.text
    ended = await result_of(api, task_id)
    run = service.sandbox.run(ended["result"]["structured"]["run"])
    assert service.sandbox.record(run["defaultKeyValueStoreId"], "INPUT")["message"] == "caf\ufffd"


async def test_10_mb_of_json_count_once(api: httpx.AsyncClient, tmp_path: Path) -> None:
    answer = await completed(api, {"tool": "odd-answer", "arguments": {"kind": "large", "marks": str(tmp_path)}})
    assert answer["task"]["status"] == "completed"
    restored = await completed(
        api,
        {
            "tool": "restore-tool-output",
            "arguments": {"locator": answer["result"]["locator"], "query": "structured.rows[999]"},
        },
    )
    assert restored["result"]["structured"]["value"] == {"text": "x" * 9_990}


async def test_an_id_that_fits_no_address_is_refused_before_anything_starts(api: httpx.AsyncClient) -> None:
    refused = await api.post("/v1/tasks", json={"tool": "get-actor-run", "arguments": {"runId": "x" * 100_000}})
    assert refused.status_code == 422
    assert "200 characters" in refused.json()["error"]["violations"][0]["message"]
