"""`WorkflowItemTasks`: an item of a batch is a `ToolCallWorkflow`, like every other call."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowFailureError
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.batches.contracts import BatchPlace, ItemLine, ItemOutcome, MetTask
from outlast.activities.dispatch.contracts import written
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.runs.contracts import RunState, has_money_left, is_cut_short
from outlast.activities.spending.contracts import ReserveInput, Spend, exact_usd
from outlast.activities.spending.ledger import Ledgers, refused_by_cap
from outlast.worker.abnormal_ends import abnormal
from outlast.worker.batches.eager_share import EagerShare
from outlast.worker.batches.equal_tasks import EqualTasks
from outlast.worker.ended_tasks.ended_runs import ended_call, taken_up
from outlast.worker.payloads.external_storage import UNREADABLE
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ResurrectedTask, TaskCompleted, TaskSummary, ToolCall, ToolOutcome
from outlast.workflows.tool_call import ToolCallWorkflow

_ASKED_AT_ONCE = 20


class WorkflowItemTasks:
    """See `outlast.activities.batches.round.ItemTasks`."""

    def __init__(self, client: Client, objects: OutputObjects, ledgers: Ledgers) -> None:
        """Start workflows with `client`. Answers of equal calls that are stored are in `objects`."""
        self._client = client
        self._ledgers = ledgers
        self._eager = EagerShare(client)
        self._equal = EqualTasks(client, objects)

    async def start(
        self, place: BatchPlace, item: ItemLine, task_id: str, *, limit_usd: Decimal | None, after: str | None
    ) -> MetTask:
        """Start the item's task, unless there is one already: its own, or one that equal calls share.

        Its own task goes on with the run of the task `after`, if it may.
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
        """The task of an attempt whose run was cut short and may go on; None when another run has to be started."""
        handle = self._client.get_workflow_handle_for(ToolCallWorkflow.run, task_id)
        try:
            description, outcome = await handle.describe(), await handle.result()
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
        """Why the caller's caps would refuse a run of the item now; None if they would not."""
        call, summary = _call_of(place, item, limit_usd)
        if call.caps is None or call.is_paid:
            return None
        amount = call.options.budget.max_total_charge_usd
        spend = Spend(entry_id=f"probe:{place.batch_id}", actor=summary.actor, task_id=place.batch_id)
        request = ReserveInput(spend=spend, caller=call.caller, caps=call.caps, amount_usd=amount, hold=False)
        refusal = (await self._ledgers.reserve(request)).refusal
        return refused_by_cap(refusal).message if refusal is not None and refusal.may_pass else None

    async def outcome(self, task_id: str) -> ItemOutcome | None:
        """How the task has ended, as soon as it has; None when there is none."""
        handle = self._client.get_workflow_handle_for(ToolCallWorkflow.run, task_id)
        try:
            return _outcome_of(await handle.result())
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
    """Whether the batch's budget limits the run further than its call says: then it is equal to no other."""
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
    """Whether the run was aborted because the time or the money of its task was over."""
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
