"""`kill -9` of the Temporal server: nothing that was accepted is lost; meanwhile the API says that it has to wait."""

import asyncio
import uuid

import pytest

from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("accepted", marks=pytest.mark.thorough),
        "starting",
        "in progress",
        pytest.param("finishing", marks=pytest.mark.thorough),
    ],
)
async def test_tasks_go_on_when_the_server_is_back(chaos: Chaos, moment: str) -> None:
    if moment == "starting":
        chaos.sandbox.order_fault("delay_after", method="POST", path="/runs$", seconds=2, times=2)
    tasks = [await chaos.start(seconds=3, mode=mode) for mode in ("default", "openai")]
    if moment in {"starting", "finishing"}:
        await chaos.until(lambda: chaos.books.starts == 2)
    if moment == "in progress":
        await chaos.until_message(tasks[0], "Slept")
    if moment == "finishing":
        await chaos.until(lambda: chaos.books.ended_as("SUCCEEDED") >= 1)
    await chaos.stack.temporal.restart()
    for task in tasks:
        await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task(tasks=2)


async def test_the_api_answers_503_while_the_server_is_away_and_the_same_request_works_afterwards(chaos: Chaos) -> None:
    task = await chaos.start(seconds=6)
    await chaos.until_message(task, "Slept")
    key, body = uuid.uuid4().hex, chaos.body(seconds=1)
    chaos.stack.temporal.kill()
    refusals = await asyncio.gather(
        chaos.http.get(f"/v1/tasks/{task}"),
        chaos.http.get("/v1/tasks"),
        chaos.http.get(f"/v1/tasks/{task}/result", params={"wait": 5}),
        chaos.http.get(f"/v1/tasks/{task}/events"),
        chaos.cancel(task),
        chaos.post(body, key=key),
    )
    for refusal in refusals:
        assert refusal.status_code == 503, refusal.text
        assert int(refusal.headers["Retry-After"]) > 0
        assert refusal.headers["Content-Type"] == "application/problem+json"
    assert (await chaos.http.get("/readyz")).status_code == 503
    assert (await chaos.http.get("/healthz")).status_code == 200
    await chaos.stack.temporal.ready()

    async def accepted() -> str:
        answer = await chaos.post(body, key=key)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    repeated = await eventually(accepted)
    await chaos.expect_right_answer(repeated)
    await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task(tasks=2)


async def test_an_event_stream_lives_through_the_servers_absence(chaos: Chaos) -> None:
    task = await chaos.start(seconds=3)
    names: list[str] = []
    async for event_id, name, _ in chaos.events(task):
        if event_id:
            names.append(name)
        if name == "run_started":
            chaos.stack.temporal.kill()
            # Long enough for every request to be given up.
            assert (await chaos.http.get(f"/v1/tasks/{task}")).status_code == 503
            await chaos.stack.temporal.ready()
    assert names == ["created", "run_started", "run_finished", "handler_returned", "task_completed"]
    chaos.expect_one_run_per_task()
