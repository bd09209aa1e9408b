"""Usage: what callers have spent, from their ledgers and from the records in the store."""

import asyncio
import csv
import io
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.failures.exceptions import StoreUnavailable
from outlast.activities.spending import contracts as spending
from outlast.activities.spending.ledger import UsageStore
from outlast.api.access.policy.source import PolicySource
from outlast.api.access.principal import Principal
from outlast.api.errors import BadRequest, OutputStoreUnavailable, UsageForbidden
from outlast.api.spreadsheets import safe_cell
from outlast.api.temporal.errors import answer_of_worker, temporal_errors
from outlast.contracts.base import ALL_CALLERS
from outlast.contracts.operations import CallerCaps, CapUsage, Grouping, UsageQuery, UsageReport, UsageRow

MAX_DAYS = 366
_LEDGERS_AT_ONCE = 16


@dataclass
class _Sum:
    runs: int = 0
    model_calls: int = 0
    usd: Decimal = field(default_factory=Decimal)


class UsageReader:
    """Sums what callers have spent. Needs a worker: the latest entries are in the ledgers' workflows."""

    def __init__(self, client: Client, store: UsageStore, policy: PolicySource) -> None:
        self._client = client
        self._store = store
        self._policy = policy

    async def report(self, principal: Principal, query: UsageQuery) -> UsageReport:
        """Return the report for `query`. Raises `BadRequest`, `UsageForbidden`, `TemporalUnavailable`."""
        last = query.last_day or datetime.now(UTC).date()
        first = query.first_day or last.replace(day=1)
        if not 0 <= (last - first).days < MAX_DAYS:
            raise BadRequest(f"`from` must not be after `to`, nor more than {MAX_DAYS} days before it.")
        whose = query.caller or principal.caller.id
        if whose != principal.caller.id and "admin" not in principal.scopes:
            raise UsageForbidden("Without the scope `admin` you see your own usage only: leave `caller` out.")
        callers = await self._all_callers() if whose == ALL_CALLERS else [whose]
        sums: defaultdict[tuple[object, ...], _Sum] = defaultdict(_Sum)
        overview: spending.LedgerOverview | None = None
        damaged = 0
        caps_of_all: list[CallerCaps] = []
        for start in range(0, len(callers), _LEDGERS_AT_ONCE):
            batch = callers[start : start + _LEDGERS_AT_ONCE]
            read = await asyncio.gather(*(self._entries(one, first, last) for one in batch))
            for caller_id, (found, records, lost) in zip(batch, read, strict=True):
                overview = found
                caps_of_all.append(CallerCaps(caller=caller_id, caps=self._caps(caller_id, found)))
                damaged += lost
                _add(sums, query, (record for record in records if first <= spending.day_of(record.at) <= last))
        caps = () if whose == ALL_CALLERS else self._caps(whose, overview)
        rows = [_row(query.by, key, group) for key, group in sums.items()]
        by_day = query.by == ("day",)
        rows.sort(key=lambda row: (row.day,) if by_day else (-row.cost_usd, row.model_dump_json()))
        total_usd = float(sum((group.usd for group in sums.values()), Decimal(0)))
        return UsageReport(
            first_day=first,
            last_day=last,
            total_usd=total_usd,
            rows=tuple(rows),
            caps=caps,
            callers=tuple(caps_of_all) if whose == ALL_CALLERS else (),
            damaged=damaged,
        )

    async def _entries(
        self, caller_id: str, first: date, last: date
    ) -> tuple[spending.LedgerOverview | None, Iterable[spending.UsageRecord], int]:
        """Return a caller's entries, each once, and the number of unreadable ones.

        The ledger is read first: entries that it stores during the read are in the store.
        """
        overview = await self._overview(caller_id)
        try:
            stored = await self._store.read(caller_id, first, last)
        except StoreUnavailable as error:
            raise OutputStoreUnavailable(str(error)) from error
        latest = overview.records if overview is not None else ()
        return overview, {one.spend.entry_id: one for one in (*stored.records, *latest)}.values(), stored.damaged

    async def _overview(self, caller_id: str) -> spending.LedgerOverview | None:
        """Return the caller's ledger; None while it has spent nothing."""
        handle = self._client.get_workflow_handle(spending.ledger_id(caller_id))
        with temporal_errors():
            try:
                return await answer_of_worker(
                    handle.query(spending.OVERVIEW_QUERY, result_type=spending.LedgerOverview)
                )
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return None
                raise

    async def _all_callers(self) -> list[str]:
        query = f"WorkflowType = '{spending.LEDGER_WORKFLOW}' AND ExecutionStatus = 'Running'"
        with temporal_errors():
            return sorted(
                {one.id.removeprefix(spending.LEDGER_PREFIX) async for one in self._client.list_workflows(query)}
            )

    def _caps(self, caller_id: str, overview: spending.LedgerOverview | None) -> tuple[CapUsage, ...]:
        caps, today = self._policy.of(caller_id).spending, datetime.now(UTC).date()
        day, month = (overview.day.spent_usd, overview.month.spent_usd) if overview else (Decimal(0), Decimal(0))
        reserved = overview.reserved_usd if overview else Decimal(0)
        return (
            _cap("day", caps.per_day_usd, day, reserved, spending.midnight(today + timedelta(days=1))),
            _cap("month", caps.per_month_usd, month, reserved, spending.midnight(spending.next_month(today))),
        )


def as_csv(report: UsageReport, by: tuple[Grouping, ...], *, safe: bool = True) -> str:
    """Return the rows of a report as CSV (RFC 4180) with a header line; with `safe`, escaped by `safe_cell`."""
    text = io.StringIO()
    columns = [*by, "runs", "model_calls", "cost_usd"]
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    for row in report.rows:
        cells = {**row.model_dump(), "cost_usd": f"{spending.exact_usd(row.cost_usd):f}"}
        writer.writerow({name: safe_cell(value) for name, value in cells.items()} if safe else cells)
    return text.getvalue()


def _add(sums: dict[tuple[object, ...], _Sum], query: UsageQuery, records: Iterable[spending.UsageRecord]) -> None:
    for record in records:
        spend = record.spend
        wanted = ((query.tool, spend.tool), (query.actor, spend.actor), (query.session_id, spend.session_id))
        if any(asked is not None and asked != found for asked, found in wanted):
            continue
        group = sums[tuple(_value(record, name) for name in query.by)]
        group.runs += spend.kind == "run"
        group.model_calls += spend.kind == "model"
        group.usd += record.cost_usd


def _value(record: spending.UsageRecord, grouping: Grouping) -> object:
    match grouping:
        case "caller":
            return record.caller_id
        case "day":
            return spending.day_of(record.at)
        case _:
            return getattr(record.spend, "session_id" if grouping == "session" else grouping)


def _row(by: tuple[Grouping, ...], key: tuple[object, ...], group: _Sum) -> UsageRow:
    named = dict(zip(by, key, strict=True))
    counted = {"runs": group.runs, "model_calls": group.model_calls, "cost_usd": float(group.usd)}
    return UsageRow.model_validate({**named, **counted})


def _cap(name: str, cap: float | None, spent: Decimal, reserved: Decimal, resets_at: datetime) -> CapUsage:
    left = None if cap is None else max(spending.exact_usd(cap) - spent - reserved, Decimal(0))
    usd = {"cap_usd": cap, "spent_usd": spent, "reserved_usd": reserved, "left_usd": left}
    return CapUsage.model_validate({"cap": name, "resets_at": resets_at, **usd})
