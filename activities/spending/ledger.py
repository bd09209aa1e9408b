"""The way to the ledgers: reserve before money is spent, settle when the amount is known.

Usage records in the output store: they outlive the histories of the tasks that they are about.

    usage/<namespace>/<caller>/<day>/<number>.<digest>.jsonl     records that were settled on that day, one per line

A bundle is written once, whole. Records may stand in two bundles, when a ledger stored them again after a time-out:
readers count an entry once.
"""

import asyncio
import hashlib
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, date
from typing import NamedTuple

from pydantic import ValidationError
from temporalio.client import Client, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import WorkflowIDConflictPolicy

from outlast.activities.bounds import usd_text
from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import ObjectUnavailable, OutputDamaged
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.output_format import scope_of
from outlast.activities.spending import contracts as spending
from outlast.activities.spending.contracts import KeepUsageInput, UsageRecord, day_of
from outlast.activities.workflow_requests import Combiner, update_with_start
from outlast.fingerprints import as_folder

_PATIENCE_SECONDS = 30
"""The time limit of a ledger's answer. A longer wait means that no worker serves it, or that it is stuck."""


class Ledgers:
    """Reserves and settles in the callers' ledgers, which are workflows; the first entry starts one. Every method may
    be repeated: an entry is booked once. They raise `RPCError` when Temporal does not respond.
    """

    def __init__(
        self, client: Client, *, task_queue: str, check_after_seconds: float = spending.CHECK_AFTER_SECONDS
    ) -> None:
        """Ledgers are workflows on `task_queue`. A reservation of that age is looked after: its task may be gone."""
        self._client = client
        self._task_queue = task_queue
        self._check_after_seconds = check_after_seconds
        self._settlements = Combiner[tuple[Caller, spending.Settlement]](self._settle)

    async def reserve(self, request: spending.ReserveInput) -> spending.Reserved:
        """Hold the amount, or return the limit that refuses it. A repeated request has the same answer. Raises
        a retryable `ToolFailure` when the ledger does not answer.
        """
        caller_id = request.caller.id
        request = request.model_copy(update={"caller": request.caller.with_account})
        patience = asyncio.timeout(_PATIENCE_SECONDS)
        try:
            async with patience:
                return await update_with_start(
                    self._client,
                    spending.RESERVE_UPDATE,
                    request,
                    spending.Reserved,
                    spending.LEDGER_WORKFLOW,
                    self._new(caller_id),
                    id=spending.ledger_id(caller_id),
                    task_queue=self._task_queue,
                    static_summary=f"spend ledger of {caller_id}",
                )
        except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError):
            if patience.expired():
                raise _silent(caller_id) from None
            raise

    async def settle(self, caller: Caller, settlement: spending.Settlement) -> None:
        """Book the cost of an entry."""
        await self._settlements.add(caller.id, (caller.with_account, settlement))

    async def _settle(self, caller_id: str, settled: tuple[tuple[Caller, spending.Settlement], ...]) -> None:
        entries = tuple(settlement for _, settlement in settled)
        sent = spending.Settlements(entries=entries, caller=settled[0][0])
        await self._signal(caller_id, spending.SETTLE_SIGNAL, sent)

    async def release(self, caller: Caller, entry_id: str) -> None:
        """Give back what an entry holds: nothing was bought."""
        await self._signal(caller.id, spending.RELEASE_SIGNAL, entry_id)

    async def close(self, caller: Caller, closed: spending.ClosedEntry) -> None:
        """Book what a run has really cost that is resurrected now, and leave the entry so."""
        await self._signal(caller.id, spending.CLOSE_SIGNAL, closed)

    async def _signal(self, caller_id: str, name: str, argument: object) -> None:
        await self._client.start_workflow(
            spending.LEDGER_WORKFLOW,
            self._new(caller_id),
            id=spending.ledger_id(caller_id),
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=f"spend ledger of {caller_id}",
            start_signal=name,
            start_signal_args=[argument],
        )

    def _new(self, caller_id: str) -> spending.LedgerState:
        return spending.LedgerState(caller_id=caller_id, check_after_seconds=self._check_after_seconds)


async def exceeded_cap(
    ledgers: Ledgers, spend: spending.Spend, caller: Caller, caps: spending.SpendingCaps
) -> spending.CapRefusal | None:
    """Return the daily or monthly limit that leaves nothing, None if both leave something. Reserves nothing."""
    caps = caps.model_copy(update={"per_task_usd": None})
    asked = spending.ReserveInput(spend=spend, caller=caller, caps=caps, hold=False)
    return (await ledgers.reserve(asked)).refusal


def _silent(caller_id: str) -> ToolFailure:
    return ToolFailure.of(
        ErrorCategory.CAPACITY,
        "The spending ledger does not answer, and nothing that costs money is started without it.",
        hint=f"If this continues, the operators have to look at the workflow {spending.ledger_id(caller_id)}.",
        retryable=True,
    )


