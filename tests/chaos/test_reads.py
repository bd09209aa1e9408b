"""Quick reads are local activities: what happens when their worker dies, and when the platform does not answer."""

from collections.abc import Awaitable, Callable

import pytest

from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import Part


async def killed(worker: Part) -> None:
    """`kill -9`."""
    await worker.restart()


async def stopped(worker: Part) -> None:
    """SIGTERM."""
    await worker.terminate()
    await worker.ready()


@pytest.mark.parametrize("ends", [killed, stopped])
async def test_a_read_outlives_the_worker_that_made_it(chaos: Chaos, ends: Callable[[Part], Awaitable[None]]) -> None:
    dataset_id = await dataset_of_a_run(chaos)
    chaos.sandbox.order_fault("hang", method="GET", path=f"/datasets/{dataset_id}/items", times=1)
    read = await chaos.start_call("get-dataset-items", datasetId=dataset_id)
    await chaos.until(lambda: chaos.faults_left() == 0)
    await ends(chaos.stack.worker)
    task = await chaos.ended(read)
    result = await chaos.result(read)
    assert task["status"] == "completed", task
    assert result is not None
    assert [row["index"] for row in result["structured"]["items"]] == [0, 1, 2]
    told = [name async for _, name, _ in chaos.events(read) if name in ("handler_returned", "task_completed")]
    assert told == ["handler_returned", "task_completed"]


async def test_a_read_that_hangs_goes_over_to_an_activity_that_can_be_watched_and_cancelled(chaos: Chaos) -> None:
    dataset_id = await dataset_of_a_run(chaos)
    chaos.sandbox.order_fault("hang", method="GET", path=f"/datasets/{dataset_id}/items")
    read = await chaos.start_call("get-dataset-items", datasetId=dataset_id)
    await chaos.until_message(read, "Attempt 2, trying again")
    await chaos.cancel(read)
    await chaos.expect_cancelled(read)


async def dataset_of_a_run(chaos: Chaos) -> str:
    """A dataset with three rows."""
    ended = await chaos.expect_right_answer(await chaos.start(seconds=0.1))
    return ended["run"]["dataset_id"]
