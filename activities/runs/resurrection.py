"""The activity that resurrects a run: its process starts again, with the same id and storages. The platform's call has
no idempotency key. But the run counts its resurrections, so that an attempt sees what an earlier one
has done. See docs/decisions/0031-resurrection.md.
"""

import asyncio
import time
from datetime import timedelta
from decimal import Decimal
from typing import TypeVar

from temporalio import activity

from outlast.activities import apify
from outlast.activities.contracts import Contract, ErrorCategory
from outlast.activities.failures.classify import ToolFailure, as_activity_failure, classify
from outlast.activities.heartbeat import Heartbeats, heartbeating
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.activities import RunTiming, refuse_after_silence
from outlast.activities.runs.contracts import (
    Production,
    ResurrectResult,
    ResurrectRunInput,
    RunState,
    has_money_left,
    is_another_life,
    why_unproductive,
)
from outlast.activities.runs.reads import RunReads
from outlast.activities.runs.spending import count_run_event, reserved_further_limit, settle_run
from outlast.activities.runs.starts import is_refusal
from outlast.activities.spending.contracts import ClosedEntry
from outlast.activities.spending.ledger import Ledgers

_PAUSE_SECONDS = 0.5
Limit = TypeVar("Limit", int, Decimal)
_PASSING = frozenset({ErrorCategory.CAPACITY, ErrorCategory.RATE_LIMIT})
"""Refusals that pass: the request is repeated."""


class ResurrectPhase(Contract):
    """Heartbeat details of `resurrect_run`, which the next attempt reads."""

    may_have_sent: bool


class RunResurrections:
    """Resurrects runs, on behalf of the caller that each request names."""

    def __init__(
        self,
        platform: ApifyPlatform,
        ledgers: Ledgers,
        *,
        console_url: str | None = None,
        timing: RunTiming | None = None,
    ) -> None:
        self._platform = platform
        self._ledgers = ledgers
        self._timing = timing or RunTiming()
        self._reads = RunReads(platform, console_url=console_url, request_timeout=self._timing.request_timeout)

    @activity.defn
    async def resurrect_run(self, request: ResurrectRunInput) -> ResurrectResult:
        """Resurrect an ended run, at most once, if it has produced something to continue from. A run that was
        resurrected already is taken as it is. One that is not resurrected is settled, and the result has the reason. If
        the account has no memory or run slot left, it is retried until the task's deadline.
        """
        with as_activity_failure(waits_of=request.caller.id):
            client = self._platform.client(request.caller)
            async with heartbeating() as heartbeats:
                begun = await self._begun_before(client, request)
                # The SDK sends the first heartbeat of an attempt at once; it may throttle later ones.
                heartbeats.send(ResurrectPhase(may_have_sent=True))
                if begun is not None:
                    count_run_event("adopted")
                    return ResurrectResult(run=begun, produced=request.produced_before)
                produced = await production_of(client, request.run_id, request.produced_before)
                why = None if request.is_forced else why_unproductive(produced, request.produced_before, request.ended)
                if why is None and not has_money_left(request.ended, request.budget):
                    why = "it has cost what it may cost"
                if why is not None:
                    return await self._refused(request, why)
                result = await self._resurrect(client, request, heartbeats)
                return result.model_copy(update={"produced": produced})

    async def _begun_before(self, client: "apify.ApifyClientAsync", request: ResurrectRunInput) -> RunState | None:
        """Return the run, if it has been resurrected already. That of a lost attempt may show late."""
        lost = activity.info().attempt > 1 and _may_have_sent(activity.info())
        deadline = time.monotonic() + (self._timing.start_settle.total_seconds() if lost else 0)
        while True:
            state = self._reads.state(await self._reads.run(client, request.run_id))
            if is_another_life(state, request.ended):
                return state
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _resurrect(
        self, client: "apify.ApifyClientAsync", request: ResurrectRunInput, heartbeats: Heartbeats
    ) -> ResurrectResult:
        limit = await reserved_further_limit(self._ledgers, request)
        if request.spend is not None and (earlier := request.spend.earlier) is not None:
            await self._ledgers.close(request.caller, ClosedEntry(entry_id=earlier.entry_id, cost_usd=earlier.cost_usd))
        refuse_after_silence(heartbeats)
        try:
            run = await self._send(client, request.model_copy(update={"budget": request.budget.within(limit)}))
        except apify.ApifyApiError as error:
            if not is_refusal(error):
                raise
            return await self._after_refusal(client, request, heartbeats, error)
        count_run_event("resurrected")
        return ResurrectResult(run=self._reads.state(run).model_copy(update={"limit_usd": limit}))

    async def _send(self, client: "apify.ApifyClientAsync", request: ResurrectRunInput) -> "apify.Run":
        budget, had = request.budget, request.ended.options
        sending = asyncio.ensure_future(
            client.run(request.run_id).resurrect(
                build=request.build,
                memory_mbytes=request.memory_mbytes,
                run_timeout=timedelta(seconds=budget.max_run_seconds) if budget.max_run_seconds else None,
                max_items=_raised(budget.max_items, had.get("maxItems")),
                max_total_charge_usd=_raised(budget.max_total_charge_usd, had.get("maxTotalChargeUsd")),
                timeout=self._timing.request_timeout,
            )
        )
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            # The platform may have the request already: read its response, so that the run can be aborted.
            return await sending

    async def _after_refusal(
        self,
        client: "apify.ApifyClientAsync",
        request: ResurrectRunInput,
        heartbeats: Heartbeats,
        error: "apify.ApifyApiError",
    ) -> ResurrectResult:
        """Handle a refusal: the run may be running already, or the refusal is raised to be retried, or final."""
        state = self._reads.state(await self._reads.run(client, request.run_id))
        if is_another_life(state, request.ended) or not state.is_final:
            count_run_event("adopted")
            return ResurrectResult(run=state)
        heartbeats.send(ResurrectPhase(may_have_sent=False))
        envelope = classify(error)
        if envelope.category in _PASSING:
            raise ToolFailure(envelope)
        return await self._refused(request, f"the platform refused: {envelope.message}")

    async def _refused(self, request: ResurrectRunInput, reason: str) -> ResurrectResult:
        """Book what the run has cost, if that is not done yet; give back what was reserved for it."""
        spend = request.spend
        if spend is not None and spend.earlier is None:
            await settle_run(self._ledgers, request.caller, spend, request.ended)
        elif spend is not None and request.caps is not None:
            await self._ledgers.release(request.caller, spend.entry_id)
        return ResurrectResult(run=request.ended, is_resurrected=False, reason=reason, produced=request.produced_before)


