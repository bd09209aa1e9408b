"""When does a tool's handler return? Read from the history that the server recorded, in both executors."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.converter import DataConverter

from outlast.activities.stuck_tasks.histories import ActivityResults
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.sessions import session_workflow_id
from outlast.workflows.contracts.tool_calls import TaskCompleted, TaskStatus, TaskSummary, ToolOutcome
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.tool_call import ToolCallWorkflow
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service


class History:
    """One task's recorded history, in the words of a tool call."""

    def __init__(self, events: list[HistoryEvent], converter: DataConverter) -> None:
        self.events = events
        self._converter = converter

    @classmethod
    async def of(cls, client: Client, task_id: str) -> "History":
        history = await client.get_workflow_handle(task_id).fetch_history()
        return cls(list(history.events), client.data_converter)

    def memo_written(self, key: str) -> int:
        """The number of the event that wrote the memo's entry."""
        return next(
            event.event_id
            for event in self.events
            if key in event.workflow_properties_modified_event_attributes.upserted_memo.fields
        )

    def memos(self) -> list[set[str]]:
        """What each event that changed the memo wrote."""
        changes = [event.workflow_properties_modified_event_attributes.upserted_memo.fields for event in self.events]
        return [set(fields) for fields in changes if fields]

    def attributes_written(self) -> list[set[str]]:
        """What each event that changed search attributes wrote."""
        changes = [event.upsert_workflow_search_attributes_event_attributes for event in self.events]
        return [
            set(change.search_attributes.indexed_fields) for change in changes if change.HasField("search_attributes")
        ]

    async def completion(self) -> TaskCompleted:
        event = self.events[self.memo_written(memo.TASK_COMPLETED) - 1]
        payload = event.workflow_properties_modified_event_attributes.upserted_memo.fields[memo.TASK_COMPLETED]
        return (await self._converter.decode([payload], [TaskCompleted]))[0]

    def scheduled(self, activity: str) -> int:
        return next(
            event.event_id
            for event in self.events
            if event.activity_task_scheduled_event_attributes.activity_type.name == activity
        )

    def completed(self, activity: str) -> int:
        """Whether it was a normal one or a local one."""
        results = ActivityResults()
        return next(event.event_id for event in self.events if results.read(event)[0] == activity)

    def number_of(self, kind: EventType.ValueType) -> int:
        return next(event.event_id for event in self.events if event.event_type == kind)

    @property
    def size_bytes(self) -> int:
        return sum(event.ByteSize() for event in self.events)


ENDED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
SIGNALLED = EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED


async def test_sync_the_task_is_completed_after_its_run_has_ended(api: httpx.AsyncClient, temporal: Client) -> None:
    answer = await completed(api, sleeper_call(0.2, rows=3) | {"session_id": "sync-order"})
    history = await History.of(temporal, answer["task"]["id"])
    assert history.completed("start_run") < history.scheduled("wait_for_run")
    assert history.completed("wait_for_run") < history.number_of(SIGNALLED) < history.number_of(ENDED)
    # Its result says the rest.
    assert (history.memos(), history.attributes_written()) == ([], [{"OutlastRunId"}])
    assert answer["result"]["structured"]["items"][2]["index"] == 2


