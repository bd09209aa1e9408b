"""Tasks of batch items: an item is a `ToolCallWorkflow`, like every other call.

Identical calls share a task. A worker starts eagerly as many items as are its share of all workers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from weakref import WeakValueDictionary

from cachetools import LRUCache
from pydantic import ValidationError
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.batches.contracts import BatchPlace, EqualCalls, ItemLine, ItemOutcome, MetTask, ReusedAnswer
from outlast.activities.contracts import ErrorCategory
from outlast.activities.dispatch.contracts import written
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.output_format import parse_locator
from outlast.activities.outputs.reader import load_manifest
from outlast.activities.runs.contracts import RunState, has_money_left, is_cut_short
from outlast.activities.spending.contracts import ReserveInput, Spend, exact_usd
from outlast.activities.spending.ledger import Ledgers, refused_by_cap
from outlast.worker.ended_runs import abnormal, ended_call, taken_up, task_outcome
from outlast.worker.payloads import UNREADABLE
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import (
    ResurrectedTask,
    TaskCompleted,
    TaskSummary,
    ToolCall,
    ToolOutcome,
    same_task_id,
    same_task_number,
)
from outlast.workflows.tool_call import ToolCallWorkflow

_REMEMBERED = 10_000
_TRIES = 50
_LISTED = 20
_LOOKED_BACK = 5
"""Numbers before the newest one among which an item's own task is looked for: others may have started again since."""


