"""Equal calls meet in one run, whatever dies between them."""

import asyncio

from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos

CALL = {"seconds": 6, "options": {"reuse": {"max_age": "1h"}}}


async def test_equal_calls_start_one_run_whatever_is_killed_between_them(chaos: Chaos) -> None:
    first = await chaos.start(**CALL)
    await chaos.until_message(first, "Slept")
    await chaos.stack.api.restart()  # It remembered which task it was.
    assert await chaos.start(**CALL) == first
    await chaos.stack.worker.restart()
    assert set(await asyncio.gather(*(chaos.start(**CALL) for _ in range(10)))) == {first}
    await chaos.expect_right_answer(first)
    await chaos.stack.temporal.restart()
    await chaos.stack.api.restart()

    async def met_again() -> bool:
        return await chaos.start(**CALL) == first

    assert await eventually(met_again)
    chaos.expect_one_run_per_task()
