"""All who follow something through one API process share its looks at Temporal."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.activities.pacing import Looks
from outlast.api.access.limits.caller_limits import UnreadBytes
from outlast.api.access.policy.source import PolicySource
from outlast.api.access.principal import Principal
from outlast.api.batches import client as batches
from outlast.api.tasks import handoffs
from outlast.api.tasks.client import TaskClient
from outlast.api.temporal import session_events
from outlast.contracts.batches import Batch
from outlast.contracts.handoffs import OpenHandoff
from outlast.contracts.tasks import TurnStreamEvent
from outlast.workflows.batches.contracts import BatchStatus
from tests.support.eventually import eventually

FOLLOWERS = 200


class NotedLooks(Looks):
    """Looks whose pauses are noted."""

    def __init__(self) -> None:
        super().__init__(per_second=50)
        self.noted: list[float] = []

    def pause_seconds(self, least: float) -> float:
        self.noted.append(super().pause_seconds(least))
        return self.noted[-1]


class WorkingBatch:
    status = BatchStatus.WORKING

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {}


class NoHandoffs(handoffs.Handoffs):
    async def open(
        self, principal: Principal, tools: Sequence[str] = (), *, caller: str | None = None
    ) -> list[OpenHandoff]:
        return []


class SilentTurn(session_events.TurnEventLog):
    async def follow(self, **_: Any) -> AsyncGenerator[TurnStreamEvent]:
        await asyncio.Event().wait()
        yield cast(TurnStreamEvent, None)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> NotedLooks:
    noted = NotedLooks()
    monkeypatch.setattr(batches, "DESCRIPTIONS", noted)
    monkeypatch.setattr(handoffs, "LISTS", noted)
    monkeypatch.setattr(session_events, "DESCRIPTIONS", noted)
    return noted


async def test_followers_of_batches_share_their_looks(looks: NotedLooks) -> None:
    batch = cast(Batch, WorkingBatch())

    async def look() -> Batch:
        return batch

    await _follow(lambda: batches.progress_events(batch, look), looks)


async def test_a_batch_that_is_read_before_its_round_is_recorded_is_not_told_of(looks: NotedLooks) -> None:
    """Between the two, its description has neither the round's counts nor those that the round began with."""
    first = Batch(
        id="b", tool="t", mode="default", status=BatchStatus.WORKING, created_at=datetime.now(UTC), total=9, waiting=9,
        results="r", options={},
    )  # fmt: skip
    read = [
        first.model_copy(update={"completed": completed, "cost_usd": cost_usd, "failed": failed, "status": status})
        for completed, cost_usd, failed, status in (
            (2, 0.2, 1, BatchStatus.WORKING),
            (0, 0.0, 0, BatchStatus.WORKING),
            (2, 0.1, 1, BatchStatus.WORKING),
            (2, 0.2, 0, BatchStatus.WORKING),
            (9, 0.9, 0, BatchStatus.COMPLETED),
        )
    ]

    async def look() -> Batch:
        return read.pop(0)

    told = [event.data async for event in batches.progress_events(first, look)]
    assert [(batch.get("completed"), batch.get("failed")) for batch in told] == [(0, 0), (2, 1), (2, 0), (9, 0)]


async def test_followers_of_handoffs_share_their_looks(looks: NotedLooks) -> None:
    nobody = Principal(Caller(id="nobody"))
    open_ones = NoHandoffs(cast(TaskClient, None), UnreadBytes(PolicySource(None)))
    await _follow(lambda: open_ones.follow(nobody), looks)


async def test_followers_of_silent_turns_share_their_looks(looks: NotedLooks) -> None:
    turn = SilentTurn(cast(Client, None), "turn", "run")
    await _follow(lambda: turn.live(after=(0, 0, 0)), looks, alone=2)


async def _follow(events: Callable[[], AsyncIterator[Any]], looks: NotedLooks, *, alone: float = 1) -> None:
    """The last of many followers waits so long that all together look as often as 50 did; `alone`, one waits less."""

    async def read() -> None:
        async for _ in events():
            pass

    reading = [asyncio.create_task(read()) for _ in range(FOLLOWERS)]
    await eventually(lambda: len(looks.noted) >= FOLLOWERS)
    for one in reading:
        one.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    assert looks.noted[0] == alone
    assert looks.noted[FOLLOWERS - 1] == FOLLOWERS / 50
    assert looks.pause_seconds(1) == 1, "those that have gone do not count"
