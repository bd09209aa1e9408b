"""A task's events: in order, each once, resumable at any of them, and live while a run goes on."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import httpx
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionDescription,
)

from outlast.api.temporal.task_events import stream_events
from outlast.contracts.tasks import TaskEvent
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import SessionEvent, SessionState
from outlast.workflows.contracts.tool_calls import TaskCompleted, TaskStatus
from outlast.workflows.session import SessionWorkflow
from tests.support.calls.tasks import Event, completed, events, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.stacks.faulty_history import with_faults


async def all_events(api: httpx.AsyncClient, task_id: str, *, after: str | None = None) -> list[Event]:
    return [event async for event in events(api, task_id, after=after)]


def durable(told: list[Event]) -> list[Event]:
    return [event for event in told if event.id is not None]


async def test_a_sync_call_tells_its_story_in_order(api: httpx.AsyncClient) -> None:
    task_id = await started(api, sleeper_call(2.5, steps=5))
    told = await all_events(api, task_id)
    assert [event.name for event in durable(told)] == [
        "created",
        "run_started",
        "run_finished",
        "handler_returned",
        "task_completed",
    ]
    messages = [event.data["status_message"] for event in told if event.name == "status_message"]
    assert any("of 2.5 s" in message for message in messages)
    assert len(messages) == len(set(messages))
    assert told[-1].data["status"] == "completed"


async def test_an_async_call_goes_on_telling_after_it_is_completed(api: httpx.AsyncClient) -> None:
    task_id = await started(api, sleeper_call(4, steps=8, mode="openai"))
    told = await all_events(api, task_id)
    assert [event.name for event in durable(told)] == [
        "created",
        "run_started",
        "handler_returned",
        "task_completed",
        "run_finished",
    ]
    completed_at = next(index for index, event in enumerate(told) if event.name == "task_completed")
    live = [event.data for event in told[completed_at:] if event.name == "status_message"]
    assert any("of 4 s" in data["status_message"] for data in live)
    assert {data["status"] for data in live} == {"completed"}
    assert told[-1].data["status"] == "SUCCEEDED"


async def test_a_cancelled_call_says_that_its_run_ended_before_it_did(api: httpx.AsyncClient) -> None:
    task_id = await started(api, sleeper_call(60))
    names: list[str] = []
    last: dict[str, Any] = {}
    async for event in events(api, task_id):
        names.append(event.name)
        last = event.data
        if event.name == "run_started":
            assert (await api.post(f"/v1/tasks/{task_id}/cancel")).status_code == 202
    told = [name for name in names if name != "status_message"]
    assert told == ["created", "run_started", "run_finished", "task_completed"]
    assert last["status"] == "cancelled"


async def test_a_stream_is_resumed_after_any_event_without_loss_or_repetition(api: httpx.AsyncClient) -> None:
    task_id = (await completed(api, sleeper_call(0.2)))["task"]["id"]
    whole = durable(await all_events(api, task_id))
    assert len({event.id for event in whole}) == len(whole) == 5
    for seen, event in enumerate(whole, start=1):
        assert durable(await all_events(api, task_id, after=event.id)) == whole[seen:]


async def test_a_connection_that_breaks_again_and_again_loses_nothing(api: httpx.AsyncClient) -> None:
    task_id = await started(api, sleeper_call(1, mode="openai"))
    seen: list[Event] = []
    while not seen or seen[-1].name != "run_finished":
        async for event in events(api, task_id, after=seen[-1].id if seen else None):
            if event.id is not None:
                seen.append(event)
                break
    assert seen == durable(await all_events(api, task_id))


class Descriptions(Interceptor):
    """Counts how often a client asks what a workflow is doing."""

    def __init__(self) -> None:
        self.count = 0

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # temporalio's name
        return Counting(next, self)


class Counting(OutboundInterceptor):
    def __init__(self, next_one: OutboundInterceptor, descriptions: Descriptions) -> None:
        super().__init__(next_one)
        self._descriptions = descriptions

    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:  # noqa: A002
        found = await super().describe_workflow(input)
        self._descriptions.count += 1
        return found


async def test_no_message_of_a_run_comes_before_its_start_was_told(api: httpx.AsyncClient, temporal: Client) -> None:
    task_id = await started(api, sleeper_call(30, steps=60))

    async def run_has_a_message() -> bool:
        return "of 30 s" in ((await api.get(f"/v1/tasks/{task_id}")).json().get("status_message") or "")

    await eventually(run_has_a_message)
    descriptions = Descriptions()
    client = Client(**{**temporal.config(), "interceptors": [descriptions]})

    async def described_twice() -> None:
        async def looked() -> bool:
            return descriptions.count >= 2

        await eventually(looked)

    # The past is empty, as for a stream that begins with its task; the run's start is read after two looks at the task.
    late = with_faults(client, [StopAsyncIteration(), described_twice], after=0)
    async with aclosing(cast(AsyncGenerator[TaskEvent], stream_events(late, task_id, after=(0, 0)))) as stream:
        told = [await anext(stream) for _ in range(3)]
    assert [event.name for event in told] == ["created", "run_started", "status_message"]
    assert "of 30 s" in str(told[2].data["status_message"])
    await api.post(f"/v1/tasks/{task_id}/cancel")


async def test_a_workflow_that_an_operator_ended_is_told_as_failed(api: httpx.AsyncClient, temporal: Client) -> None:
    task_id = await started(api, sleeper_call(30))
    told: list[Event] = []
    async for event in events(api, task_id):
        told.append(event)
        if event.name == "run_started":
            await temporal.get_workflow_handle(task_id).terminate("by hand")
    assert (told[-1].name, told[-1].data["status"]) == ("task_completed", "failed")
    shown = (await api.get(f"/v1/tasks/{task_id}")).json()
    assert shown["status"] == "failed"
    result = await api.get(f"/v1/tasks/{task_id}/result")
    assert (result.status_code, result.json()["result"]["is_error"]) == (200, True)


async def test_a_session_that_continues_as_new_loses_no_event(temporal: Client, api: httpx.AsyncClient) -> None:
    handle = await temporal.start_workflow(
        SessionWorkflow.run,
        SessionState(caller_id="local", session_id="long"),
        id="session:local:long",
        task_queue=TOOLS_TASK_QUEUE,
    )
    first_run = handle.first_execution_run_id
    sent = 0

    async def continued() -> bool:
        nonlocal sent
        for _ in range(10):
            sent += 1
            event = TaskCompleted(task_id=f"task-{sent}", tool="call-actor", status=TaskStatus.COMPLETED)
            await temporal.get_workflow_handle(handle.id).signal(SessionWorkflow.task_completed, event)
        return (await temporal.get_workflow_handle(handle.id).describe()).run_id != first_run

    await eventually(continued, timeout_seconds=180)
    answer = await completed(api, sleeper_call(0) | {"session_id": "long"})

    async def last_is_the_call() -> bool:
        told = await temporal.get_workflow_handle_for(SessionWorkflow.run, handle.id).query(SessionWorkflow.events)
        return task_of(told[-1]) == answer["task"]["id"]

    await eventually(last_is_the_call)
    told = await temporal.get_workflow_handle_for(SessionWorkflow.run, handle.id).query(SessionWorkflow.events)
    numbers = [event.number for event in told]
    assert numbers == list(range(sent + 2 - len(told), sent + 2))
    assert len(told) == min(sent + 1, 200)
    assert [task_of(event) for event in told[:-1]] == [f"task-{n}" for n in numbers[:-1]]


def task_of(event: SessionEvent) -> str:
    """Whose completion the session was told of."""
    assert event.task_completed is not None
    return event.task_completed.task_id