async def test_async_the_task_is_completed_when_its_run_has_started(
    api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    answer = await completed(api, sleeper_call(1.5, mode="openai") | {"session_id": "async-order"})
    run_id = answer["result"]["structured"]["runId"]
    assert sandbox.run(run_id)["status"] in {"READY", "RUNNING"}
    assert answer["task"]["status"] == "completed"
    await eventually(lambda: sandbox.run(run_id)["status"] == "SUCCEEDED")
    handle = temporal.get_workflow_handle_for(ToolCallWorkflow.run, answer["task"]["id"])
    outcome = await handle.result()
    history = await History.of(temporal, answer["task"]["id"])
    done = history.memo_written(memo.TASK_COMPLETED)
    assert history.completed("start_run") < done < history.number_of(SIGNALLED)
    assert history.number_of(SIGNALLED) < history.completed("wait_for_run")
    assert history.memos() == [{memo.TASK_COMPLETED, memo.RESULT}]
    assert history.attributes_written() == [{"OutlastRunId", "OutlastTaskStatus"}]
    assert (await history.completion()).status is TaskStatus.COMPLETED
    assert outcome.run is not None
    assert (outcome.run.status, outcome.run.run_id) == ("SUCCEEDED", run_id)


async def test_a_failed_run_fails_a_sync_task_and_leaves_an_async_one_completed(
    api: httpx.AsyncClient, temporal: Client
) -> None:
    failing: dict[str, Any] = {"failWith": {"exitCode": 3, "message": "Out of luck"}}
    sync = await completed(api, sleeper_call(**failing))
    assert (sync["task"]["status"], sync["result"]["is_error"]) == ("failed", True)
    assert sync["result"]["error"]["category"] == "unknown"
    assert "Out of luck" in sync["result"]["content"][0]["text"]
    asynchronous = await completed(api, sleeper_call(mode="openai", **failing))
    outcome = await temporal.get_workflow_handle_for(ToolCallWorkflow.run, asynchronous["task"]["id"]).result()
    assert (asynchronous["task"]["status"], outcome.result.is_error) == ("completed", False)
    assert outcome.run is not None
    assert outcome.run.status == "FAILED"


async def test_a_direct_actor_tool_waits_for_its_run_or_answers_when_it_has_started(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    waited = await completed(api, {"tool": "outlast--sleeper", "arguments": {"seconds": 0.5, "rows": 2}})
    ended = waited["result"]["structured"]
    assert (ended["status"], len(ended["items"])) == ("SUCCEEDED", 2)
    body = {"tool": "outlast--sleeper", "arguments": {"seconds": 300}, "mode": "openai"}
    answer = await completed(api, body)
    begun = answer["result"]["structured"]
    assert sandbox.run(begun["runId"])["status"] in {"READY", "RUNNING"}
    assert "items" not in begun
    assert (waited["task"]["executor"], answer["task"]["executor"]) == ("sync", "async")
    assert waited["task"]["actor"] == answer["task"]["actor"] == "outlast/sleeper"
    await completed(api, {"tool": "abort-actor-run", "arguments": {"runId": begun["runId"]}})


async def test_a_failing_direct_tool_is_named_in_its_error(api: httpx.AsyncClient) -> None:
    body = {"tool": "outlast--sleeper", "arguments": {"seconds": 0, "failWith": {"exitCode": 1}}}
    answer = await completed(api, body)
    assert answer["result"]["error"]["tool"] == "outlast--sleeper"


async def test_a_sync_actor_call_costs_few_events(api: httpx.AsyncClient, temporal: Client) -> None:
    answer = await completed(api, sleeper_call(0.3, rows=5))
    alone = await History.of(temporal, answer["task"]["id"])
    assert len(alone.events) <= 30
    assert alone.size_bytes <= 15_000
    answer = await completed(api, sleeper_call(0.3, rows=5) | {"session_id": "few-events"})
    in_session = await History.of(temporal, answer["task"]["id"])
    # Sent, delivered, and a workflow task: a signal that is not awaited is lost when its sender ends.
    assert len(in_session.events) <= len(alone.events) + 5
    assert in_session.size_bytes <= 15_000


CALLED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "call-actor": lambda run_input: {"actor": "outlast/sleeper", "input": run_input},
    "outlast--sleeper": lambda run_input: run_input,
}
"""Arguments of a call that runs the sleeper, by tool."""


@pytest.mark.parametrize(("row_bytes", "is_whole"), [(280, True), (340, False)], ids=["whole", "stored"])
@pytest.mark.parametrize("called", CALLED)
async def test_rows_are_answered_whole_up_to_the_threshold_and_stand_once_in_the_history(
    api: httpx.AsyncClient, temporal: Client, called: str, row_bytes: int, is_whole: bool
) -> None:
    """Ten rows, of about 380 and 440 bytes each; the threshold is 4,096 bytes."""
    run_input = {"seconds": 0.1, "steps": 2, "rows": 10, "rowBytes": row_bytes}
    answer = await completed(api, {"tool": called, "arguments": CALLED[called](run_input)})
    structured, [content] = answer["result"]["structured"], answer["result"]["content"]
    assert ("locator" not in structured) is is_whole
    rows = [json.dumps(item, separators=(",", ":"), ensure_ascii=False) for item in structured["items"]]
    assert len(rows) == 10 if is_whole else 1 < len(rows) < 10
    assert content["text"].count("\n".join(rows)) == 1
    later = (await result_of(api, answer["task"]["id"]))["result"]
    assert (later["structured"], later["content"]) == (structured, [content])
    history = await History.of(temporal, answer["task"]["id"])
    recorded = b"".join(event.SerializeToString() for event in history.events)
    assert [recorded.count(row.encode()) for row in rows] == [1] * len(rows)
    # As much as a call without rows, and the rows once.
    assert history.size_bytes <= 14_000


async def events_of(temporal: Client, session_id: str, caller_id: str = "local") -> list[TaskCompleted]:
    handle = temporal.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id(caller_id, session_id))
    told = await handle.query(SessionWorkflow.events)
    return [event.task_completed for event in told if event.task_completed is not None]


