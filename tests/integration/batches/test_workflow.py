"""The workflow of a batch with rounds as told: what it does next, and how it goes on for ever in a short history."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from outlast.activities.batches.contracts import (
    BatchOptions,
    BatchPlace,
    BatchState,
    CloseInput,
    Counts,
    LegInput,
    Lines,
    RoundInput,
    Slot,
    StopReason,
)
from outlast.deploy.local.temporal_server import TemporalServer
from outlast.worker.ended_runs import batch_outcome
from outlast.workflows.batches.batch import BatchWorkflow
from outlast.workflows.batches.contracts import BatchInput, BatchOutcome, BatchProgress, BatchStatus, LegRequest
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.queues import OUTPUTS_TASK_QUEUE, RUNS_TASK_QUEUE
from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect

Round = Callable[[RoundInput], BatchState]
Running = WorkflowHandle[BatchWorkflow, BatchOutcome]


class Rounds:
    """Activities that do as they are told; what they were asked for is in `asked`."""

    def __init__(self, carry_on: Any) -> None:
        self._carry_on = carry_on
        self.asked: list[RoundInput] = []
        self.closed: list[CloseInput] = []

    @activity.defn
    async def carry_on_batch(self, request: RoundInput) -> BatchState:
        self.asked.append(request)
        return await self._carry_on(request)

    @activity.defn
    async def prepare_batch_leg(self, request: LegInput) -> BatchState:
        plan = Lines(digest="1" * 64, count=2)
        return request.state.model_copy(
            update={"plan": plan, "plan_end": 2, "cursor": 0, "counts": Counts(completed=8)}
        )

    @activity.defn
    async def close_batch(self, request: CloseInput) -> None:
        self.closed.append(request)


@pytest.fixture
async def client(temporal_server: TemporalServer) -> Client:
    return await connect(temporal_server.address)


@asynccontextmanager
async def serving(client: Client, rounds: Rounds) -> AsyncGenerator[str]:
    queue = f"batches-{uuid4()}"
    short: Sequence[Any] = (rounds.carry_on_batch,)
    long: Sequence[Any] = (rounds.prepare_batch_leg, rounds.close_batch)
    async with (
        Worker(client, task_queue=queue, workflows=[BatchWorkflow]),
        Worker(
            client,
            task_queue=RUNS_TASK_QUEUE,
            activities=short,
            max_heartbeat_throttle_interval=timedelta(milliseconds=50),
            default_heartbeat_throttle_interval=timedelta(milliseconds=50),
        ),
        Worker(client, task_queue=OUTPUTS_TASK_QUEUE, activities=long),
    ):
        yield queue


async def begun(client: Client, queue: str, count: int, leg: LegRequest | None = None, **options: Any) -> Running:
    place = BatchPlace(
        batch_id=f"batch-{uuid4()}",
        caller_id="ann",
        call={},
        summary={},
        items=Lines(digest="0" * 64, count=count),
        starts_runs=True,
        is_paid=True,
        share=10,
        ttl_seconds=3_600,
    )
    batch_input = BatchInput(
        place=place, options=BatchOptions.model_validate(options), state=BatchState(plan_end=count), leg=leg
    )
    return await client.start_workflow(BatchWorkflow.run, batch_input, id=place.batch_id, task_queue=queue)


def ten_more(request: RoundInput) -> BatchState:
    """Ten items further, with the last one under way."""
    state = request.state
    cursor = min(state.cursor + 10, request.horizon, state.plan_end)
    under_way = () if cursor == state.plan_end else (Slot(position=cursor - 1, index=cursor - 1, attempt=1),)
    done = cursor - len(under_way)
    return state.model_copy(
        update={
            "cursor": cursor,
            "under_way": under_way,
            "counts": Counts(completed=done),
            "cost_usd": Decimal(done) / 100,
        }
    )


async def test_a_batch_of_many_rounds_continues_as_new_with_its_state(client: Client) -> None:
    shown: list[int] = []

    async def carry_on(request: RoundInput) -> BatchState:
        described = await client.get_workflow_handle(request.place.batch_id).describe()
        progress = await described.memo_value(memo.BATCH_PROGRESS, BatchProgress.nothing(), type_hint=BatchProgress)
        shown.append(progress.counts.completed)
        return ten_more(request)

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        handle = await begun(client, queue, 395)
        outcome = await batch_outcome(handle)
    # Lists show the latest round, in the first round after continuing as new too.
    assert shown == [request.state.counts.completed for request in rounds.asked]
    assert (outcome.status, outcome.state.counts.completed) == (BatchStatus.COMPLETED, 395)
    assert [request.state.cursor for request in rounds.asked] == list(range(0, 395, 10))
    assert len(rounds.closed) == 1
    # The server suggests it at a hundred events.
    described = await handle.describe()
    assert described.raw_description.workflow_execution_info.first_run_id != described.run_id
    assert described.history_length < 150


async def test_a_cancelled_batch_cancels_what_is_under_way_and_is_a_cancelled_workflow(client: Client) -> None:
    async def carry_on(request: RoundInput) -> BatchState:
        if request.step == "abort":
            counts = Counts(completed=9, cancelled=len(request.state.under_way))
            return request.state.model_copy(update={"under_way": (), "counts": counts})
        try:
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            return ten_more(request)

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        handle = await begun(client, queue, 100)
        await eventually(lambda: rounds.asked)
        await handle.cancel()
        outcome = await batch_outcome(handle)
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    assert metadata.current_details == ("10 of 100 items have ended; cost 0.09 US dollars. Stopped: it was cancelled.")
    assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED
    assert (outcome.status, outcome.state.stop) == (BatchStatus.CANCELLED, StopReason.CANCELLED)
    assert (outcome.state.counts.cancelled, outcome.state.cursor) == (1, 10)
    assert [request.step for request in rounds.asked] == ["run", "abort"]
    assert [request.looks_back for request in rounds.asked] == [False, False]


async def test_of_a_round_that_said_nothing_the_next_one_finds_out_what_it_started(client: Client) -> None:
    """The attempt failed, and the batch was cancelled before another one began."""

    async def carry_on(request: RoundInput) -> BatchState:
        if request.step == "run":
            raise ApplicationError("The worker is gone.", next_retry_delay=timedelta(hours=1))
        return request.state

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        handle = await begun(client, queue, 5_000)
        await eventually(lambda: rounds.asked)
        await handle.cancel()
        outcome = await batch_outcome(handle)
    assert outcome.status is BatchStatus.CANCELLED
    assert [(request.step, request.looks_back, request.horizon) for request in rounds.asked] == [
        ("run", False, 1_000),
        ("abort", True, 1_000),
    ]


async def test_a_round_that_fails_when_it_is_cancelled_is_looked_after(client: Client) -> None:
    """As without a store: Temporal does not repeat what it was asked to cancel."""

    async def carry_on(request: RoundInput) -> BatchState:
        if request.step == "abort":
            return request.state
        try:
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            raise ApplicationError("The store is away.") from None

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        handle = await begun(client, queue, 100)
        await eventually(lambda: rounds.asked)
        await handle.cancel()
        outcome = await batch_outcome(handle)
    assert (outcome.status, outcome.state.stop) == (BatchStatus.CANCELLED, StopReason.CANCELLED)
    assert [(request.step, request.looks_back) for request in rounds.asked] == [("run", False), ("abort", True)]


async def test_a_budget_that_leaves_nothing_for_an_item_stops_the_batch(client: Client) -> None:
    async def carry_on(request: RoundInput) -> BatchState:
        assert request.item_limit_usd is not None
        state = ten_more(request)
        return state.model_copy(update={"under_way": (), "highest_usd": Decimal("0.04")})

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        outcome = await batch_outcome(await begun(client, queue, 100, budget_usd="0.32", concurrency=2))
    assert (outcome.status, outcome.state.stop) == (BatchStatus.STOPPED, StopReason.MONEY)
    limits = [request.item_limit_usd for request in rounds.asked]
    assert limits == [Decimal("0.08"), Decimal("0.0575"), Decimal("0.04")]


@pytest.mark.parametrize("under_way", ["finish", "cancel"])
async def test_what_is_under_way_when_a_batch_stops_ends_as_its_rule_says(client: Client, under_way: str) -> None:
    async def carry_on(request: RoundInput) -> BatchState:
        if request.step == "run":
            return ten_more(request).model_copy(update={"stop": StopReason.ENOUGH, "stop_words": "enough"})
        return request.state.model_copy(update={"under_way": ()})

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        handle = await begun(client, queue, 100, stop={"under_way": under_way})
        outcome = await batch_outcome(handle)
    assert (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED, "the caller wanted no more"
    assert outcome.status is BatchStatus.STOPPED
    assert [request.step for request in rounds.asked] == ["run", "drain" if under_way == "finish" else "abort"]


async def test_a_leg_is_prepared_first(client: Client) -> None:
    async def carry_on(request: RoundInput) -> BatchState:
        return request.state.model_copy(update={"cursor": 2, "counts": Counts(completed=10)})

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        outcome = await batch_outcome(await begun(client, queue, 10, LegRequest(kind="retry")))
    assert (outcome.status, outcome.state.counts.completed) == (BatchStatus.COMPLETED, 10)
    assert [request.state.plan_end for request in rounds.asked] == [2]


async def test_what_cannot_go_on_stops_and_says_why(client: Client) -> None:
    async def carry_on(request: RoundInput) -> BatchState:
        raise ApplicationError("The items are lost.", non_retryable=True)

    async with serving(client, Rounds(carry_on)) as queue:
        handle = await begun(client, queue, 10)
        outcome = await batch_outcome(handle)
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED
    assert (outcome.status, outcome.state.stop) == (BatchStatus.STOPPED, StopReason.DEFECT)
    assert "The items are lost." in str(outcome.state.stop_words)


@pytest.mark.parametrize("budget", ["1e30", "1e400", "1e-3000"])
async def test_a_budget_that_is_no_amount_ends_the_batch_before_anything_is_started(
    client: Client, budget: str
) -> None:
    """It failed its first step for ever: it came from before there was a bound, or around the entry points."""

    async def carry_on(request: RoundInput) -> BatchState:
        return ten_more(request)

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        outcome = await batch_outcome(await begun(client, queue, 20, budget_usd=Decimal(budget)))
    assert (outcome.status, outcome.state.stop) == (BatchStatus.STOPPED, StopReason.DEFECT)
    assert "`budget_usd` is 1E" in (outcome.state.stop_words or "")
    assert rounds.asked == []


async def test_a_stop_rule_of_more_seconds_than_there_are_dates_is_a_long_time(client: Client) -> None:
    async def carry_on(request: RoundInput) -> BatchState:
        return ten_more(request)

    rounds = Rounds(carry_on)
    async with serving(client, rounds) as queue:
        outcome = await batch_outcome(await begun(client, queue, 10, stop={"seconds": 10**15}))
    assert outcome.status is BatchStatus.COMPLETED