def _may_have_sent(info: activity.Info) -> bool:
    """Return True if the request of the previous attempt may have reached the platform, or if that is unknown."""
    if not info.heartbeat_details:
        return True
    return ResurrectPhase.model_validate(info.heartbeat_details[0]).may_have_sent


def _raised(wanted: Limit | None, had: object) -> Limit | None:
    """A limit on what a resurrected run may cost: the platform lets it be raised only (apify-client, `resurrect`)."""
    if wanted is None or not isinstance(had, int | float):
        return wanted
    return wanted if float(wanted) > had else None


_INPUT = "INPUT"
_LIBRARYS_OWN = ("SDK_", "CRAWLEE_", "__")
"""Records of the Apify SDK and Crawlee, which exist even if nothing was crawled."""
_KEYS_PER_PAGE = 1_000
_MOST_PAGES = 10


async def production_of(client: "apify.ApifyClientAsync", run_id: str, before: Production) -> Production:
    """Return the production of the run so far, at least `before`. Raises what apify-client raises."""
    run = client.run(run_id)
    queue = await run.request_queue().get()
    return Production(
        rows=await _rows(client, run_id, before.rows),
        requests=queue.handled_request_count if queue is not None else 0,
        records=await _records(client, run_id),
    )


async def _rows(client: "apify.ApifyClientAsync", run_id: str, before: int) -> int:
    """Return the number of rows. The count of a dataset lags behind its rows, so the next row is looked for."""
    dataset = client.run(run_id).dataset()
    found = await dataset.get()
    count = found.item_count if found is not None else 0
    if count > before:
        return count
    page = await dataset.list_items(offset=before, limit=1)
    return before + len(page.items)


async def _records(client: "apify.ApifyClientAsync", run_id: str) -> int:
    """Return the number of records, of many only the first ten thousand."""
    store = client.run(run_id).key_value_store()
    count, start = 0, None
    for _ in range(_MOST_PAGES):
        page = await store.list_keys(limit=_KEYS_PER_PAGE, exclusive_start_key=start)
        count += sum(item.key != _INPUT and not item.key.startswith(_LIBRARYS_OWN) for item in page.items)
        start = page.next_exclusive_start_key
        if not page.is_truncated or start is None:
            break
    return count
