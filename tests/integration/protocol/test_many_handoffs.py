"""Hundreds of hand-offs pending on one worker; ten thousand are the benchmark `handoffs`."""

import asyncio
from typing import Any

import httpx

from tests.support.calls.questions import asks, call, result, said, taken
from tests.support.calls.tasks import started

CALLS = 60


async def test_many_pending_hand_offs_are_all_answered_each_with_its_own_answer(api: httpx.AsyncClient) -> None:
    slots = asyncio.Semaphore(16)

    async def begun(number: int) -> str:
        async with slots:
            return await started(api, call("order", item=f"tea {number}"))

    async def answered(task_id: str, number: int) -> str:
        async with slots:
            task: dict[str, Any] = await asks(api, task_id)
            await taken(api, task, {"confirmed": number % 2 == 0})
            return said(await result(api, task_id))

    tasks = await asyncio.gather(*(begun(number) for number in range(CALLS)))
    waiting = await asyncio.gather(*(asks(api, task_id) for task_id in tasks))
    assert {task["status"] for task in waiting} == {"input_required"}
    answers = await asyncio.gather(*(answered(task_id, number) for number, task_id in enumerate(tasks)))
    for number, answer in enumerate(answers):
        assert answer.startswith(f"{'Ordered' if number % 2 == 0 else 'Left'} 1 tea {number} ")
