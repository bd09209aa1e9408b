"""Costs of runs: reserved in the caller's ledger before the start, settled at the end, released without a run, read
again for the ledger's records; and webhook events of runs that have spent most of their budget. Counts runs.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

from temporalio import activity
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from outlast.activities import apify
from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure, as_activity_failure
from outlast.activities.heartbeat import activity_scope
from outlast.activities.outputs.sweep import TemporalTasks
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.contracts import FINAL_RUN_STATUSES, Budget, ResurrectRunInput, RunState, StartRunInput
from outlast.activities.runs.starts import StartedRuns
from outlast.activities.spending import contracts as spending
from outlast.activities.spending.contracts import Basis, Reserved, ReserveInput, Settlement, Spend, exact_usd
from outlast.activities.spending.ledger import Ledgers, UsageStore, refused_by_cap
from outlast.activities.webhooks import contracts as webhooks


@dataclass(frozen=True)
class RunLimit:
    """The most that a run may cost, in US dollars, and the reason. None without a limit."""

    usd: Decimal | None
    basis: Basis | None

    def on(self, run: RunState) -> RunState:
        """`run` with this limit."""
        return run.model_copy(update={"limit_usd": self.usd, "limit_basis": self.basis})


async def reserved_limit(
    ledgers: Ledgers, request: StartRunInput, own_usd_of: Callable[[], Awaitable[Decimal | None]]
) -> RunLimit:
    """The limit of a run: its own, or what the caller's ledger has reserved for it. `own_usd_of` looks up the most that
    the Actor costs by its own settings; it is only called for a call without a budget. Raises `ToolFailure` when the
    caps do not leave as much. Without caps, or with a payment that came with the call, nothing is reserved.
    """
    own = request.spec.budget.max_total_charge_usd
    if request.spend is None or request.caps is None or not request.spend.is_capped:
        return RunLimit(own, "call" if own is not None else None)
    wanted = ReserveInput(
        spend=request.spend,
        caller=request.caller,
        caps=request.caps,
        amount_usd=own,
        actor_usd=await own_usd_of() if own is None else None,
        task_spent_usd=request.task_spent_usd,
    )
    answer = await _reserved(ledgers, wanted)
    return RunLimit(answer.granted_usd, answer.basis)


async def reserved_further_limit(ledgers: Ledgers, request: ResurrectRunInput) -> Decimal | None:
    """Return the limit of a run that was booked already and is resurrected; see `reserved_limit`."""
    own, spend = request.budget.max_total_charge_usd, request.spend
    if spend is None or spend.earlier is None or request.caps is None or not spend.is_capped:
        return own
    earlier = spend.earlier.cost_usd
    amount = None if own is None else max(own - earlier, Decimal(0))
    caller, caps = request.caller, request.caps
    wanted = ReserveInput(spend=spend, caller=caller, caps=caps, amount_usd=amount, task_spent_usd=earlier)
    granted = (await _reserved(ledgers, wanted)).granted_usd
    return None if granted is None else granted + earlier


async def _reserved(ledgers: Ledgers, wanted: ReserveInput) -> Reserved:
    answer = await ledgers.reserve(wanted)
    if answer.refusal is not None:
        raise ToolFailure(refused_by_cap(answer.refusal))
    return answer


async def settle_run(ledgers: Ledgers, caller: Caller, spend: Spend | None, run: RunState) -> None:
    """Book what a run has cost that has ended."""
    if spend is not None and run.is_final:
        cost = spend.share_of(exact_usd(run.usage_total_usd or 0.0))
        await ledgers.settle(caller, Settlement(spend=spend, cost_usd=cost, run_id=run.run_id))


RunEvent = Literal["started", "adopted", "resurrected", "taken_over", "handed_over", "abort_requested", "orphaned"]


def count_run_event(event: RunEvent) -> None:
    """Count a run that was started, one that was adopted after a lost start, one that was resurrected, one that another
    attempt follows on after the last one was lost, failed or handed it over, one that a stopping worker hands over, a
    request to abort one, or one that runs although its task has ended.
    """
    meter = activity.metric_meter()
    counter = meter.create_counter(
        "outlast_actor_runs",
        "Actor runs started, adopted after a lost start, resurrected, taken or handed over, aborted, or orphaned.",
    )
    counter.add(1, {"event": event})


KEEP_ATTEMPT_TIMEOUT = timedelta(minutes=1)
FIND_ATTEMPT_TIMEOUT = timedelta(minutes=5)
FIND_HEARTBEAT_TIMEOUT = timedelta(seconds=30)
_READS_AT_ONCE = 10


class SpendingActivities:
    """The work of the ledger that touches the outside world."""

    def __init__(self, platform: ApifyPlatform, tasks: TemporalTasks, store: UsageStore) -> None:
        self._platform = platform
        self._tasks = tasks
        self._store = store

    @activity.defn
    async def keep_usage(self, bundle: spending.KeepUsageInput) -> None:
        """Write settled entries to the store."""
        with as_activity_failure():
            await self._store.keep(bundle)

    @activity.defn
    async def find_charges(self, request: spending.FindChargesInput) -> spending.FoundCharges:
        """Return the outcome of reservations whose tasks have ended. A running run keeps its reservation."""
        async with activity_scope():
            tasks = {entry.spend.task_id for entry in request.entries if entry.spend.task_id}
            running = await self._tasks.running(tasks)
            settled: list[spending.Settlement] = []
            released: list[str] = []
            for entry in request.entries:
                if entry.spend.task_id in running:
                    continue
                found = await self._charge(entry)
                if isinstance(found, spending.Settlement):
                    settled.append(found)
                elif found == "nothing":
                    released.append(entry.spend.entry_id)
            return spending.FoundCharges(settled=tuple(settled), released=tuple(released))

    @activity.defn
    async def read_charges(self, request: spending.ReadChargesInput) -> spending.FinalCharges:
        """Return the final costs of ended runs, where they differ from what was booked."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            changed: dict[str, Decimal] = {}
            for start in range(0, len(request.runs), _READS_AT_ONCE):
                batch = request.runs[start : start + _READS_AT_ONCE]
                costs = await asyncio.gather(*(_final_cost(client, run.run_id) for run in batch))
                for run, whole in zip(batch, costs, strict=True):
                    if whole is not None and (cost := run.spend.share_of(whole)) != run.cost_usd:
                        changed[run.spend.entry_id] = cost
            return spending.FinalCharges(changed=changed)

    async def _charge(self, entry: spending.OpenEntry) -> spending.Settlement | str:
        """Return the cost of the entry's run; `nothing` if there is none, `running` while it runs."""
        if entry.spend.actor is None:
            return "nothing"
        client = self._platform.account_client(entry.caller)
        if entry.spend.earlier is not None:
            return await _settled(client, entry, [entry.spend.earlier.run_id])
        runs = StartedRuns(client, actor=entry.spend.actor, operation_id=entry.spend.entry_id, since=entry.since)
        return await _settled(client, entry, await runs.find(settle=timedelta(0)))


