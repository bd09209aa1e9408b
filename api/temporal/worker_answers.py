"""Answers that only a worker can give: those of updates and queries of workflows."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError

from outlast.activities.heartbeat import raise_cancellation
from outlast.api.errors import TemporalUnavailable

WORKER_SECONDS = 30.0
"""How long an answer is waited for."""

Answer = TypeVar("Answer")


async def answer_of_worker(answer: Awaitable[Answer], advice: str = "Nothing is lost; ask again shortly.") -> Answer:
    """Await an answer that only a worker can give.

    Raises `TemporalUnavailable`, which ends with `advice`, when no worker answers in time.
    """
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            return await answer
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        raise_cancellation(error)
        raise TemporalUnavailable(f"No worker has answered within {WORKER_SECONDS:g} seconds. {advice}") from None
