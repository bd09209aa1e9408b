"""One round of a batch: start items, await them, retry some, and write their rows. Each running item has a slot and a
coroutine. The `state` of a round names the rows that are written, and lists as running all items whose rows are not, so
that another attempt can continue from it without losing or repeating a row.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from pydantic import JsonValue
from temporalio import activity

from outlast.activities.batches.contracts import (
    ROUND_ITEMS,
    BatchPlace,
    BatchState,
    ItemLine,
    ItemOutcome,
    ItemRow,
    MetTask,
    RoundInput,
    Slot,
    Stop,
    StopReason,
    item_limit,
    item_task_id,
    stop_after,
)
from outlast.activities.batches.storage import ItemList, ResultsWriter
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.heartbeat import HandedOver, Heartbeats
from outlast.activities.json_values import is_too_deep, text_of

ROUND_SECONDS = 300.0
LONGEST_SILENCE_SHARE = 0.75
"""Of the heartbeat timeout: after a longer silence an attempt starts nothing, since another one may be at work."""
_STARTS_AT_ONCE = 4
_LOOK_AGAIN_SECONDS = 0.25
_FLUSH_SECONDS = 1.0
_GIVEN_AHEAD = 4
"""With rows in the given order: items that may be ahead of the first one without a row, in windows."""
_LEAST_AHEAD = 25
_RATE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 60.0
_ANEW: Mapping[str, object] = {"started": False, "met": None}
"""Fields of a slot whose item is to be started."""
_SUSPENDED = "The worker was suspended for so long that another worker may have continued the batch."
_FIRST_MONEY_PAUSE_SECONDS = 5.0
_LONGEST_MONEY_PAUSE_SECONDS = 60.0
MAX_ANSWER_BYTES = 16 * 1024
"""A larger answer is not in its row: the row names its task, and its locator when it is stored."""
ASKED_AT_ONCE = 64
"""Tasks whose ends are waited for by a request each."""
_ASKED_SECONDS = 20.0
"""The time that a request waits before another task gets its turn."""
_LIST_SECONDS = 2.0
_LIST_OVERLAP = timedelta(seconds=30)
"""The delay until the lists show the end of a task. A task that appears later is found by a request."""


class ItemTasks(Protocol):
    """The tasks of items. Every method raises `RPCError` when Temporal does not answer, and may be repeated."""

    async def start(
        self, place: BatchPlace, item: ItemLine, task_id: str, *, limit_usd: Decimal | None, after: str | None
    ) -> MetTask:
        """Start the task of an item, unless there is one; which one it is. Its run may cost `limit_usd` at most.

        An item that identical calls may answer follows the task of one of them; `task_id` is its key there.

        `after` is the task of the attempt before, whose run may continue for this one if the call allows that.
        Raises `ValueError` for an item that is none.
        """
        ...

    async def refused(self, place: BatchPlace, item: ItemLine, *, limit_usd: Decimal | None) -> str | None:
        """The reason why the caller's spending limits would refuse a run of the item now; None if they would not."""
        ...

    async def outcome(self, task_id: str) -> ItemOutcome | None:
        """Return the outcome of the task as soon as it has ended; None if there is no such task."""
        ...

    async def cancel(self, task_id: str) -> None:
        """Cancel the task, unless it has ended or does not exist."""

    async def existing(self, items: Mapping[str, ItemLine]) -> Mapping[str, MetTask]:
        """Return the tasks that were started for items, by the ids that `start` was given, as far as there are any."""
        ...

    async def ended(self, batch_id: str, since: datetime) -> frozenset[str]:
        """Return the tasks of a batch that have ended since a moment, as far as Temporal's lists show them."""
        ...


