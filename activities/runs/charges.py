"""Activities of the spend ledger: store its records, and read what runs have cost."""

import asyncio
from datetime import timedelta
from decimal import Decimal

from temporalio import activity

from outlast.activities import apify
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.heartbeat import activity_scope
from outlast.activities.outputs.temporal_tasks import TemporalTasks
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.contracts import FINAL_RUN_STATUSES
from outlast.activities.runs.spending import count_run_event
from outlast.activities.runs.starts import StartedRuns
from outlast.activities.spending import contracts as spending
from outlast.activities.spending.usage_store import UsageStore

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
        activity.logger.warning("Run %s still runs, and its task %s has ended.", run_id, entry.spend.task_id)
    if running:
        return "running"
    costs = (spending.exact_usd(run.usage_total_usd or 0.0) for run in found)
    cost = entry.spend.share_of(sum(costs, spending.exact_usd(0.0)))
    return spending.Settlement(spend=entry.spend, cost_usd=cost, run_id=found[0].id if len(found) == 1 else None)
