"""The event loop of functions: cancellations reach it, also before it had a turn for the function."""

import asyncio
import threading

import pytest
from temporalio.testing import ActivityEnvironment

from outlast.worker.functions_loop import FunctionsLoop


async def test_a_function_that_is_cancelled_before_its_first_turn_does_not_run_on() -> None:
    loop, release = FunctionsLoop(), threading.Event()

    async def blocks() -> None:
        release.wait()

    async def waits() -> None:
        await asyncio.Event().wait()

    async def calls() -> None:
        blocking = asyncio.ensure_future(loop.run(blocks(), "blocks"))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(loop.run(waits(), "waits"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 60)
        await blocking

    await ActivityEnvironment().run(calls)


async def test_what_a_function_raises_reaches_the_caller_and_leaves_the_loop_running() -> None:
    loop = FunctionsLoop()

    async def leaves() -> None:
        raise SystemExit(3)

    async def answers() -> int:
        return 1

    async def calls() -> int:
        with pytest.raises(SystemExit):
            await loop.run(leaves(), "leaves")
        return await loop.run(answers(), "answers")

    assert await ActivityEnvironment().run(calls) == 1