class BatchRoom(Protocol):
    """Limits the items that a round runs at once, next to the caller's other work."""

    async def free(self, running: int) -> int:
        """Return the number of items that may be started now, with `running` items at work."""
        ...

    def started(self) -> None:
        """One more item is being started."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    """Somebody who waits for the end of a task. Several may wait for the same one."""

    task_id: str
    listed: asyncio.Event = field(default_factory=asyncio.Event)


class EndsOfItems:
    """Awaits the ends of many tasks: a few with one request each, the others through Temporal's lists. A Temporal
    server answers a limited number of requests at a time that wait for the end of a workflow, for all of its clients.
    `watch` has to run while outcomes are awaited.
    """

    def __init__(self, tasks: ItemTasks, batch_id: str) -> None:
        self._tasks = tasks
        self._batch_id = batch_id
        self._turns = asyncio.Semaphore(ASKED_AT_ONCE)
        self._waiting: set[_Waiting] = set()

    async def outcome(self, task_id: str) -> ItemOutcome | None:
        """The outcome of the task when it has ended; None if there is none. Raises as `ItemTasks.outcome` does."""
        waiting = _Waiting(task_id)
        self._waiting.add(waiting)
        try:
            while not waiting.listed.is_set():
                if not await self._has_turn(waiting.listed):
                    break
                try:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_ASKED_SECONDS):
                            return await self._tasks.outcome(task_id)
                finally:
                    self._turns.release()
            return await self._tasks.outcome(task_id)
        finally:
            self._waiting.discard(waiting)

    async def watch(self) -> None:
        """Look through Temporal's lists, while there are more tasks than turns."""
        while True:
            await asyncio.sleep(_LIST_SECONDS)
            if len(self._waiting) <= ASKED_AT_ONCE:
                continue
            ended = await self._tasks.ended(self._batch_id, datetime.now(UTC) - _LIST_OVERLAP)
            for waiting in self._waiting:
                if waiting.task_id in ended:
                    waiting.listed.set()

    async def _has_turn(self, listed: asyncio.Event) -> bool:
        """Wait for a turn, or until the lists show that the task has ended; whether it is a turn."""
        turn, shown = asyncio.ensure_future(self._turns.acquire()), asyncio.ensure_future(listed.wait())
        try:
            await asyncio.wait({turn, shown}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            turn.add_done_callback(lambda ended: None if ended.cancelled() else self._turns.release())
            raise
        finally:
            shown.cancel()
            if not turn.done():
                turn.cancel()
        return turn.done() and not turn.cancelled()


class SpendingGate:
    """Holds items back while other runs have reserved what is left of the caller's spending limits. Items try again
    when a run of the batch has ended, or after a pause. One item tries at a time, so the cost of waiting does not
    depend on the number of items, and the ledger is queried before a task is created.
    """

    def __init__(self, reason: str | None) -> None:
        self.reason = reason
        self._turn = asyncio.Lock()
        self._ended = asyncio.Event()
        self._waiting = 0
        self._pause_seconds = _FIRST_MONEY_PAUSE_SECONDS

    @property
    def is_open(self) -> bool:
        """True if items may be started."""
        return self.reason is None

    def close(self, reason: str) -> None:
        """An item was refused because of what other runs have reserved."""
        if self.reason is not None:
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_MONEY_PAUSE_SECONDS)
        self.reason = reason

    def item_ended(self) -> None:
        """An item of the batch has ended, so that what it has reserved is free soon."""
        self._pause_seconds = _FIRST_MONEY_PAUSE_SECONDS
        self._ended.set()

    async def wait(self, still_refused: Callable[[], Awaitable[str | None]]) -> None:
        """Wait until it is this item's turn to be started, and `still_refused` gives no reason against it."""
        self._waiting += 1
        try:
            async with self._turn:  # in the order in which they came
                await self._next_chance(still_refused)
                if self._waiting == 1:
                    self.reason = None
        finally:
            self._waiting -= 1

    async def _next_chance(self, still_refused: Callable[[], Awaitable[str | None]]) -> None:
        while self.reason is not None:
            self._ended.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_seconds):
                    await self._ended.wait()
            reason = await still_refused()
            if reason is None:
                return
            self.close(reason)


def count_item(outcome: ItemOutcome, *, reused: bool) -> None:
    """Count an item that has its answer, `reused` from an identical call. An item whose row was lost counts again."""
    counter = activity.metric_meter().create_counter("outlast_batch_items", "Items of batches that have ended.")
    counter.add(1, {"outcome": outcome.status, "reused": str(reused).lower()})


@dataclass(frozen=True)
class _Ended:
    """An item whose row is not written yet."""

    slot: Slot
    row: bytes
    outcome: ItemOutcome
    rows: int
    cost_usd: Decimal


