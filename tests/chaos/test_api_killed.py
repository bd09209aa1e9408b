"""`kill -9` of the API while clients wait: they come back with what they know, and find their task."""

import asyncio
import uuid

import httpx
import pytest

from tests.support.stacks.chaos_client import Chaos, Json


@pytest.mark.parametrize(
    "moment",
    [
        "the request was sent",
        pytest.param("the run was started", marks=pytest.mark.thorough),
        "the run is in progress",
    ],
)
async def test_a_client_that_repeats_its_request_meets_its_task(chaos: Chaos, moment: str) -> None:
    key = uuid.uuid4().hex
    body = chaos.body(seconds=3)
    waiting = asyncio.create_task(chaos.post(body, key=key, wait=60))
    await _reached(chaos, moment)
    await chaos.stack.api.restart()
    with pytest.raises(httpx.HTTPError):
        await waiting
    answers = await asyncio.gather(*(chaos.post(body, key=key, wait=60) for _ in range(2)))
    assert [answer.status_code for answer in answers] == [200, 200]
    ids = {answer.json()["task"]["id"] for answer in answers}
    assert len(ids) == 1
    await chaos.expect_right_answer(ids.pop())
    chaos.expect_one_run_per_task()


async def _reached(chaos: Chaos, moment: str) -> None:
    if moment == "the request was sent":
        await asyncio.sleep(0)  # one turn of the loop: the request goes out
        return
    await chaos.until(lambda: chaos.books.starts == 1)
    if moment == "the run is in progress":
        await chaos.until(lambda: chaos.books.requests("GET", "/v2/actor-runs/:id") >= 2)


@pytest.mark.parametrize(
    ("mode", "seen"),
    [
        ("default", "created"),
        pytest.param("openai", "run_started", marks=pytest.mark.thorough),
        pytest.param("default", "status_message", marks=pytest.mark.thorough),
        ("openai", "task_completed"),
    ],
)
async def test_an_event_stream_goes_on_where_it_broke_off(chaos: Chaos, mode: str, seen: str) -> None:
    task = await chaos.start(seconds=3, mode=mode)
    durable: list[tuple[str, str, Json]] = []
    last_id: str | None = None
    with pytest.raises(httpx.HTTPError):
        async for event_id, name, data in chaos.events(task):
            if event_id:
                durable.append((event_id, name, data))
                last_id = event_id
            if name == seen:
                chaos.stack.api.kill()
    await chaos.stack.api.ready()
    async for event_id, name, data in chaos.events(task, after=last_id):
        if event_id:
            durable.append((event_id, name, data))
    replayed = [event async for event in chaos.events(task) if event[0]]
    assert durable == replayed
    names = [name for _, name, _ in durable]
    assert sorted(names) == sorted(set(names))
    assert {"created", "run_started", "handler_returned", "task_completed", "run_finished"} == set(names)
    chaos.expect_one_run_per_task()