async def test_the_session_hears_of_every_call_in_order(api: httpx.AsyncClient, temporal: Client) -> None:
    bodies = [sleeper_call(0), sleeper_call(0, failWith={}), sleeper_call(0, mode="openai")]
    answers = [await completed(api, body | {"session_id": "three-calls"}) for body in bodies]

    async def heard() -> list[TaskCompleted] | None:
        told = await events_of(temporal, "three-calls")
        return told if len(told) == 3 else None

    told = await eventually(heard)
    assert [event.task_id for event in told] == [answer["task"]["id"] for answer in answers]
    assert [event.status for event in told] == ["completed", "failed", "completed"]
    assert [event.error_signature is not None for event in told] == [False, True, False]
    assert {event.tool for event in told} == {"call-actor"}


async def test_a_call_that_outlives_its_session_still_completes(api: httpx.AsyncClient, temporal: Client) -> None:
    task_id = await started(api, sleeper_call(0.5) | {"session_id": "gone"})
    await temporal.get_workflow_handle(session_workflow_id("local", "gone")).terminate()
    assert (await result_of(api, task_id))["task"]["status"] == "completed"


async def test_operators_find_a_task_by_everything_that_names_it(api: httpx.AsyncClient, temporal: Client) -> None:
    answer = await completed(api, sleeper_call(0.1, rows=2) | {"session_id": "found"})
    description = await temporal.get_workflow_handle(answer["task"]["id"]).describe()
    attributes = {key.name: description.typed_search_attributes.get(key) for key in search_attributes.ALL}
    assert attributes == {
        "OutlastTool": "call-actor",
        "OutlastActor": "outlast/sleeper",
        "OutlastRunId": answer["task"]["run"]["run_id"],
        "OutlastExecutor": "sync",
        "OutlastTaskStatus": "working",
        "OutlastCaller": "local",
        "OutlastSession": "found",
        "OutlastBatch": None,  # it is no item of one
        "OutlastSchedule": None,  # no schedule has started it
        "OutlastReuse": None,  # nothing was asked to be reused
    }
    query = f"OutlastRunId = '{answer['task']['run']['run_id']}' AND ExecutionStatus = 'Completed'"

    async def listed() -> list[str]:
        return [execution.id async for execution in temporal.list_workflows(query)]

    assert await eventually(listed) == [answer["task"]["id"]]


async def test_the_memo_says_what_a_task_is(api: httpx.AsyncClient, temporal: Client) -> None:
    answer = await completed(api, sleeper_call(0))
    description = await temporal.get_workflow_handle(answer["task"]["id"]).describe()
    summary = await description.memo_value(memo.SUMMARY, type_hint=TaskSummary)
    assert (summary.tool, summary.mode, summary.executor, summary.actor) == (
        "call-actor",
        "default",
        "sync",
        "outlast/sleeper",
    )


async def test_lists_and_descriptions_say_what_a_task_has_come_to(api: httpx.AsyncClient, temporal: Client) -> None:
    """What nobody wrote into the memo, they read from the history."""
    sync = await completed(api, sleeper_call(0, rows=1))
    failed = await completed(api, sleeper_call(0, failWith={"exitCode": 3, "message": "Out of luck"}))
    guarded = (await completed(api, sleeper_call(0, rows=1, mode="openai")))["task"]
    outcome: ToolOutcome = await temporal.get_workflow_handle_for(ToolCallWorkflow.run, guarded["id"]).result()
    read = {"tool": "get-dataset-items", "arguments": {"datasetId": sync["task"]["run"]["dataset_id"]}}
    quick = await completed(api, read)
    for task, status, message in (
        (sync["task"], "completed", sync["result"]["content"][0]["text"].split("\n")[0]),
        (failed["task"], "failed", failed["result"]["content"][0]["text"].split("\n")[0]),
        (guarded, "completed", guarded["status_message"]),
        (quick["task"], "completed", quick["result"]["content"][0]["text"].split("\n")[0]),
    ):
        described = (await api.get(f"/v1/tasks/{task['id']}")).json()
        assert (described["status"], described["status_message"], described["answered"]) == (status, message, True)
        listed = await eventually(lambda task=task, status=status: listed_task(api, task["id"], status))
        if task is quick["task"]:
            # Its answer may be large, and a page has many of them.
            assert (listed["status_message"], listed["run"]) == (None, None)
            continue
        assert listed == described
        assert described["run"]["status"] == ("FAILED" if status == "failed" else "SUCCEEDED")
        assert described["cost_usd"] == described["run"]["usage_total_usd"] > 0
    assert outcome.run is not None
    assert outcome.run.run_id == guarded["run"]["run_id"]


async def test_a_running_task_says_which_run_it_has_started(api: httpx.AsyncClient, temporal: Client) -> None:
    task_id = await started(api, sleeper_call(60))
    listed = await eventually(lambda: listed_task(api, task_id, "working", with_run=True))
    described = (await api.get(f"/v1/tasks/{task_id}")).json()
    assert listed["run"]["run_id"] == described["run"]["run_id"]
    await api.post(f"/v1/tasks/{task_id}/cancel")
    await result_of(api, task_id)
    told = await eventually(lambda: listed_task(api, task_id, "cancelled"))
    assert (told["run"]["run_id"], told["run"]["status"]) == (listed["run"]["run_id"], "ABORTED")


