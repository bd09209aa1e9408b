"""Rounds of a batch, of which any attempt may end anywhere: each item is started once, and has one row."""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from outlast.activities.batches import round as batch_round
from outlast.activities.batches.activities import ROUND_HEARTBEAT_TIMEOUT, BatchActivities
from outlast.activities.batches.contracts import (
    BatchOptions,
    BatchPlace,
    BatchState,
    EqualCalls,
    ItemLine,
    ItemOutcome,
    ItemRow,
    ItemStatus,
    LegInput,
    Lines,
    MetTask,
    ResultsState,
    ReusedAnswer,
    RoundInput,
    Slot,
    StopReason,
    StopRule,
    item_task_id,
)
from outlast.activities.batches.storage import ItemList, LineWriter, ResultsWriter, results_locator
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.exceptions import OutputError
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.reader import open_output

BATCH = "batch-0123"


class Died(Exception):
    """The worker, in the middle of something."""


class Tasks:
    """Tasks that end as soon as they are asked, except those that are held; and the death of a worker, as ordered."""

    def __init__(self) -> None:
        self.started: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.held: set[str] = set()
        self.shared: dict[str, MetTask] = {}
        """What somebody else has started for equal calls, by the key of the item that meets it once."""
        self.is_final = False
        self.failing: dict[str, ErrorCategory] = {}
        """Items whose every attempt fails, and with what."""
        self.fitting: int | None = None
        """Runs for which the caller's caps leave enough at a time; None: they leave enough for all."""
        self.asked = 0
        self.calls_left: int | None = None
        self.cost_usd = Decimal("0.01")
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.most_at_once = 0
        self._at_once = 0

    async def start(
        self, place: BatchPlace, item: ItemLine, task_id: str, *, limit_usd: Decimal | None, after: str | None
    ) -> MetTask:
        await self.may_start.wait()
        met = self.shared.pop(item.key, None)
        if met is None:
            met = MetTask(task_id=f"same-{item.key}" if item.equal is not None else task_id)
            self.started.setdefault(met.task_id, item.key)
        self._die_in_time()
        return met

    async def outcome(self, task_id: str) -> ItemOutcome | None:
        self._die_in_time()
        if task_id not in self.started:
            return None
        if self._is_full():
            error = ErrorEnvelope.transient(ErrorCategory.PAYMENT, "sleeper", "3.20 are left, 2.00 reserved.")
            return ItemOutcome(status="failed", error=error)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(0 if self.fitting is None else 0.002)
            while self.started[task_id] in self.held and task_id not in self.cancelled:
                await asyncio.sleep(0.001)
        finally:
            self._at_once -= 1
        status = "cancelled" if task_id in self.cancelled else "completed"
        category = self.failing.get(self.started[task_id])
        if category is not None and status == "completed":
            kind = ErrorEnvelope.permanent if self.is_final else ErrorEnvelope.transient
            error = kind(category, "sleeper", "It failed.")
            return ItemOutcome(status="failed", error=error, cost_usd=self.cost_usd)
        return ItemOutcome(status=status, text=self.started[task_id], cost_usd=self.cost_usd)

    async def refused(self, place: BatchPlace, item: ItemLine, *, limit_usd: Decimal | None) -> str | None:
        self.asked += 1
        return "Still reserved." if self._is_full() else None

    async def cancel(self, task_id: str) -> None:
        if task_id in self.started:
            self.cancelled.add(task_id)

    async def existing(self, items: Mapping[str, ItemLine]) -> Mapping[str, MetTask]:
        ids = {key: f"same-{item.key}" if item.equal is not None else key for key, item in items.items()}
        return {key: MetTask(task_id=task_id) for key, task_id in ids.items() if task_id in self.started}

    async def ended(self, batch_id: str, since: datetime) -> frozenset[str]:
        return frozenset()

    def _is_full(self) -> bool:
        return self.fitting is not None and self._at_once >= self.fitting

    def _die_in_time(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Died


class Roomy:
    """There is room for all."""

    async def free(self, running: int) -> int:
        return 1_000

    def started(self) -> None:
        pass


class Batch:
    """A batch of so many items, and what carries it out."""

    def __init__(self, objects: OutputObjects, tasks: Tasks, items: Lines, options: BatchOptions) -> None:
        self.tasks = tasks
        self._objects = objects
        self._activities = BatchActivities(objects, tasks, lambda _: Roomy(), namespace="default")
        self._options = options
        self._place = BatchPlace(
            batch_id=BATCH,
            caller_id="ann",
            call={},
            summary={},
            items=items,
            starts_runs=True,
            is_paid=True,
            share=10,
            ttl_seconds=3_600,
        )
        self.beat: BatchState | None = None
        self.count = items.count
        self.call: JsonObject = {}
        self.is_paid = True

    def request(self, state: BatchState | None = None, **changes: object) -> RoundInput:
        state = state or BatchState(plan_end=self.count)
        place = self._place.model_copy(update={"call": self.call, "is_paid": self.is_paid})
        fields = {"place": place, "options": self._options, "state": state, "horizon": self.count, **changes}
        return RoundInput.model_validate(fields)

    async def attempt(
        self, request: RoundInput, number: int = 1, environment: ActivityEnvironment | None = None
    ) -> BatchState:
        """One attempt at a round. It begins with the details of the heartbeat before."""
        environment = environment or ActivityEnvironment()
        details = [self.beat.model_dump(mode="json")] if number > 1 and self.beat is not None else []
        environment.info = dataclasses.replace(
            environment.info,
            attempt=number,
            heartbeat_details=details,
            heartbeat_timeout=ROUND_HEARTBEAT_TIMEOUT,
        )
        environment.on_heartbeat = self._keep
        return await environment.run(self._activities.carry_on_batch, request)

    async def rows(self) -> list[ItemRow]:
        try:
            reader = await open_output(self._objects, str(results_locator("ann", BATCH)), "ann")
        except OutputError:
            return []
        return [ItemRow.model_validate_json(row) async for row in reader.rows()]

    async def planned(self, pairs: list[list[int]]) -> Lines:
        """A list of `[index, attempts]` in the store."""
        writer = LineWriter(self._objects, namespace="default", batch_id=BATCH)
        for pair in pairs:
            await writer.add(json.dumps(pair).encode())
        return await writer.finish()

    async def plan_of(self, state: BatchState) -> list[list[int]]:
        items = ItemList(self._objects, self._place, state, namespace="default")
        return [pair async for pair in items.planned_from(0)]

    async def written(self, state: BatchState, rows: list[ItemRow]) -> ResultsState:
        writer = ResultsWriter(self._objects, self._place, state.results, namespace="default")
        await writer.append([row.model_dump_json().encode() for row in rows])
        return writer.state

    async def leg(self, state: BatchState, **fields: object) -> BatchState:
        request = LegInput.model_validate({"place": self._place, "state": state, **fields})
        return await ActivityEnvironment().run(self._activities.prepare_batch_leg, request)

    def _keep(self, *details: object) -> None:
        [self.beat] = [one for one in details if isinstance(one, BatchState)] or [self.beat]


Make = Callable[..., "asyncio.Future[Batch]"]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch_round, "_FLUSH_SECONDS", 0.0005)
    monkeypatch.setattr(batch_round, "_LOOK_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(batch_round, "_LONGEST_PAUSE_SECONDS", 0.001)

    async def make(count: int, *, equal: bool = False, **options: object) -> Batch:
        objects = OutputObjects.open(str(tmp_path))
        writer = LineWriter(objects, namespace="default", batch_id=BATCH)
        for number in range(count):
            calls = EqualCalls(digest=f"d{number}", max_age_seconds=60) if equal else None
            line = ItemLine(key=f"k{number}", call={}, summary={}, equal=calls)
            await writer.add(line.model_dump_json().encode())
        return Batch(objects, Tasks(), await writer.finish(), BatchOptions.model_validate(options))

    return make


def expect_all(batch: Batch, rows: list[ItemRow]) -> None:
    assert sorted(row.index for row in rows) == list(range(batch.count))
    assert len(set(batch.tasks.started.values())) == len(batch.tasks.started) == batch.count


@pytest.mark.parametrize("order", ["any", "given"])
async def test_a_round_starts_each_item_once_within_its_window(made: Make, order: str) -> None:
    batch = await made(60, concurrency=7, order=order)
    state = await batch.attempt(batch.request())
    rows = await batch.rows()
    expect_all(batch, rows)
    assert (state.counts.completed, state.cost_usd, state.under_way) == (60, Decimal("0.60"), ())
    assert not state.has_more
    assert batch.tasks.most_at_once <= 7
    if order == "given":
        assert [row.index for row in rows] == list(range(60))


@pytest.mark.parametrize("order", ["any", "given"])
@pytest.mark.parametrize("calls", [0, 1, 2, 3, 5, 8, 13, 21, 28, 34, 39])
async def test_wherever_a_worker_dies_nothing_is_lost_or_doubled(made: Make, order: str, calls: int) -> None:
    batch = await made(20, concurrency=4, order=order)
    batch.tasks.calls_left = calls
    with pytest.raises(ApplicationError):
        await batch.attempt(batch.request())
    batch.tasks.calls_left = calls
    for number in range(2, 30):
        batch.tasks.calls_left = 3 * number + calls
        try:
            state = await batch.attempt(batch.request(), number)
            break
        except ApplicationError:
            continue
    else:
        raise AssertionError("It does not get on.")
    expect_all(batch, await batch.rows())
    assert (state.counts.completed, state.cost_usd) == (20, Decimal("0.20"))


async def test_a_heartbeat_that_never_arrived_costs_nothing(made: Make) -> None:
    """The next attempt begins where the round did: it finds what was started, and reads its answers again."""
    batch = await made(20, concurrency=4)
    batch.tasks.calls_left = 25
    with pytest.raises(ApplicationError):
        await batch.attempt(batch.request())
    batch.tasks.calls_left, batch.beat = None, None
    state = await batch.attempt(batch.request(), 2)
    expect_all(batch, await batch.rows())
    assert state.counts.completed == 20


async def cancelled(batch: Batch, request: RoundInput, number: int = 1) -> BatchState:
    """The state of a round that is cancelled when nothing ends any more."""
    environment = ActivityEnvironment()
    running = asyncio.ensure_future(batch.attempt(request, number, environment))
    while len(batch.tasks.started) < 6:
        await asyncio.sleep(0.001)
    environment.cancel(cancellation_details=ActivityCancellationDetails(cancel_requested=True))
    return await running


async def test_a_cancelled_round_says_what_is_under_way_and_the_next_one_ends_that(made: Make) -> None:
    batch = await made(20, concurrency=4)
    batch.tasks.held = {f"k{number}" for number in range(2, 20)}
    state = await cancelled(batch, batch.request())
    assert {slot.index for slot in state.under_way} == {2, 3, 4, 5}
    state = await batch.attempt(batch.request(state, step="abort"))
    assert (state.counts.completed, state.counts.cancelled, state.under_way) == (2, 4, ())
    assert len(batch.tasks.started) == 6
    assert {row.index for row in await batch.rows() if row.status == "cancelled"} == {2, 3, 4, 5}


async def test_what_an_attempt_started_that_said_nothing_is_found_and_ended(made: Make) -> None:
    """The worker died after it had started some items, and the batch was cancelled before another one went on."""
    batch = await made(20, concurrency=4)
    batch.tasks.held = {f"k{number}" for number in range(20)}
    batch.tasks.calls_left = 6
    with pytest.raises(ApplicationError):
        await batch.attempt(batch.request())
    there = len(batch.tasks.started)
    assert there > 0
    batch.tasks.calls_left = None
    state = await batch.attempt(batch.request(step="abort", looks_back=True))
    assert state.counts.cancelled == there == len(batch.tasks.cancelled)
    # Resumed, it begins with what is left: what is before the cursor or beyond it has its row.
    batch.tasks.held = set()
    state = await batch.attempt(batch.request(state))
    expect_all(batch, await batch.rows())


async def test_what_is_found_beyond_the_first_gap_has_one_row(made: Make) -> None:
    batch = await made(8, concurrency=2)
    for number in (0, 2, 7):
        batch.tasks.started[item_task_id(BATCH, f"k{number}", 1)] = f"k{number}"
    state = await batch.attempt(batch.request(step="abort", looks_back=True))
    assert {row.index for row in await batch.rows()} == {0, 2, 7}
    state = await batch.attempt(batch.request(state))
    expect_all(batch, await batch.rows())
    assert (state.cursor, state.beyond) == (8, ())


async def test_a_start_that_is_on_its_way_is_waited_for(made: Make) -> None:
    batch = await made(20, concurrency=4)
    batch.tasks.held = {f"k{number}" for number in range(20)}
    batch.tasks.may_start.clear()
    environment = ActivityEnvironment()
    running = asyncio.ensure_future(batch.attempt(batch.request(), environment=environment))
    while not batch.tasks.may_start._waiters:
        await asyncio.sleep(0.001)
    environment.cancel(cancellation_details=ActivityCancellationDetails(cancel_requested=True))
    await asyncio.sleep(0.01)
    assert not running.done()
    batch.tasks.may_start.set()
    state = await running
    assert len(batch.tasks.started) > 0
    state = await batch.attempt(batch.request(state, step="abort"))
    assert batch.tasks.cancelled == batch.tasks.started.keys()


async def test_what_is_under_way_is_told_before_any_item_has_ended(made: Make) -> None:
    batch = await made(3, concurrency=2)
    batch.tasks.held = {"k0", "k1"}
    running = asyncio.ensure_future(batch.attempt(batch.request()))
    told: list[bool] = []
    while told != [True, True] and not running.done():
        await asyncio.sleep(0.001)
        told = [slot.started for slot in batch.beat.under_way] if batch.beat is not None else []
    assert batch.beat is not None
    assert (batch.beat.counts.ended, batch.beat.cursor, len(batch.tasks.started)) == (0, 2, 2)
    batch.tasks.held = set()
    await running
    expect_all(batch, await batch.rows())


async def test_a_round_that_drains_starts_nothing(made: Make) -> None:
    batch = await made(20, concurrency=4)
    batch.tasks.held = {f"k{number}" for number in range(2, 20)}
    state = await cancelled(batch, batch.request())
    batch.tasks.held = set()
    state = await batch.attempt(batch.request(state, step="drain"))
    assert (state.counts.completed, state.under_way) == (6, ())
    assert len(batch.tasks.started) == 6


async def test_a_round_stops_as_the_rule_says_and_when_its_time_is_over(made: Make) -> None:
    batch = await made(20, concurrency=1, stop=StopRule(completed=3))
    state = await batch.attempt(batch.request())
    assert (state.stop, state.counts.completed) == (StopReason.ENOUGH, 3)
    late = await batch.attempt(batch.request(until=datetime.now(UTC)))
    assert late.stop is StopReason.TIME


async def test_a_round_goes_no_further_than_it_may_spend(made: Make) -> None:
    """Each item may cost ten cents, and does."""
    batch = await made(20, concurrency=4, budget_usd="0.25")
    batch.call = {"options": {"budget": {"max_total_charge_usd": "0.10"}}}
    batch.tasks.cost_usd = Decimal("0.10")
    state = await batch.attempt(batch.request(item_limit_usd=Decimal("0.10")))
    assert (state.cost_usd, len(batch.tasks.started)) == (Decimal("0.20"), 2)
    assert state.stop is None  # The workflow decides whether another limit helps.


async def test_nothing_is_started_while_the_budget_leaves_no_limit_for_an_item(made: Make) -> None:
    batch = await made(3, budget_usd="0.25")
    state = await batch.attempt(batch.request(item_limit_usd=None))
    assert (batch.tasks.started, state.cursor, state.has_more) == ({}, 0, True)


async def test_items_that_cost_nothing_need_no_budget(made: Make) -> None:
    batch = await made(3, concurrency=1, budget_usd="0.01", retries={"network": 1})
    batch.is_paid = False
    batch.tasks.cost_usd = Decimal(0)
    batch.tasks.failing = {"k1": ErrorCategory.NETWORK}
    state = await batch.attempt(batch.request(item_limit_usd=None))
    assert (state.counts.completed, state.counts.failed, state.has_more) == (2, 1, False)
    assert len(batch.tasks.started) == 4


async def test_a_round_whose_budget_is_reserved_lasts_until_its_items_have_ended(made: Make) -> None:
    """Another round would have the same limit for each item, so it could start no more."""
    batch = await made(20, concurrency=4, budget_usd="0.25")
    batch.call = {"options": {"budget": {"max_total_charge_usd": "0.10"}}}
    batch.tasks.cost_usd = Decimal("0.10")
    batch.tasks.held = {"k0"}
    running = asyncio.ensure_future(batch.attempt(batch.request(item_limit_usd=Decimal("0.10"))))
    while not await batch.rows():
        await asyncio.sleep(0.001)
    batch.tasks.held = set()
    state = await running
    assert (state.counts.completed, state.under_way) == (2, ())


@pytest.mark.parametrize(
    ("budget", "attempts"), [(None, 4), ("0.40", 4), ("0.39", 3), ("0.25", 2), ("0.10", 1)], ids=str
)
async def test_automatic_retries_stay_within_the_budget_of_the_batch(
    made: Make, budget: str | None, attempts: int
) -> None:
    """Each attempt may cost ten cents, and does, and the item may be tried again three times."""
    batch = await made(1, concurrency=1, budget_usd=budget, retries={"network": 3})
    batch.call = {"options": {"budget": {"max_total_charge_usd": "0.10"}}}
    batch.tasks.cost_usd = Decimal("0.10")
    batch.tasks.failing = {"k0": ErrorCategory.NETWORK}
    state = await batch.attempt(batch.request(item_limit_usd=Decimal("0.10")))
    assert [(row.status, row.attempts) for row in await batch.rows()] == [("failed", attempts)]
    assert (state.counts.failed, len(batch.tasks.started)) == (1, attempts)
    assert state.cost_usd == attempts * Decimal("0.10"), "attempts that failed have cost something, too"


async def test_the_retries_of_one_item_leave_the_budget_of_the_others(made: Make) -> None:
    """The first item has failed; what the second reserves is not there for a retry of the first."""
    batch = await made(2, concurrency=2, budget_usd="0.25", retries={"network": 3})
    batch.call = {"options": {"budget": {"max_total_charge_usd": "0.10"}}}
    batch.tasks.cost_usd = Decimal("0.10")
    batch.tasks.failing = {"k0": ErrorCategory.NETWORK}
    batch.tasks.held = {"k1"}
    running = asyncio.ensure_future(batch.attempt(batch.request(item_limit_usd=Decimal("0.10"))))
    while not await batch.rows():
        await asyncio.sleep(0.001)
    batch.tasks.held = set()
    state = await running
    assert {(row.key, row.status, row.attempts) for row in await batch.rows()} == {
        ("k0", "failed", 1),
        ("k1", "completed", 1),
    }
    assert state.cost_usd == Decimal("0.20")


async def test_an_item_of_a_manual_retry_has_its_automatic_retries_again(made: Make) -> None:
    batch = await made(3, concurrency=1, retries={"network": 2})
    batch.tasks.failing = {"k1": ErrorCategory.NETWORK}
    plan = await batch.planned([[1, 3]])
    await batch.attempt(batch.request(BatchState(plan=plan, plan_end=1), horizon=1))
    assert [(row.key, row.status, row.attempts) for row in await batch.rows()] == [("k1", "failed", 6)]
    assert [*batch.tasks.started] == [item_task_id(BATCH, "k1", attempt) for attempt in (4, 5, 6)]


@pytest.mark.parametrize("category", [ErrorCategory.TIMEOUT, ErrorCategory.VALIDATION])
async def test_other_failures_than_the_named_ones_are_not_retried(made: Make, category: ErrorCategory) -> None:
    batch = await made(1, concurrency=1, retries={"network": 2})
    batch.tasks.failing = {"k0": category}
    await batch.attempt(batch.request())
    assert [row.attempts for row in await batch.rows()] == [1]


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_round, "_FIRST_MONEY_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(batch_round, "_LONGEST_MONEY_PAUSE_SECONDS", 0.01)


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("order", ["any", "given"])
async def test_items_wait_while_other_runs_have_reserved_the_money(made: Make, order: str) -> None:
    """Only one item fits at a time, so that the others have to wait for its end. None fails, and none is a retry."""
    batch = await made(12, concurrency=4, order=order)
    batch.tasks.fitting = 1
    state = await batch.attempt(batch.request())
    assert (state.counts.completed, state.counts.failed, state.stop, state.waits_because) == (12, 0, None, None)
    rows = await batch.rows()
    assert sorted(row.index for row in rows) == list(range(12))
    assert batch.tasks.most_at_once == 1
    assert len(batch.tasks.started) < 30, "the ledger is asked before an item is started again"


@pytest.mark.usefixtures("short_pauses")
async def test_an_item_that_was_refused_for_lack_of_money_has_all_its_retries(made: Make) -> None:
    batch = await made(1, concurrency=1, retries={"network": 1})
    batch.tasks.failing = {"k0": ErrorCategory.NETWORK}
    batch.tasks.fitting = 0
    running = asyncio.ensure_future(batch.attempt(batch.request()))
    while not batch.tasks.asked:
        await asyncio.sleep(0.001)
    batch.tasks.fitting = 1
    await running
    assert [(row.status, row.attempts) for row in await batch.rows()] == [("failed", 3)]
    assert [*batch.tasks.started] == [item_task_id(BATCH, "k0", attempt) for attempt in (1, 2, 3)]


async def test_what_is_refused_for_lack_of_money_as_the_batch_stops_has_failed(
    made: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both items end at the same moment, and the end of the first one is the reason to stop."""
    batch = await made(2, concurrency=2, stop=StopRule(completed=1))
    error = ErrorEnvelope.transient(ErrorCategory.PAYMENT, "sleeper", "Reserved.")
    outcomes = {"k0": ItemOutcome(status="completed"), "k1": ItemOutcome(status="failed", error=error)}
    ends = {key: asyncio.Event() for key in outcomes}

    async def outcome(task_id: str) -> ItemOutcome | None:
        key = batch.tasks.started.get(task_id)
        if key is None:
            return None
        await ends[key].wait()
        return outcomes[key]

    monkeypatch.setattr(batch.tasks, "outcome", outcome)
    running = asyncio.ensure_future(batch.attempt(batch.request()))
    while not all(event._waiters for event in ends.values()):
        await asyncio.sleep(0.001)
    for event in ends.values():
        event.set()
    state = await running
    assert (state.stop, state.counts.completed, state.counts.failed) == (StopReason.ENOUGH, 1, 1)
    assert (state.under_way, len(batch.tasks.started)) == ((), 2)


@pytest.mark.usefixtures("short_pauses")
async def test_a_batch_says_what_it_waits_for_and_goes_on_from_there(made: Make) -> None:
    """Another caller's run has reserved all there is: the round says so, and so does one after a worker's death."""
    batch = await made(3, concurrency=2)
    batch.tasks.fitting = 0
    attempt = asyncio.ensure_future(batch.attempt(batch.request()))
    while batch.beat is None or batch.beat.waits_because is None:
        await asyncio.sleep(0.001)
    assert "reserved" in batch.beat.waits_because
    begun, asked = len(batch.tasks.started), batch.tasks.asked
    while batch.tasks.asked < asked + 5:
        await asyncio.sleep(0.001)
    assert len(batch.tasks.started) == begun, "nothing is started while nothing has changed"
    attempt.cancel()
    with pytest.raises((asyncio.CancelledError, ApplicationError)):
        await attempt
    batch.tasks.fitting = 2
    state = await batch.attempt(batch.request(), number=2)
    assert (state.counts.completed, state.waits_because, state.stop) == (3, None, None)
    assert len(await batch.rows()) == 3


async def test_a_batch_that_is_cancelled_while_it_waits_ends(made: Make) -> None:
    batch = await made(3, concurrency=2)
    batch.tasks.fitting = 0
    attempt = asyncio.ensure_future(batch.attempt(batch.request()))
    while batch.beat is None or batch.beat.waits_because is None or len(batch.beat.under_way) < 2:
        await asyncio.sleep(0.001)
    attempt.cancel()
    with pytest.raises((asyncio.CancelledError, ApplicationError)):
        await attempt
    stopped = batch.beat.model_copy(update={"stop": StopReason.CANCELLED, "stop_words": "it was cancelled"})
    state = await batch.attempt(batch.request(stopped, step="abort"))
    assert (state.under_way, state.counts.cancelled) == ((), 2)


async def test_a_limit_that_is_spent_stops_the_batch(made: Make) -> None:
    batch = await made(5, concurrency=1)
    batch.tasks.failing = {"k1": ErrorCategory.PAYMENT}
    batch.tasks.is_final = True
    state = await batch.attempt(batch.request())
    assert (state.stop, state.counts.failed) == (StopReason.CATEGORY, 1)


async def test_after_a_retry_the_reason_for_the_stop_remains(made: Make) -> None:
    batch = await made(6, concurrency=1, stop=StopRule(failures=1))
    batch.tasks.failing = {"k1": ErrorCategory.NETWORK}
    state = await batch.attempt(batch.request())
    assert state.stop is StopReason.FAILURES
    batch.tasks.failing = {}
    leg = await batch.leg(state, kind="retry")
    assert (leg.stop, leg.stop_before, leg.stop_before_words) == (None, StopReason.FAILURES, state.stop_words)
    resumed = await batch.leg(state, kind="resume")
    assert (resumed.stop, resumed.stop_before) == (None, None)


async def test_a_retry_starts_none_of_the_items_that_were_never_started(made: Make) -> None:
    batch = await made(6, concurrency=1, stop=StopRule(failures=1))
    batch.tasks.failing = {"k1": ErrorCategory.NETWORK}
    state = await batch.attempt(batch.request())
    batch.tasks.failing = {}
    leg = await batch.leg(state, kind="retry")
    assert await batch.plan_of(leg) == [[1, 1], [2, 0], [3, 0], [4, 0], [5, 0]]
    state = await batch.attempt(batch.request(leg))
    assert {row.key: row.status for row in await batch.rows()} == {"k0": "completed", "k1": "completed"}
    await batch.attempt(batch.request(await batch.leg(state, kind="resume")))
    assert {row.key: row.attempts for row in await batch.rows()} == {f"k{n}": 2 if n == 1 else 1 for n in range(6)}


RETRIED = {
    "k0": ErrorCategory.NETWORK,
    "k1": ErrorCategory.TIMEOUT,
    "k2": ErrorCategory.VALIDATION,
    "k4": ErrorCategory.NETWORK,
    "k5": ErrorCategory.OUTCOME_UNKNOWN,
}


@pytest.mark.parametrize(
    ("categories", "again"),
    [
        ((), ["k0", "k1", "k2", "k4"]),
        (("network",), ["k0", "k4"]),
        (("network", "validation"), ["k0", "k2", "k4"]),
        (("timeout",), ["k1"]),
        (("permission",), []),
        (("outcome_unknown",), ["k5"]),
    ],
    ids=str,
)
async def test_a_retry_runs_the_failures_of_the_named_categories_and_no_others(
    made: Make, categories: tuple[str, ...], again: list[str]
) -> None:
    batch = await made(6, concurrency=1)
    batch.tasks.failing = RETRIED
    state = await batch.attempt(batch.request())
    leg = await batch.leg(state, kind="retry", categories=categories)
    assert [row.key for row in await batch.rows()] == [f"k{n}" for n in range(6) if f"k{n}" not in again]
    assert (leg.plan_end, leg.counts.failed, leg.counts.completed) == (len(again), 5 - len(again), 1)
    batch.tasks.failing = {}
    await batch.attempt(batch.request(leg, horizon=leg.plan_end))
    after = {row.key: (row.status, row.attempts) for row in await batch.rows()}
    failed = {key: ("failed", 1) for key in RETRIED if key not in again}
    assert after == {"k3": ("completed", 1)} | failed | dict.fromkeys(again, ("completed", 2))


async def test_a_resume_runs_what_was_cancelled_in_progress_or_never_started(made: Make) -> None:
    """Of eight items, one is cancelled and two are in progress; one of these, and a row, are beyond the first gap."""
    batch = await made(8, concurrency=2)
    state = await batch.attempt(batch.request(horizon=0))
    slots = (Slot(position=2, index=2, attempt=3, started=True), Slot(position=7, index=7, attempt=2))
    rows = [
        ItemRow(key=f"k{n}", index=n, status=cast(ItemStatus, status), task_id=f"t{n}", attempts=attempts)
        for n, status, attempts in (
            (0, "completed", 1),
            (1, "cancelled", 2),
            (3, "failed", 1),
            (6, "completed", 1),
        )
    ]
    state = state.model_copy(
        update={"cursor": 4, "beyond": (6,), "under_way": slots, "results": await batch.written(state, rows)}
    )
    leg = await batch.leg(state, kind="resume")
    assert {row.key for row in await batch.rows()} == {"k0", "k3", "k6"}
    assert (leg.counts.completed, leg.counts.failed, leg.counts.cancelled) == (2, 1, 0)
    assert await batch.plan_of(leg) == [[1, 2], [2, 2], [7, 1], [4, 0], [5, 0]]
    assert leg.plan_end == 5


async def test_a_horizon_ends_the_round_with_what_is_under_way(made: Make) -> None:
    batch = await made(20, concurrency=4)
    batch.tasks.held = {"k3", "k4"}
    state = await batch.attempt(batch.request(horizon=5))
    assert state.cursor == 5
    batch.tasks.held = set()
    state = await batch.attempt(batch.request(state))
    expect_all(batch, await batch.rows())


async def test_what_was_started_for_equal_calls_is_found_by_its_key_and_ended(made: Make) -> None:
    """The attempt died before it said which tasks its items had."""
    batch = await made(20, equal=True, concurrency=4)
    batch.tasks.held = {f"k{number}" for number in range(20)}
    batch.tasks.calls_left = 6
    with pytest.raises(ApplicationError):
        await batch.attempt(batch.request())
    assert batch.tasks.started
    batch.tasks.calls_left, batch.beat = None, None
    state = await batch.attempt(batch.request(step="abort", looks_back=True))
    assert batch.tasks.cancelled == batch.tasks.started.keys()
    assert state.counts.cancelled == len(batch.tasks.started)
    assert {row.task_id for row in await batch.rows()} == batch.tasks.started.keys()


def met_elsewhere(batch: Batch, key: str) -> str:
    """A task that somebody else has started, and that the item of this key meets."""
    batch.tasks.started["elsewhere"] = "elsewhere"
    reused = ReusedAnswer(joined=True, age_seconds=0)
    batch.tasks.shared[key] = MetTask(task_id="elsewhere", reused=reused)
    return "elsewhere"


async def test_an_item_that_an_equal_call_answers_costs_nothing(made: Make) -> None:
    batch = await made(3, equal=True, concurrency=1)
    task_id = met_elsewhere(batch, "k1")
    state = await batch.attempt(batch.request())
    assert (state.counts.completed, state.cost_usd) == (3, Decimal("0.02"))
    rows = {row.key: row for row in await batch.rows()}
    assert (rows["k1"].task_id, rows["k1"].cost_usd, rows["k1"].text) == (task_id, 0, "elsewhere")
    assert [key for key, row in rows.items() if row.reused is not None] == ["k1"]


async def test_a_batch_that_is_cancelled_leaves_the_tasks_of_others(made: Make) -> None:
    batch = await made(20, equal=True, concurrency=6)
    task_id = met_elsewhere(batch, "k1")
    batch.tasks.held = {"elsewhere", *(f"k{number}" for number in range(20))}
    state = await cancelled(batch, batch.request())
    state = await batch.attempt(batch.request(state, step="abort"))
    assert state.counts.cancelled == 6
    assert batch.tasks.cancelled == batch.tasks.started.keys() - {task_id}


async def test_an_item_whose_equal_call_is_cancelled_by_somebody_else_starts_its_own(made: Make) -> None:
    batch = await made(3, equal=True, concurrency=1)
    batch.tasks.cancelled.add(met_elsewhere(batch, "k1"))
    state = await batch.attempt(batch.request())
    assert (state.counts.completed, state.cost_usd) == (3, Decimal("0.03"))
    assert [row.reused for row in await batch.rows()] == [None] * 3


async def test_what_is_written_beyond_a_gap_is_adopted_by_no_other_attempt(made: Make) -> None:
    batch = await made(3)
    batch.tasks.started[item_task_id(BATCH, "k1", 1)] = "k1"
    await batch.attempt(batch.request(BatchState(plan_end=3, beyond=(1,))), 2)
    assert sorted(row.index for row in await batch.rows()) == [0, 2]


async def test_a_task_of_an_equal_call_that_was_started_without_a_word_is_found_and_ended(made: Make) -> None:
    """The worker died between the start and the heartbeat that tells which task the item has."""
    batch = await made(1, equal=True)
    batch.tasks.started["same-k0"] = "k0"
    state = BatchState(plan_end=1, cursor=1, under_way=(Slot(position=0, index=0, attempt=1),))
    await batch.attempt(batch.request(state, step="abort", looks_back=True))
    [row] = await batch.rows()
    assert (row.task_id, row.status, batch.tasks.cancelled) == ("same-k0", "cancelled", {"same-k0"})


async def test_the_second_attempt_at_a_round_ends_what_the_first_one_found_and_did_not_tell(made: Make) -> None:
    batch = await made(4)
    batch.tasks.started[item_task_id(BATCH, "k1", 1)] = "k1"
    await batch.attempt(batch.request(step="abort"), 2)
    assert [(row.key, row.status) for row in await batch.rows()] == [("k1", "cancelled")]


async def test_an_item_of_which_it_is_known_which_task_it_has_keeps_that_task(made: Make) -> None:
    """It shares a task that somebody else started; another equal call has begun since, which is not the batch's."""
    batch = await made(1, equal=True)
    batch.tasks.started |= {"elsewhere": "k0", "same-k0": "k0"}
    met = MetTask(task_id="elsewhere", reused=ReusedAnswer(joined=True, age_seconds=0))
    slot = Slot(position=0, index=0, attempt=1, started=True, met=met)
    state = BatchState(plan_end=1, cursor=1, under_way=(slot,))
    await batch.attempt(batch.request(state, step="abort", looks_back=True))
    [row] = await batch.rows()
    assert (row.task_id, row.status, batch.tasks.cancelled) == ("elsewhere", "cancelled", set())


async def test_what_an_attempt_at_a_retry_started_that_said_nothing_is_found_and_ended(made: Make) -> None:
    """The second of four items runs again, as the first one of the plan."""
    batch = await made(4, concurrency=1)
    batch.tasks.started[item_task_id(BATCH, "k1", 3)] = "k1"
    plan = await batch.planned([[1, 2], [3, 1]])
    state = BatchState(plan=plan, plan_end=2)
    await batch.attempt(batch.request(state, horizon=2, step="abort", looks_back=True))
    [row] = await batch.rows()
    assert (row.key, row.index, row.attempts, row.status) == ("k1", 1, 3, "cancelled")
    assert batch.tasks.cancelled == batch.tasks.started.keys()


async def test_items_in_progress_are_told_in_their_order_however_they_were_found(made: Make) -> None:
    batch = await made(6, concurrency=6, order="given")
    batch.tasks.held = {f"k{number}" for number in range(6)}
    for number in (1, 3, 4, 5):
        batch.tasks.started[item_task_id(BATCH, f"k{number}", 1)] = f"k{number}"
    state = BatchState(plan_end=6, under_way=(Slot(position=4, index=4, attempt=1, started=True),))
    running = asyncio.ensure_future(batch.attempt(batch.request(state, looks_back=True)))
    while batch.beat is None or len(batch.beat.under_way) < 6:
        await asyncio.sleep(0.001)
    assert [slot.position for slot in batch.beat.under_way] == list(range(6))
    batch.tasks.held = set()
    await running
    assert [row.index for row in await batch.rows()] == list(range(6))
