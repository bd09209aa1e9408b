"""`kill -9` of everything while a call waits for its client: the question is still there, and the answer counts."""

import asyncio
from pathlib import Path

import pytest

from tests.support.calls.questions import answered, asks, result, said, taken
from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos, Json

PALETTE = {"colours": ["red", "blue"]}


async def kill_everything(chaos: Chaos) -> None:
    """Worker, API and Temporal server, all at once, and all of them back."""
    for part in (chaos.stack.worker, chaos.stack.api, chaos.stack.temporal):
        part.kill()
    await chaos.stack.bring_up()


async def test_a_hand_off_outlives_worker_api_and_temporal_server(chaos: Chaos) -> None:
    task_id = await chaos.start_call("pick_colour", **PALETTE)
    before = await asks(chaos.http, task_id)
    await kill_everything(chaos)
    after = await chaos.task(task_id)
    assert after["status"] == "input_required"
    assert after["input_requests"] == before["input_requests"]
    refused = await answered(chaos.http, after, {"color": "red"})
    assert refused.status_code == 422
    await kill_everything(chaos)
    await taken(chaos.http, after, {"colour": "red"})
    assert said(await result(chaos.http, task_id)) == "The user likes red."


@pytest.mark.parametrize("tool", [pytest.param("order", marks=pytest.mark.thorough), "deploy"])
async def test_an_answer_that_was_taken_is_never_asked_for_again(chaos: Chaos, tool: str) -> None:
    content: Json = {"confirmed": True} if tool == "order" else {"decision": "yes"}
    task_id = await chaos.start_call(tool, item="tea")
    await taken(chaos.http, await asks(chaos.http, task_id), content)
    await kill_everything(chaos)
    task = await chaos.ended(task_id)
    assert task["status"] == "completed"
    answers = [data["data"] async for _, name, data in chaos.events(task_id) if name == "input_answered"]
    assert [answer["answered_by"] for answer in answers] == ["local"]


async def test_a_question_is_answered_while_no_worker_is_there_as_soon_as_one_is(chaos: Chaos) -> None:
    task_id = await chaos.start_call("pick_colour", **PALETTE)
    task = await asks(chaos.http, task_id)
    chaos.stack.worker.kill()
    assert (await chaos.task(task_id))["input_requests"] == task["input_requests"]
    answering = asyncio.create_task(answered(chaos.http, task, {"colour": "blue"}))
    chaos.stack.worker.start()
    await chaos.stack.worker.ready()
    said_by_api = await answering
    if said_by_api.status_code != 200:  # a slow machine: the API has told to answer again
        assert said_by_api.status_code == 503
        await taken(chaos.http, await asks(chaos.http, task_id), {"colour": "blue"})
    assert said(await result(chaos.http, task_id)) == "The user likes blue."


async def test_a_plain_function_is_run_again_when_its_worker_dies(chaos: Chaos, tmp_path: Path) -> None:
    task_id = await chaos.start_call("linger", folder=str(tmp_path), seconds=1)
    await eventually((tmp_path / "started").exists)
    await chaos.stack.worker.restart()
    assert (await chaos.ended(task_id))["status"] == "completed"
    assert said(await result(chaos.http, task_id)) == "Slept"