class EqualTasks:
    """Finds the tasks of identical calls. Every method raises `RPCError` when Temporal does not answer."""

    def __init__(self, client: Client, objects: OutputObjects) -> None:
        """Look for tasks with `client`. Stored answers have to be in `objects` still."""
        self._client = client
        self._objects = objects
        self._newest = LRUCache[str, int](_REMEMBERED)
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    async def meet(
        self, caller_id: str, equal: EqualCalls, key: str, start: Callable[[str], Awaitable[object]]
    ) -> MetTask:
        """The task that answers the item of this key: one that is there, or the one that `start` starts by its id.

        Raises what `start` raises, but for `WorkflowAlreadyStartedError`; and `ValueError` when identical calls start
        faster than one of them can be found.
        """
        turn = self._turns.setdefault(equal.digest, asyncio.Lock())
        async with turn:
            number = self._newest.get(equal.digest) or await self._listed(equal.digest)
            for _ in range(_TRIES):
                met = await self._met(caller_id, equal, key, number) if number else None
                if met is None:
                    try:
                        await start(same_task_id(equal.digest, number + 1))
                    except WorkflowAlreadyStartedError:
                        number += 1
                        continue
                    number += 1
                    met = MetTask(task_id=same_task_id(equal.digest, number))
                self._newest[equal.digest] = number
                return met
        raise ValueError("identical calls start faster than one of them can be found")

    async def own(self, equal: EqualCalls, key: str) -> MetTask | None:
        """The task that the item of this key has started, if there is one."""
        newest = await self._listed(equal.digest)
        # Lists lag behind; a description does not.
        while await self._described(same_task_id(equal.digest, newest + 1)) is not None:
            newest += 1
        for number in range(newest, max(0, newest - _LOOKED_BACK), -1):
            description = await self._described(same_task_id(equal.digest, number))
            if description is not None and await _key_of(description) == key:
                return MetTask(task_id=description.id)
        return None

    async def _listed(self, digest: str) -> int:
        """The newest number that visibility knows; 0 for none."""
        query = search_attributes.query_of_equal_calls(digest)
        found = self._client.list_workflows(query, limit=_LISTED, page_size=_LISTED)
        return max([same_task_number(execution.id) async for execution in found], default=0)

    async def _met(self, caller_id: str, equal: EqualCalls, key: str, number: int) -> MetTask | None:
        """The task of this number, if it answers the item."""
        description = await self._described(same_task_id(equal.digest, number))
        if description is None:
            return None
        if await _key_of(description) == key:
            return MetTask(task_id=description.id)
        if equal.max_age_seconds is None:
            return None
        if description.status is WorkflowExecutionStatus.RUNNING:
            is_ending = description.raw_description.workflow_extended_info.cancel_requested
            reused = None if is_ending else ReusedAnswer(joined=True, age_seconds=0.0)
        else:
            reused = await self._answered(caller_id, description, equal.max_age_seconds)
        return MetTask(task_id=description.id, reused=reused) if reused is not None else None

    async def _answered(
        self, caller_id: str, description: WorkflowExecutionDescription, max_age_seconds: float
    ) -> ReusedAnswer | None:
        """Return True if it was answered recently enough, with an output that still exists."""
        if description.status is not WorkflowExecutionStatus.COMPLETED or description.close_time is None:
            return None
        age = max(0.0, (datetime.now(UTC) - description.close_time).total_seconds())
        if age > max_age_seconds:
            return None
        result = (await self._client.get_workflow_handle_for(ToolCallWorkflow.run, description.id).result()).result
        if result.is_error:
            return None
        if result.locator is not None:
            manifest = await load_manifest(self._objects, parse_locator(result.locator, caller_id=caller_id))
            if manifest is None or manifest.expires_at <= datetime.now(UTC):
                return None
        return ReusedAnswer(joined=False, age_seconds=round(age, 3))

    async def _described(self, task_id: str) -> WorkflowExecutionDescription | None:
        try:
            return await self._client.get_workflow_handle(task_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None


async def _key_of(description: WorkflowExecutionDescription) -> str | None:
    """The key with which the task was started; None if its record cannot be read."""
    try:
        summary = await description.memo_value(memo.SUMMARY, None, type_hint=TaskSummary)
    except UNREADABLE:
        return None
    return summary.request_key if summary is not None else None


_LOOK_SECONDS = 30.0


class EagerShare:
    """One in as many items as workers poll for workflows."""

    def __init__(self, client: Client) -> None:
        """Count the workers of `client`'s namespace."""
        self._client = client
        self._workers = 1
        self._looked_at = float("-inf")
        self._items = 0

    async def takes_next(self) -> bool:
        """Return True if this worker owns the next item. Raises `RPCError`."""
        if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._workers = max(1, await self._count())
        self._items += 1
        return self._items % self._workers == 0

    async def _count(self) -> int:
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=TOOLS_TASK_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        described = await self._client.workflow_service.describe_task_queue(request)
        return len({poller.identity for poller in described.pollers})


_ASKED_AT_ONCE = 20


class WorkflowItemTasks:
    """See `outlast.activities.batches.round.ItemTasks`."""

    def __init__(self, client: Client, objects: OutputObjects, ledgers: Ledgers) -> None:
        """Start workflows with `client`. Answers of identical calls that are stored are in `objects`."""
        self._client = client
        self._ledgers = ledgers
        self._eager = EagerShare(client)
        self._equal = EqualTasks(client, objects)

    async def start(
        self, place: BatchPlace, item: ItemLine, task_id: str, *, limit_usd: Decimal | None, after: str | None
    ) -> MetTask:
        """Start the item's task, unless there is one already: its own, or one that identical calls share.

        Its own task resurrects the run of the task `after`, if it may.
        """
        call, summary = _call_of(place, item, limit_usd)
        if item.equal is None or _differs(place, limit_usd):
            if after is not None and call.options.resurrect is not None:
                resurrects = await self._resurrected(after, call)
                call = call.model_copy(update={"resurrects": resurrects})
                summary = summary.model_copy(update={"resurrects": resurrects.task_id if resurrects else None})
            with suppress(WorkflowAlreadyStartedError):
                await self._start(place, call, summary, task_id)
            return MetTask(task_id=task_id)
        equal, keyed = item.equal, summary.model_copy(update={"request_key": task_id})
        return await self._equal.meet(
            place.caller_id,
            equal,
            task_id,
            lambda shared_id: self._start(place, call, keyed, shared_id, reuse=equal.digest),
        )

    async def _start(
        self, place: BatchPlace, call: ToolCall, summary: TaskSummary, task_id: str, *, reuse: str | None = None
    ) -> None:
        # A run is started within the first task, in ways that were thought through for tasks from a queue only.
        eager = not place.starts_runs and await self._eager.takes_next()
        await self._client.start_workflow(
            ToolCallWorkflow.run,
            call,
            id=task_id,
            task_queue=TOOLS_TASK_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            memo={memo.SUMMARY: summary},
            search_attributes=search_attributes.of_task(call, summary, reuse=reuse),
            static_summary=f"{call.tool} for {place.caller_id}, item of {place.batch_id}",
            request_eager_start=eager,
            priority=Priority(fairness_key=place.caller_id[:64]) if place.is_fair else Priority.default,
        )

    async def _resurrected(self, task_id: str, call: ToolCall) -> ResurrectedTask | None:
        """The task of an attempt whose run was cut short and may be resurrected; None if another run is needed."""
        handle = self._client.get_workflow_handle_for(ToolCallWorkflow.run, task_id)
        try:
            description, outcome = await handle.describe(), await task_outcome(handle)
        except WorkflowFailureError:
            return None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        run, allowed = outcome.run, call.options.resurrect
        if run is None or allowed is None or run.resurrections >= allowed.max_times or call.is_paid:
            return None
        if not (is_cut_short(run) or _is_aborted_by_limit(outcome)) or not has_money_left(run, call.options.budget):
            return None
        ended = await ended_call(self._client, description)
        return taken_up(description, ended, run).model_copy(update={"starts_anew": True})

    async def refused(self, place: BatchPlace, item: ItemLine, *, limit_usd: Decimal | None) -> str | None:
        """Return the reason why spending limits would refuse a run of the item now; None if they would not."""
        call, summary = _call_of(place, item, limit_usd)
        if call.caps is None or call.is_paid:
            return None
        amount = call.options.budget.max_total_charge_usd
        spend = Spend(entry_id=f"probe:{place.batch_id}", actor=summary.actor, task_id=place.batch_id)
        request = ReserveInput(spend=spend, caller=call.caller, caps=call.caps, amount_usd=amount, hold=False)
        refusal = (await self._ledgers.reserve(request)).refusal
        return refused_by_cap(refusal).message if refusal is not None and refusal.may_pass else None

    async def outcome(self, task_id: str) -> ItemOutcome | None:
        """Wait for the end of the task and return it; None if there is no task."""
        handle = self._client.get_workflow_handle_for(ToolCallWorkflow.run, task_id)
        try:
            return _outcome_of(await task_outcome(handle))
        except WorkflowFailureError as error:
            return await _abnormal(task_id, error, await handle.describe())
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise

    async def cancel(self, task_id: str) -> None:
        """Cancel the task, unless it has ended or does not exist."""
        try:
            await self._client.get_workflow_handle(task_id).cancel()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def existing(self, items: Mapping[str, ItemLine]) -> Mapping[str, MetTask]:
        """The tasks that were started for items."""
        ordered = sorted(items)
        found: dict[str, MetTask] = {}
        for start in range(0, len(ordered), _ASKED_AT_ONCE):
            some = ordered[start : start + _ASKED_AT_ONCE]
            tasks = await asyncio.gather(*(self._own(task_id, items[task_id]) for task_id in some))
            found.update({task_id: task for task_id, task in zip(some, tasks, strict=True) if task is not None})
        return found

    async def ended(self, batch_id: str, since: datetime) -> frozenset[str]:
        """The tasks of a batch that have ended since a moment."""
        of_batch = f"{search_attributes.BATCH.name} = {search_attributes.quoted(batch_id)}"
        query = f"WorkflowType = 'ToolCallWorkflow' AND {of_batch} AND CloseTime > '{written(since)}'"
        return frozenset([one.id async for one in self._client.list_workflows(query, page_size=1_000)])

    async def _own(self, task_id: str, item: ItemLine) -> MetTask | None:
        if await self._exists(task_id):
            return MetTask(task_id=task_id)
        return await self._equal.own(item.equal, task_id) if item.equal is not None else None

    async def _exists(self, task_id: str) -> bool:
        try:
            await self._client.get_workflow_handle(task_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return True


def _differs(place: BatchPlace, limit_usd: Decimal | None) -> bool:
    """Return True if the batch's budget limits the run below its call's: then it is identical to no other."""
    return limit_usd is not None and limit_usd != place.own_limit_usd


def _call_of(place: BatchPlace, item: ItemLine, limit_usd: Decimal | None) -> tuple[ToolCall, TaskSummary]:
    """Raises `ValueError` for an item that is no call."""
    try:
        call = ToolCall.model_validate({**place.call, **item.call, "batch_id": place.batch_id})
        summary = TaskSummary.model_validate(
            {**place.summary, **item.summary, "created_at": datetime.now(UTC).isoformat()}
        )
    except ValidationError as error:
        raise ValueError("it was written by another version of Outlast") from error
    options = call.options.model_copy(update={"budget": call.options.budget.within(limit_usd)})
    return call.model_copy(update={"options": options}), summary


def _is_aborted_by_limit(outcome: ToolOutcome) -> bool:
    """Return True if the run was aborted because the deadline or budget of its task was exhausted."""
    error, run = outcome.result.error, outcome.run
    by_limit = error is not None and error.category in (ErrorCategory.TIMEOUT, ErrorCategory.PAYMENT)
    return by_limit and run is not None and run.status == "ABORTED"


def _outcome_of(outcome: ToolOutcome) -> ItemOutcome:
    result, run = outcome.result, outcome.run
    error = result.error
    is_cancelled = error is not None and error.category is ErrorCategory.CANCELLED and not result.structured
    return ItemOutcome(
        status="cancelled" if is_cancelled else "failed" if result.is_error else "completed",
        error=error,
        text=result.text,
        structured=result.structured,
        locator=result.locator,
        run_id=run.run_id if run else None,
        dataset_id=run.dataset_id if run else None,
        cost_usd=_cost(outcome.cost_usd, run),
        seconds=outcome.seconds,
    )


async def _abnormal(
    task_id: str, error: WorkflowFailureError, description: WorkflowExecutionDescription
) -> ItemOutcome:
    """The outcome of a task whose workflow returned no result. Its memo has what it has cost, if that can be read."""
    run, completed = None, None
    with suppress(*UNREADABLE):
        run = await description.memo_value(memo.RUN_FINISHED, None, type_hint=RunState)
        completed = await description.memo_value(memo.TASK_COMPLETED, None, type_hint=TaskCompleted)
    envelope = abnormal(task_id, error)
    return ItemOutcome(
        status="cancelled" if envelope.category is ErrorCategory.CANCELLED else "failed",
        error=envelope,
        run_id=run.run_id if run else None,
        dataset_id=run.dataset_id if run else None,
        cost_usd=_cost(completed.cost_usd if completed else None, run),
    )


def _cost(recorded: float | None, run: RunState | None) -> Decimal | None:
    known = recorded if recorded is not None else run.usage_total_usd if run is not None else None
    return exact_usd(known) if known is not None else None