class Round:
    """One attempt at a round."""

    def __init__(
        self,
        request: RoundInput,
        items: ItemList,
        tasks: ItemTasks,
        results: ResultsWriter,
        room: BatchRoom,
        heartbeats: Heartbeats,
        *,
        heartbeat_timeout: timedelta,
    ) -> None:
        self._request = request
        self._place = request.place
        self._options = request.options
        self._items = items
        self._tasks = tasks
        self._results = results
        self._room = room
        self._heartbeats = heartbeats
        self._longest_silence = heartbeat_timeout * LONGEST_SILENCE_SHARE
        self._ends = EndsOfItems(tasks, request.place.batch_id)
        self._state = request.state
        self._slots = {slot.position: slot for slot in request.state.under_way}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._ended: dict[int, _Ended] = {}
        self._rows: deque[_Ended] = deque()
        self._cursor = request.state.cursor
        self._beyond = set(request.state.beyond)
        self._counts = request.state.counts
        self._cost = request.state.cost_usd
        self._highest = request.state.highest_usd
        self._stop: Stop | None = None
        self._money = SpendingGate(request.state.waits_because)
        self._written = 0
        self._began = time.monotonic()
        self._starts = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._starting: set[asyncio.Task[None]] = set()
        self._flushing = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def state(self) -> BatchState:
        """The state of the batch, as of the rows that are written."""
        return self._state

    async def carry_on(self, *, looks_back: bool) -> BatchState:
        """Carry the round out. With `looks_back`, adopt the tasks first that another attempt may have started. Raises
        what the tasks and the store raise; `settle` then writes the progress.
        """
        if looks_back:
            await self._adopt()
        if self._state.results.rows == 0:
            await self._results.publish()
        try:
            async with asyncio.TaskGroup() as group:
                flushing = group.create_task(self._flush_often())
                watching = group.create_task(self._ends.watch())
                for slot in list(self._slots.values()):
                    self._run(group, slot)
                await self._feed(group)
                for task in (flushing, watching, *self._running.values()):
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        await self.settle()
        return self._state

    async def settle(self) -> None:
        """Write the items that have ended, and wait for the starts in progress: the state lists those as running."""
        if self._starting:
            await asyncio.wait(set(self._starting))
        await self._flush()
        self._take_stock()

    async def _adopt(self) -> None:
        known = {*self._slots, *self._beyond}
        unknown = [at for at in range(self._cursor, self._request.horizon) if at not in known]
        # An attempt that died between a start and its heartbeat has recorded the item, but not its task.
        unmet = [slot for slot in self._slots.values() if not slot.started]
        items: dict[str, ItemLine] = {}
        slots: dict[str, Slot] = {}
        for slot in (*unmet, *[await self._slot_at(at) for at in unknown]):
            item = await self._items.item(slot.index)
            if item.equal is not None and self._request.step == "run":
                continue  # Its start finds what it has started: by its key.
            task_id = item_task_id(self._place.batch_id, item.key, slot.attempt)
            items[task_id], slots[task_id] = item, slot
        for task_id, met in (await self._tasks.existing(items)).items():
            self._slots[slots[task_id].position] = _following(slots[task_id], met, task_id)
        self._take_stock()

    async def _feed(self, group: asyncio.TaskGroup) -> None:
        """Start items while there is room, until the round is over."""
        loop = asyncio.get_running_loop()
        over_at = loop.time() + ROUND_SECONDS
        while not self._is_over(too_late=loop.time() >= over_at):
            if self._may_start() and await self._room.free(len(self._running)) > 0:
                slot = await self._slot_at(self._cursor)
                self._slots[slot.position] = slot
                self._cursor += 1
                self._room.started()
                self._run(group, slot)
                # Those that have begun get to send their starts before the next one is looked at.
                await asyncio.sleep(0)
                continue
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                    await self._changed.wait()

    def _is_over(self, *, too_late: bool) -> bool:
        if not self._is_trusted:
            raise HandedOver(_SUSPENDED)
        self._skip_started()
        if self._request.step == "run":
            if self._stop is None and self._request.until is not None and datetime.now(UTC) >= self._request.until:
                self._stop = StopReason.TIME, "its time is over"
            if self._stop is not None or self._is_at_horizon or self._needs_another_limit():
                return True
            if self._slots or self._has_next:
                return too_late or self._written >= ROUND_ITEMS
            return True
        return not self._slots or too_late

    @property
    def _has_next(self) -> bool:
        return self._cursor < self._state.plan_end

    @property
    def _is_at_horizon(self) -> bool:
        """True if another round has to continue: this one may start no more items, and more are left."""
        return self._has_next and self._cursor >= self._request.horizon

    def _skip_started(self) -> None:
        while self._cursor in self._beyond or self._cursor in self._slots:
            self._beyond.discard(self._cursor)
            self._cursor += 1

    def _may_start(self) -> bool:
        if self._request.step != "run" or not self._has_next or self._cursor >= self._request.horizon:
            return False
        if len(self._running) >= self._options.concurrency or not self._is_affordable or not self._money.is_open:
            return False
        if self._options.order == "any":
            return True
        first = min(self._slots, default=self._cursor)
        return self._cursor - first < _GIVEN_AHEAD * max(self._options.concurrency, _LEAST_AHEAD)

    @property
    def _is_trusted(self) -> bool:
        """True if no other attempt can have begun: this process was not suspended."""
        return self._heartbeats.silence < self._longest_silence

    @property
    def _is_affordable(self) -> bool:
        if not self._place.is_paid or self._options.budget_usd is None:
            return True
        limit = self._request.item_limit_usd
        return limit is not None and self._cost + self._reserved + limit <= self._options.budget_usd

    @property
    def _reserved(self) -> Decimal:
        """The maximum cost of running items, with their earlier attempts."""
        running = (slot.reserved_usd + slot.spent_usd for at, slot in self._slots.items() if at not in self._ended)
        return sum(running, Decimal(0))

    def _needs_another_limit(self) -> bool:
        """Return True if this round's limit admits no item, and a new limit may help or no item is running."""
        if self._is_affordable or not self._has_next:
            return False
        if not self._running and not self._rows:
            return True
        slots = tuple(slot for at, slot in self._slots.items() if at not in self._ended)
        now = self._state.model_copy(update={"under_way": slots, "cost_usd": self._cost, "highest_usd": self._highest})
        limit, before = item_limit(self._options, now, own_usd=self._place.own_limit_usd), self._request.item_limit_usd
        return limit is not None and (before is None or limit < before)

    async def _slot_at(self, position: int) -> Slot:
        index, attempts = await self._items.planned(position)
        return Slot(
            position=position,
            index=index,
            attempt=attempts + 1,
            first_attempt=attempts + 1,
            reserved_usd=(self._request.item_limit_usd or Decimal(0)) if self._place.is_paid else Decimal(0),
        )

    def _run(self, group: asyncio.TaskGroup, slot: Slot) -> None:
        self._running[slot.position] = group.create_task(self._carry_out(slot))

    async def _carry_out(self, slot: Slot) -> None:
        """Start the item, await it, and retry it as the options allow."""
        item = await self._items.item(slot.index)
        while True:
            if self._request.step == "run" and not slot.started and not self._money.is_open:
                await self._wait_for_money(item, slot)
            task_id = item_task_id(self._place.batch_id, item.key, slot.attempt)
            outcome = await self._outcome(slot.position, item, task_id)
            slot = self._slots[slot.position]
            if self._waits_for_money(outcome):
                assert outcome.error is not None, "it was refused"
                self._money.close(outcome.error.message)
                slot = self._slots[slot.position] = _once_more(slot)
                self._take_stock()
                continue
            again = self._next_attempt(slot, outcome)
            if again is None:
                break
            slot = self._slots[slot.position] = again
            await asyncio.sleep(min(2.0 ** (slot.attempt - slot.first_attempt), _LONGEST_PAUSE_SECONDS))
        cost = slot.spent_usd + (outcome.cost_usd or Decimal(0))
        in_total = outcome.model_copy(update={"cost_usd": cost if cost or outcome.cost_usd is not None else None})
        task = slot.met or MetTask(task_id=task_id)
        row = row_of(in_total, key=item.key, index=slot.index, task=task, attempts=slot.attempt)
        self._take(_Ended(slot, row, outcome, rows_in(outcome) or 0, cost))

    async def _outcome(self, position: int, item: ItemLine, task_id: str) -> ItemOutcome:
        """Return the outcome of the item's task. Its slot then names that task."""
        if self._request.step == "abort":
            if self._slots[position].is_shared:
                return ItemOutcome(status="cancelled", text="The batch stopped; the identical call continues.")
            await self._tasks.cancel(self._followed(position, task_id))
        while True:
            if self._request.step == "run" and not self._slots[position].started:
                refused = await self._start(position, item, task_id)
                if refused is not None:
                    return refused
            slot = self._slots[position]
            found = await self._ends.outcome(self._followed(position, task_id))
            # A shared task that another caller cancelled does not end the item: it finds or starts another one.
            if found is not None and not (slot.is_shared and found.status == "cancelled"):
                return found.model_copy(update={"cost_usd": Decimal(0)}) if slot.is_shared else found
            if self._request.step != "run":
                return ItemOutcome(status="cancelled", text="The batch stopped before this item started.")
            self._slots[position] = slot.model_copy(update=_ANEW)

    def _waits_for_money(self, outcome: ItemOutcome) -> bool:
        """Return True if the item was refused only because other runs have reserved the rest of the spending limits."""
        error = outcome.error
        is_reserved = error is not None and error.category is ErrorCategory.PAYMENT and error.retryable
        return is_reserved and outcome.status == "failed" and self._request.step == "run" and self._stop is None

    async def _wait_for_money(self, item: ItemLine, slot: Slot) -> None:
        limit = self._item_limit(slot)
        await self._money.wait(lambda: self._tasks.refused(self._place, item, limit_usd=limit))
        self._take_stock()

    def _item_limit(self, slot: Slot) -> Decimal | None:
        return slot.reserved_usd if self._place.is_paid and self._options.budget_usd is not None else None

    def _followed(self, position: int, task_id: str) -> str:
        met = self._slots[position].met
        return met.task_id if met is not None else task_id

    async def _start(self, position: int, item: ItemLine, task_id: str) -> ItemOutcome | None:
        """Start the task, also if this coroutine is cancelled. Returns the failure if the item is invalid."""
        async with self._starts:
            if not self._is_trusted:
                raise HandedOver(_SUSPENDED)
            sent = asyncio.create_task(self._send(position, item, task_id))
            self._starting.add(sent)
            sent.add_done_callback(self._starting.discard)
            try:
                await asyncio.shield(sent)
            except ValueError as error:
                message = f"The item cannot be started: {error}"
                wrong = ErrorEnvelope.permanent(ErrorCategory.VALIDATION, "", message[:1_000])
                return ItemOutcome(status="failed", error=wrong)
        return None

    async def _send(self, position: int, item: ItemLine, task_id: str) -> None:
        """Start the task, and note in the slot which one it is."""
        slot = self._slots[position]
        limit = self._item_limit(slot)
        before = item_task_id(self._place.batch_id, item.key, slot.attempt - 1) if slot.attempt > 1 else None
        met = await self._tasks.start(self._place, item, task_id, limit_usd=limit, after=before)
        self._slots[position] = _following(slot, met, task_id)

    def _next_attempt(self, slot: Slot, outcome: ItemOutcome) -> Slot | None:
        """Return the slot of another attempt; None when the outcome is final."""
        if self._request.step != "run" or self._stop is not None or outcome.status != "failed":
            return None
        retries = self._options.retries.get(outcome.error.category, 0) if outcome.error is not None else 0
        if slot.attempt - slot.first_attempt >= retries:
            return None
        spent = outcome.cost_usd or Decimal(0)
        budget = self._options.budget_usd
        if self._place.is_paid and budget is not None and self._cost + self._reserved + spent > budget:
            return None
        changes = {"attempt": slot.attempt + 1, "spent_usd": slot.spent_usd + spent, **_ANEW}
        return slot.model_copy(update=changes)

    def _take(self, ended: _Ended) -> None:
        """The item has its answer; its row waits to be written."""
        position = ended.slot.position
        del self._running[position]
        self._ended[position] = ended
        self._counts = self._counts.plus(ended.outcome.status, ended.rows)
        self._cost += ended.cost_usd
        self._highest = max(self._highest, ended.cost_usd)
        self._money.item_ended()
        count_item(ended.outcome, reused=ended.slot.is_shared)
        if self._stop is None and self._request.step == "run":
            self._stop = stop_after(self._options.stop, self._counts, ended.outcome)
        if self._options.order == "any":
            self._rows.append(ended)
        self._changed.set()

    def _release_rows(self) -> None:
        """In the given order, let the rows be written before which none is missing."""
        waiting = {ended.slot.position for ended in self._rows}
        for at in sorted(at for at in self._slots if at not in waiting):
            is_after_gap = self._request.step == "run" and at >= self._cursor
            if at not in self._ended or is_after_gap:
                return
            self._rows.append(self._ended[at])

    async def _flush_often(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self._flush()

    async def _flush(self) -> None:
        """Write the rows that wait. Their items then no longer count as running. Without rows, report which
        items were started since.
        """
        async with self._flushing:
            if self._options.order == "given":
                self._release_rows()
            if not self._rows:
                if self._under_way != self._state.under_way:
                    self._take_stock()
                return
            ready = list(self._rows)
            # A process that was suspended does not publish what another one may have replaced.
            await self._results.append([ended.row for ended in ready], publish=self._is_trusted)
            for ended in ready:
                self._rows.popleft()
                self._note(ended)
            self._written += len(ready)
            self._take_stock()

    def _note(self, ended: _Ended) -> None:
        position = ended.slot.position
        del self._slots[position]
        del self._ended[position]
        if position >= self._cursor:
            self._beyond.add(position)
        self._state = self._state.model_copy(
            update={
                "counts": self._state.counts.plus(ended.outcome.status, ended.rows),
                "highest_usd": max(self._state.highest_usd, ended.cost_usd),
            }
        )

    @property
    def _under_way(self) -> tuple[Slot, ...]:
        return tuple(self._slots[at] for at in sorted(self._slots))

    def _take_stock(self) -> None:
        """Set the state to the written rows and the running items, and send it with a heartbeat."""
        self._skip_started()
        reason, words = self._stop or (self._state.stop, self._state.stop_words)
        unwritten: dict[str, Any] = {
            "cursor": self._cursor,
            "beyond": tuple(sorted(self._beyond)),
            "under_way": self._under_way,
            "cost_usd": self._cost - sum((ended.cost_usd for ended in self._ended.values()), Decimal(0)),
            "results": self._results.state,
            "per_minute": self._rate(),
            "stop": reason,
            "stop_words": words,
            "waits_because": self._money.reason,
        }
        self._state = self._state.model_copy(update=unwritten)
        self._heartbeats.send(self._state)

    def _rate(self) -> float | None:
        """Items that ended per minute in this round; the value before while the round is too short."""
        elapsed = time.monotonic() - self._began
        before = self._state.per_minute
        if elapsed < _RATE_SECONDS and before is not None:
            return before
        return round(60 * self._written / elapsed, 1) if self._written and elapsed > 0 else before


def _once_more(slot: Slot) -> Slot:
    """Return the slot of an item that was refused before it began: a new task, which counts as no retry."""
    return slot.model_copy(update={"attempt": slot.attempt + 1, "first_attempt": slot.first_attempt + 1, **_ANEW})


def _following(slot: Slot, met: MetTask, task_id: str) -> Slot:
    """Return the slot with its task: that of the item's own id, or one that identical calls share."""
    return slot.model_copy(update={"started": True, "met": met if met.task_id != task_id else None})


def row_of(outcome: ItemOutcome, *, key: str, index: int, task: MetTask, attempts: int) -> bytes:
    """Return the row, as JSON."""
    rows = rows_in(outcome)
    row = ItemRow(
        key=key,
        index=index,
        status=outcome.status,
        task_id=task.task_id,
        attempts=attempts,
        reused=task.reused,
        run_id=outcome.run_id,
        dataset_id=outcome.dataset_id,
        cost_usd=float(outcome.cost_usd) if outcome.cost_usd is not None else None,
        seconds=round(outcome.seconds, 3),
        rows=rows,
        locator=outcome.locator,
        error=outcome.error,
    )
    if outcome.status == "completed":
        row = _with_answer(row, outcome)
    return text_of(row.model_dump(mode="json", exclude_none=True))


def rows_in(outcome: ItemOutcome) -> int | None:
    """Return the number of rows in the answer, stored rows included; None if the answer is not a dataset."""
    answer: JsonValue = outcome.structured or {}
    items = answer.get("items")
    for name in ("storages", "datasets", "default", "itemCount"):
        answer = answer.get(name) if isinstance(answer, dict) else None
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer
    return len(items) if isinstance(items, list) else None


def _with_answer(row: ItemRow, outcome: ItemOutcome) -> ItemRow:
    answer = outcome.structured
    if answer is None:
        is_large = len(outcome.text.encode()) > MAX_ANSWER_BYTES
        return row.model_copy(update={"truncated": True} if is_large else {"text": outcome.text})
    items = answer.get("items")
    # A row has the main fields of a run, whose id leads to the rest.
    is_report = "runId" in answer and "storages" in answer
    rest = None if is_report else {name: value for name, value in answer.items() if name != "items"}
    shown: JsonObject = {"items": items if isinstance(items, list) else None, "result": rest or None}
    if not isinstance(items, list) and items is not None:
        shown["result"] = answer
    if is_too_deep(shown) or len(text_of(shown)) > MAX_ANSWER_BYTES:
        return row.model_copy(update={"truncated": True})
    return row.model_copy(update=shown)