async def listed_task(
    api: httpx.AsyncClient, task_id: str, status: str, *, with_run: bool = False
) -> dict[str, Any] | None:
    """The task in the list of those in a state: visibility is a moment late."""
    page = (await api.get("/v1/tasks", params={"status": status, "page_size": 200})).json()
    found = [task for task in page["tasks"] if task["id"] == task_id]
    return found[0] if found and (found[0]["run"] or not with_run) else None


async def test_the_temporal_ui_shows_summaries_and_current_details(api: httpx.AsyncClient, temporal: Client) -> None:
    answer = await completed(api, sleeper_call(0.1, rows=2))
    run = answer["task"]["run"]
    handle = temporal.get_workflow_handle(answer["task"]["id"])
    assert await (await handle.describe()).static_summary() == "call-actor for local"
    metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    details: str = metadata.current_details
    for shown in (run["run_id"], run["console_url"], "SUCCEEDED", "2 rows", "US dollars"):
        assert shown in details
    history = await History.of(temporal, answer["task"]["id"])
    summaries = [
        (await temporal.data_converter.decode([event.user_metadata.summary], [str]))[0]
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
        or event.HasField("marker_recorded_event_attributes")
    ]
    assert summaries == ["start outlast/sleeper", f"follow run {run['run_id']}"]


async def test_cancelling_aborts_the_run_before_the_task_is_cancelled(
    api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    task_id = await started(api, sleeper_call(60))

    async def running() -> str | None:
        run = (await api.get(f"/v1/tasks/{task_id}")).json()["run"]
        return run["run_id"] if run and run["status"] == "RUNNING" else None

    run_id = await eventually(running)
    response = await api.post(f"/v1/tasks/{task_id}/cancel")
    assert response.status_code == 202
    answer = await result_of(api, task_id)
    assert (answer["task"]["status"], answer["result"]["error"]["category"]) == ("cancelled", "cancelled")
    assert sandbox.run(run_id)["status"] == "ABORTED"
    description = await temporal.get_workflow_handle(task_id).describe()
    assert description.status is WorkflowExecutionStatus.CANCELED
    history = await History.of(temporal, task_id)
    assert history.completed("abort_run") < history.memo_written(memo.TASK_COMPLETED)
    assert (await history.completion()).status is TaskStatus.CANCELLED


async def test_cancelling_a_completed_async_task_aborts_the_run_and_keeps_the_answer(
    api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    answer = await completed(api, sleeper_call(60, mode="openai"))
    task_id, run_id = answer["task"]["id"], answer["task"]["run"]["run_id"]
    assert (await api.post(f"/v1/tasks/{task_id}/cancel")).status_code == 202
    outcome: ToolOutcome = await temporal.get_workflow_handle_for(ToolCallWorkflow.run, task_id).result()
    assert sandbox.run(run_id)["status"] == "ABORTED"
    assert outcome.run is not None
    assert (outcome.run.status, outcome.result.is_error) == ("ABORTED", False)
    assert (await api.get(f"/v1/tasks/{task_id}")).json()["status"] == "completed"


async def test_a_deadline_aborts_the_run_and_says_so(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    answer = await completed(api, sleeper_call(60) | {"options": {"deadline_seconds": 2}})
    assert (answer["task"]["status"], answer["result"]["error"]["category"]) == ("failed", "timeout")
    assert "the task's deadline" in answer["result"]["error"]["message"]
    assert sandbox.run(answer["task"]["run"]["run_id"])["status"] == "ABORTED"


async def test_a_budget_of_money_stops_the_run(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    options: dict[str, Any] = {"budget": {"max_total_charge_usd": "0.00001"}}
    answer = await completed(api, sleeper_call(60) | {"options": options})
    assert (answer["task"]["status"], answer["result"]["error"]["category"]) == ("failed", "payment")
    assert sandbox.run(answer["task"]["run"]["run_id"])["status"] == "ABORTED"


async def test_a_refusal_for_want_of_memory_is_waited_out_and_shown(
    api: httpx.AsyncClient, service: Service, sandbox: Sandbox
) -> None:
    sandbox.limit(memoryMbytes=128)
    task_id = await started(api, sleeper_call(0))

    async def told() -> str | None:
        return (await api.get(f"/v1/tasks/{task_id}")).json().get("status_message")

    async def waits() -> bool:
        return "memory limit" in (await told() or "")

    assert await eventually(waits)
    sandbox.limit(memoryMbytes=8192)
    assert (await result_of(api, task_id))["task"]["status"] == "completed"
