"""Both clients against a real stack: tasks from their start to their answer."""

import asyncio
import json
from typing import Any

import pytest

from outlast.client import AsyncClient, Client, Conflict, InvalidRequest, NotFound, TaskFailed, WaitTimedOut
from tests.support.eventually import eventually

SLEEPER = "outlast--sleeper"


def test_a_call_gives_the_tools_answer(client: Client) -> None:
    answer = client.call("hello_world", {"name": "Ann"})
    assert (answer.text, answer.task.status) == ("Hello, Ann!", "completed")


async def test_the_asynchronous_client_gives_the_same(async_client: AsyncClient) -> None:
    assert (await async_client.call("hello_world", {"name": "Ann"})).text == "Hello, Ann!"


def test_an_actor_is_called_by_its_own_name(client: Client) -> None:
    answer = client.call("outlast/sleeper", {"seconds": 0.1}, max_items=10, deadline_seconds=120)
    assert answer.task.tool == SLEEPER
    assert answer.task.run is not None
    assert answer.task.run.status == "SUCCEEDED"


def test_a_failing_tool_raises_its_error_envelope(client: Client) -> None:
    with pytest.raises(TaskFailed) as caught:
        client.call("get-actor-run", {"runId": "nothing-like-this"})
    assert caught.value.error is not None
    assert (caught.value.error.category, caught.value.task_id) == ("not_found", caught.value.answer.task.id)
    assert client.result(caught.value.task_id).is_failure


def test_arguments_that_break_the_schema_are_refused_with_every_place(client: Client) -> None:
    with pytest.raises(InvalidRequest) as caught:
        client.start(SLEEPER, {"seconds": "long"})
    assert (caught.value.status, caught.value.problem["status"]) == (422, 422)
    assert [violation.path for violation in caught.value.violations] == ["/seconds"]


def test_a_task_that_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        client.get("task-that-never-was")


def test_the_same_idempotency_key_gives_the_same_task_and_refuses_another_call(client: Client) -> None:
    first = client.start("hello_world", {"name": "Ann"}, idempotency_key="greet-ann")
    assert client.start("hello_world", {"name": "Ann"}, idempotency_key="greet-ann").id == first.id
    with pytest.raises(Conflict):
        client.start("hello_world", {"name": "Bob"}, idempotency_key="greet-ann")
    assert client.start("hello_world", {"name": "Ann"}).id != first.id


def test_waiting_has_a_limit_and_the_task_goes_on(client: Client) -> None:
    task = client.start(SLEEPER, {"seconds": 3})
    with pytest.raises(WaitTimedOut, match=task.id):
        client.wait(task.id, timeout_seconds=0.2)
    assert client.wait(task.id).task.status == "completed"


async def test_a_cancelled_task_fails_whoever_waits(async_client: AsyncClient) -> None:
    task = await async_client.start(SLEEPER, {"seconds": 300})
    waiting = asyncio.create_task(async_client.wait(task.id))
    await async_client.cancel(task.id)
    with pytest.raises(TaskFailed, match="was cancelled"):
        await waiting


def test_events_come_in_order_and_from_any_point(client: Client) -> None:
    task = client.start(SLEEPER, {"seconds": 0.1})
    with client.events(task.id) as events:
        seen = list(events)
    names = [event.name for event in seen if event.id]
    assert (names[0], names[-1]) == ("created", "run_finished" if "run_finished" in names[-1:] else names[-1])
    assert "task_completed" in names
    durable = [event for event in seen if event.id]
    with client.events(task.id, after=durable[1].id) as events:
        assert [event.id for event in events if event.id] == [event.id for event in durable[2:]]


async def test_a_question_is_answered_without_naming_its_key(async_client: AsyncClient) -> None:
    task = await async_client.start("pick_colour", {"colours": ["red", "blue"]})
    async with async_client.events(task.id) as events:
        async for event in events:
            if event.name == "input_required":
                break
    with pytest.raises(InvalidRequest):
        await async_client.answer(task.id, {"shade": 1})
    await async_client.answer(task.id, {"colour": "red"})
    assert "red" in (await async_client.wait(task.id)).text


async def test_waiting_goes_on_while_a_task_asks_a_person(async_client: AsyncClient) -> None:
    task = await async_client.start("deploy", {"item": "shop"})

    async def asks() -> bool:
        return (await async_client.get(task.id)).status == "input_required"

    await eventually(asks)
    with pytest.raises(WaitTimedOut, match="is input_required"):
        await async_client.wait(task.id, timeout_seconds=0.1)
    waiting = asyncio.create_task(async_client.wait(task.id))
    await async_client.answer(task.id, {"decision": "yes"})
    assert (await waiting).task.status == "completed"


async def test_a_refused_approval_raises_task_failed(async_client: AsyncClient) -> None:
    task = await async_client.start("deploy", {"item": "shop"})

    async def asks() -> bool:
        return (await async_client.get(task.id)).status == "input_required"

    await eventually(asks)
    await async_client.answer(task.id, {"decision": "no"})
    with pytest.raises(TaskFailed) as caught:
        await async_client.wait(task.id)
    assert caught.value.error is not None
    assert caught.value.error.category == "permission"


def test_an_approval_that_nobody_gives_in_time_raises_task_failed(client: Client) -> None:
    with pytest.raises(TaskFailed) as caught:
        client.call("hasty_deploy", {"item": "shop"})
    assert caught.value.error is not None
    assert caught.value.error.category == "timeout"


def test_a_list_goes_on_over_all_its_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.client.requests.PAGE_SIZE", 2)
    started = {client.call("hello_world", session_id="listed").task.id for _ in range(5)}
    assert {task.id for task in client.list_tasks(session_id="listed")} == started
    assert len(list(client.list_tasks(session_id="listed", limit=3))) == 3


def test_tools_are_listed_and_described(client: Client) -> None:
    assert SLEEPER in {tool.name for tool in client.tools()}
    assert "seconds" in json.dumps(client.tool("outlast/sleeper").input_schema)


def test_answers_keep_fields_of_a_newer_server(client: Client) -> None:
    document: dict[str, Any] = client.call("hello_world").task.document()
    newer = client.get(str(document["id"])).model_validate({**document, "of_the_future": 1})
    assert newer.document()["of_the_future"] == 1
