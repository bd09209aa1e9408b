"""A run is started within its workflow's first task: whatever becomes of the worker meanwhile, one run is paid.

The moments of a start: its task is delivered; the platform has accepted it, and answers later; it has answered, and
Temporal has not taken note. What looks for the run allows nothing for clocks that differ (`exact_clocks`), so that a
worker that is away for some seconds is away for longer than that.
"""

from collections.abc import AsyncIterator, Sequence

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import Part

BEGAN = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
LOST = EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT
STARTS = "/runs$"


@pytest.fixture
async def client(chaos: Chaos) -> Client:
    return await connect(chaos.stack.temporal_server.address)


@pytest.fixture
async def second(chaos: Chaos) -> AsyncIterator[Part]:
    """Another worker, not started yet."""
    worker = chaos.stack.new_worker("second worker")
    yield worker
    worker.kill()


async def kinds(client: Client, task_id: str) -> Sequence[EventType.ValueType]:
    return [event.event_type for event in (await client.get_workflow_handle(task_id).fetch_history()).events]


async def accepted_and_delivered(chaos: Chaos, client: Client) -> list[str]:
    """Two tasks of the worker, which stands still: a start that is accepted, and one whose task was just delivered."""
    chaos.sandbox.order_fault("delay_after", method="POST", path=STARTS, seconds=2, times=1)
    accepted = await chaos.start(seconds=1)
    await chaos.until(lambda: chaos.books.starts == 1)
    chaos.stack.worker.suspend()
    delivered = await chaos.start(seconds=1)

    async def is_delivered() -> bool:
        return BEGAN in await kinds(client, delivered)

    await eventually(is_delivered)
    return [accepted, delivered]


async def test_a_call_of_an_actor_starts_its_run_in_its_first_task(chaos: Chaos, client: Client) -> None:
    """Else the others here would test nothing."""
    task = await chaos.start(seconds=0.1)
    await chaos.expect_right_answer(task)
    history = await kinds(client, task)
    assert EventType.EVENT_TYPE_MARKER_RECORDED in history
    assert history.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1  # It follows the run.
    assert len(history) <= 15


async def test_a_worker_killed_while_it_starts_runs_pays_for_none_twice(chaos: Chaos, client: Client) -> None:
    tasks = await accepted_and_delivered(chaos, client)
    await chaos.stack.worker.restart()
    ended = [await chaos.expect_right_answer(task) for task in tasks]
    assert [LOST in await kinds(client, task) for task in tasks] == [True, True]
    assert ended[0]["run"]["run_id"] == chaos.books.run_ids()[0]
    chaos.expect_one_run_per_task(tasks=2)


@pytest.mark.thorough
async def test_a_call_that_is_cancelled_after_its_worker_was_lost_leaves_no_run(chaos: Chaos, client: Client) -> None:
    # The task is lost after ten seconds, and the settle time is three here.
    chaos.sandbox.order_fault("late_runs", path="runs", seconds=15)
    chaos.sandbox.order_fault("delay_after", method="POST", path=STARTS, seconds=2, times=1)
    task = await chaos.start(seconds=600)
    await chaos.until(lambda: chaos.books.starts == 1)
    chaos.stack.worker.kill()
    await chaos.cancel(task)
    await chaos.stack.worker.ready()
    await chaos.expect_cancelled(task)
    assert LOST in await kinds(client, task)
    assert chaos.books.ended_as("ABORTED") == 1
    chaos.expect_one_run_per_task()


async def test_a_worker_killed_between_the_platforms_answer_and_temporals_leaves_a_run_to_be_adopted(
    chaos: Chaos, client: Client
) -> None:
    chaos.sandbox.order_fault("delay_after", method="POST", path=STARTS, seconds=1, times=1)
    task = await chaos.start(seconds=1)
    await chaos.until(lambda: chaos.books.starts == 1)
    chaos.stack.temporal.suspend()
    # The answer was sent when the route is counted as answered; the worker cannot tell Temporal of it.
    await chaos.until(lambda: chaos.books.requests("POST", "/v2/actors/:id/runs") == 1)
    await chaos.until(lambda: chaos.books.ended_as("SUCCEEDED") == 1)
    chaos.stack.worker.kill()
    chaos.stack.temporal.resume()
    await chaos.stack.worker.ready()
    await chaos.expect_right_answer(task)
    assert LOST in await kinds(client, task)
    chaos.expect_one_run_per_task()


async def test_a_worker_that_stood_still_sends_no_start_that_another_one_has_sent_meanwhile(
    chaos: Chaos, client: Client, second: Part
) -> None:
    first = chaos.stack.worker
    tasks = await accepted_and_delivered(chaos, client)
    await second.ready()
    for task in tasks:
        await chaos.expect_right_answer(task)
    second.kill()
    first.resume()
    # When it has done this one, it has also done what it woke up with.
    later = await chaos.start(seconds=0.1)
    await chaos.expect_right_answer(later)
    assert [LOST in await kinds(client, task) for task in tasks] == [True, True]
    chaos.expect_one_run_per_task(tasks=3)