_CALLED = {"task": "cap per task", "day": "daily cap", "month": "monthly cap"}
_SETTINGS = {"task": "per_task_usd", "day": "per_day_usd", "month": "per_month_usd"}


def rest_of(refusal: spending.CapRefusal) -> str:
    """Return the rest of the limit, and the reason why no more is left."""
    held = f", {usd_text(refusal.reserved_usd)} reserved by runs that have not ended" if refusal.reserved_usd else ""
    cap, left = usd_text(refusal.cap_usd), usd_text(refusal.left_usd)
    return (
        f"of the {_CALLED[refusal.cap]} of {cap} US dollars {left} are left ({usd_text(refusal.spent_usd)} spent{held})"
    )


def resets(refusal: spending.CapRefusal) -> str:
    """Return the time at which the limit resets, as a sentence; empty for a limit that does not."""
    return f" The cap resets at {refusal.resets_at.astimezone(UTC):%Y-%m-%d %H:%M UTC}." if refusal.resets_at else ""


def refused_by_cap(refusal: spending.CapRefusal) -> ErrorEnvelope:
    """Return the error of a call that a cap refuses. It is retryable where the end of other runs may leave enough."""
    asked = "cost money" if refusal.asked_usd is None else f"cost up to {usd_text(refusal.asked_usd)} US dollars"
    advice = ["Give the call a budget within what is left (`options.budget.max_total_charge_usd`)"]
    if refusal.reserved_usd:
        advice.append("wait until running calls have ended")
    envelope = ErrorEnvelope.transient if refusal.may_pass else ErrorEnvelope.permanent
    return envelope(
        ErrorCategory.PAYMENT,
        "",
        f"This may {asked}, and {rest_of(refusal)}. Nothing was started.{resets(refusal)}",
        hint=f"{', '.join(advice)}, or ask the operator to raise `spending.{_SETTINGS[refusal.cap]}`.",
    )


_READS_AT_ONCE = 16


class UsageStore:
    """Writes and reads usage records. Raises what `OutputObjects` raises."""

    def __init__(self, objects: OutputObjects, *, namespace: str) -> None:
        self._objects = objects
        self._root = f"usage/{as_folder(namespace)}"

    async def keep(self, bundle: KeepUsageInput) -> None:
        """Write a bundle: one object for each day in it. Written again, it replaces itself."""
        days: defaultdict[date, list[UsageRecord]] = defaultdict(list)
        for record in bundle.records:
            days[day_of(record.at)].append(record)
        for day, records in days.items():
            lines = "".join(f"{record.model_dump_json(exclude_none=True)}\n" for record in records).encode()
            name = f"{bundle.number:08d}.{_digest(lines)}.jsonl"
            await self._objects.put(f"{self._folder(bundle.caller_id)}/{day.isoformat()}/{name}", lines)

    async def read(self, caller_id: str, first: date, last: date) -> "StoredUsage":
        """Return a caller's records of the days from `first` to `last`, both included, and how many cannot be read."""
        folder = self._folder(caller_id)
        days = [day for day in await self._objects.folders(folder) if first.isoformat() <= day <= last.isoformat()]
        keys = [entry.key for day in days for entry in [e async for e in self._objects.list(f"{folder}/{day}")]]
        records: list[UsageRecord] = []
        damaged = 0
        for start in range(0, len(keys), _READS_AT_ONCE):
            for found in await asyncio.gather(*map(self._bundle, keys[start : start + _READS_AT_ONCE])):
                records += found.records
                damaged += found.damaged
        return StoredUsage(records, damaged)

    async def _bundle(self, key: str) -> "StoredUsage":
        try:
            text = await self._objects.get(key)
        except (OutputDamaged, ObjectUnavailable):
            return StoredUsage([], 1)
        if text is None:
            return StoredUsage([], 0)
        found = _parsed(text)
        # Whole lines may be missing: the name has a digest of all.
        is_whole = key.endswith(f".{_digest(text)}.jsonl")
        return found if is_whole else found._replace(damaged=max(1, found.damaged))

    def _folder(self, caller_id: str) -> str:
        return f"{self._root}/{scope_of(caller_id)}"


def _digest(lines: bytes) -> str:
    return hashlib.sha256(lines).hexdigest()[:16]


class StoredUsage(NamedTuple):
    """Records of usage, and how many more there are that cannot be read: a sum must not leave them out in silence."""

    records: list[UsageRecord]
    damaged: int


def _parsed(text: bytes) -> StoredUsage:
    """Return the records of a bundle, and the number of its lines that are damaged."""
    records: list[UsageRecord] = []
    lines = [line for line in text.splitlines() if line]
    for line in lines:
        with suppress(ValidationError):
            records.append(UsageRecord.model_validate_json(line))
    return StoredUsage(records, len(lines) - len(records))