async def _final_cost(client: "apify.ApifyClientAsync", run_id: str) -> Decimal | None:
    """Return the cost of a run; None if it was deleted, or runs again because it was resurrected."""
    run = await client.run(run_id).get()
    if run is None or str(run.status) not in FINAL_RUN_STATUSES:
        return None
    return spending.exact_usd(run.usage_total_usd or 0.0)


async def _settled(
    client: "apify.ApifyClientAsync", entry: spending.OpenEntry, run_ids: list[str]
) -> spending.Settlement | str:
    found = [run for run in [await client.run(run_id).get() for run_id in run_ids] if run is not None]
    if not found:
        return "nothing"
    running = [run.id for run in found if str(run.status) not in FINAL_RUN_STATUSES]
    for run_id in running:
        count_run_event("orphaned")
        activity.logger.warning("Run %s is still running although its task %s has ended.", run_id, entry.spend.task_id)
    if running:
        return "running"
    costs = (spending.exact_usd(run.usage_total_usd or 0.0) for run in found)
    cost = entry.spend.share_of(sum(costs, spending.exact_usd(0.0)))
    return spending.Settlement(spend=entry.spend, cost_usd=cost, run_id=found[0].id if len(found) == 1 else None)


NEAR = 0.8
"""The share of a run's budget from which on it counts as nearly spent."""
_MAX_TOLD = 10_000
_CALLER = SearchAttributeKey.for_keyword("OutlastCaller")


class BudgetNotices:
    """Starts the deliveries of `task.budget_near`, once for each run."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._told: OrderedDict[str, None] = OrderedDict()

    async def tell(self, watch: webhooks.BudgetWatch, run: RunState, budget: Budget) -> None:
        """Notify the listeners once for each run. The start by another worker has the same id. When
        Temporal does not answer, the next poll tries again: a notice never fails a run.
        """
        if run.run_id in self._told:
            return
        kind = webhooks.WebhookEventType.TASK_BUDGET_NEAR
        limit = budget.max_total_charge_usd
        data = webhooks.task_data(
            watch.subject,
            "working",
            run_id=run.run_id,
            cost_usd=run.usage_total_usd,
            budget_usd=float(limit) if limit is not None else None,
        )
        event = webhooks.WebhookEvent(
            id=webhooks.event_id(kind, watch.subject.task_id, activity.info().workflow_run_id or "", run.run_id),
            type=kind,
            timestamp=datetime.now(UTC),
            subject=watch.subject.task_id,
            data=data,
        )
        try:
            for listener in watch.listeners:
                await self._start(webhooks.DeliveryInput(caller_id=watch.caller_id, listener=listener, event=event))
        except RPCError as error:
            activity.logger.warning("The budget warning of run %s was not sent: %s", run.run_id, error)
            return
        self._told[run.run_id] = None
        while len(self._told) > _MAX_TOLD:
            self._told.popitem(last=False)

    async def _start(self, order: webhooks.DeliveryInput) -> None:
        try:
            await self._client.start_workflow(
                webhooks.DELIVERY_WORKFLOW,
                order,
                id=order.workflow_id,
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                memo={webhooks.DELIVERY_MEMO: order.summary},
                search_attributes=TypedSearchAttributes([SearchAttributePair(_CALLER, order.caller_id)]),
                static_summary=f"{order.event.type.value} for {order.listener.id}",
            )
        except WorkflowAlreadyStartedError:
            return


def nears_limit(run: RunState, budget: Budget) -> bool:
    """Return True if a run has spent most of its budget."""
    limit = budget.max_total_charge_usd
    return limit is not None and run.usage_total_usd is not None and run.usage_total_usd >= NEAR * float(limit)
