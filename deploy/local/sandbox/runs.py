"""Runs: their table and their representation in the API."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields

import orjson

from outlast.deploy.local.sandbox.database import DAMAGED, Database, Page, Value, document_of
from outlast.deploy.local.sandbox.formats import JsonObject, iso, iso_or_none, not_found, now

FINAL_STATUSES = frozenset({"SUCCEEDED", "FAILED", "ABORTED", "TIMED-OUT"})
OPEN_STATUSES = ("READY", "RUNNING", "TIMING-OUT", "ABORTING")
_OF_TASK = "CASE WHEN json_valid(CAST(document AS TEXT)) THEN json_extract(CAST(document AS TEXT), '$.task_id') END = ?"
_OPERATION = re.compile(r"outlast-op/([\w.:-]+)")
_LISTED = (
    "id", "actId", "userId", "actorTaskId", "status", "startedAt", "finishedAt", "buildId", "buildNumber", "meta",
    "usageTotalUsd", "defaultKeyValueStoreId", "defaultDatasetId", "defaultRequestQueueId",
)  # fmt: skip


@dataclass(slots=True)
class Run:
    """Run of an Actor. Times are seconds since the epoch; a fault can set `listed_at` and `shown_at` after the start.

    The attempts of a run are its start and each resurrection.
    """

    id: str
    user_id: str
    actor_id: str
    actor_name: str
    build_id: str
    build_number: str
    build_tag: str
    memory_mbytes: int
    timeout_seconds: int
    dataset_id: str
    store_id: str
    queue_id: str
    started_at: float
    origin: str
    status: str = "READY"
    max_items: int | None = None
    max_total_charge_usd: float | None = None
    finished_at: float | None = None
    status_message: str | None = None
    is_status_message_terminal: bool = False
    exit_code: int | None = None
    user_agent: str | None = None
    client_ip: str | None = None
    input_bytes: int = 0
    memory_max_bytes: int = 0
    memory_now_bytes: int = 0
    memory_sum_bytes: int = 0
    memory_samples: int = 0
    migrations: int = 0
    resurrections: int = 0
    earlier_seconds: float = 0.0
    earlier_compute_units: float = 0.0
    resurrected_at: float | None = None
    listed_at: float = 0.0
    shown_at: float = 0.0
    abort_requests: int = 0
    general_access: str | None = None
    process_id: int | None = None
    process_started_at: float | None = None
    charged: dict[str, int] = field(default_factory=dict[str, int])
    charged_usd: float = 0.0
    prices: dict[str, float] = field(default_factory=dict[str, float])
    task_id: str | None = None
    schedule_id: str | None = None
    scheduled_at: float | None = None
    aliased: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Ids of further datasets and key-value stores, by kind and alias."""

    @property
    def storage_ids(self) -> dict[str, dict[str, str]]:
        """Ids of all storages by kind and alias."""
        defaults = {"datasets": self.dataset_id, "keyValueStores": self.store_id, "requestQueues": self.queue_id}
        return {kind: {"default": own, **self.aliased.get(kind, {})} for kind, own in defaults.items()}

    @property
    def is_final(self) -> bool:
        """True if the run has ended."""
        return self.status in FINAL_STATUSES

    @property
    def operation(self) -> str | None:
        """Id of the operation that started the run: `outlast-op/ID` in the User-Agent."""
        found = _OPERATION.search(self.user_agent or "")
        return found.group(1) if found else None

    @property
    def attempt_began_at(self) -> float:
        """Start of the last attempt."""
        return self.started_at if self.resurrected_at is None else self.resurrected_at

    def duration_seconds(self) -> float:
        """Return the run time so far in seconds, without the time between two attempts."""
        return self.earlier_seconds + self._attempt_seconds()

    def compute_units(self) -> float:
        """Return the gigabyte-hours of memory used so far."""
        return self.earlier_compute_units + self.memory_mbytes / 1024 * self._attempt_seconds() / 3600

    def begin_another_attempt(self) -> None:
        """Make an ended run READY again, keeping the usage of its earlier attempts."""
        self.earlier_compute_units, self.earlier_seconds = self.compute_units(), self.duration_seconds()
        self.status, self.finished_at, self.exit_code, self.resurrected_at = "READY", None, None, now()
        self.status_message, self.is_status_message_terminal = None, False
        self.resurrections += 1

    def _attempt_seconds(self) -> float:
        return max(0.0, (self.finished_at or now()) - self.attempt_began_at)


_FIELDS = tuple(description.name for description in fields(Run))


class Runs:
    """Table of all runs. Open runs are also kept in memory, so that a status message needs no query."""

    def __init__(self, database: Database, compute_unit_usd: float) -> None:
        self._database = database
        self._compute_unit_usd = compute_unit_usd
        self._open: dict[str, Run] = {}
        self._unsaved: set[str] = set()
        self._shown_still: dict[str, tuple[float, JsonObject]] = {}
        for row in database.rows("SELECT * FROM runs WHERE status IN ('READY', 'RUNNING', 'TIMING-OUT', 'ABORTING')"):
            run = _run(row)
            if run.finished_at is None:
                self._open[run.id] = run

    @property
    def open(self) -> list[Run]:
        """Runs that have not ended."""
        return list(self._open.values())

    def save(self, run: Run) -> None:
        """Write a run; it is on disk when this returns."""
        self._unsaved.discard(run.id)
        if run.is_final:
            self._open.pop(run.id, None)
        else:
            self._open[run.id] = run
        self._database.run(
            "INSERT INTO runs (id, user_id, actor_id, status, started_at, listed_at, operation,"
            " abort_requested, deleted, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
            " ON CONFLICT (id) DO UPDATE SET status = excluded.status, abort_requested = excluded.abort_requested,"
            " started_at = excluded.started_at, document = excluded.document",
            (
                run.id, run.user_id, run.actor_id, run.status, run.started_at, run.listed_at,
                run.operation, run.abort_requests, orjson.dumps(run),
            ),
        )  # fmt: skip

    def save_soon(self, run: Run) -> None:
        """Mark a run for the next `flush`. Only for changes that may be lost in a crash."""
        self._unsaved.add(run.id)

    def flush(self) -> None:
        """Write the runs that `save_soon` marked."""
        if self._unsaved:
            with self._database.transaction():
                for run_id in list(self._unsaved):
                    run = self._open.get(run_id)
                    self._unsaved.discard(run_id)
                    if run is not None:
                        self.save(run)

    def get(self, run_id: str, user_id: str) -> Run:
        """Return a user's run. Raises `ApiError` 404, also for another user's run and for one not shown yet."""
        run = self.any(run_id)
        if run.user_id != user_id or run.shown_at > now():
            raise not_found("Actor run")
        return run

    def any(self, run_id: str) -> Run:
        """Return a run of any user. Raises `ApiError` 404."""
        if run_id in self._open:
            return self._open[run_id]
        row = self._database.row("SELECT * FROM runs WHERE id = ? AND deleted = 0", (run_id,))
        if row is None:
            raise not_found("Actor run")
        return _run(row)

    def show_still(self, run: Run, *, seconds: float) -> None:
        """Show the run in its current state for `seconds`, as a lagging replica does."""
        self._shown_still[run.id] = (now() + seconds, self.details(run))

    def details_shown_still(self, run: Run) -> JsonObject | None:
        """Return the run as a lagging replica shows it, None if there is none."""
        until, details = self._shown_still.get(run.id, (0.0, None))
        return details if until > now() else None

    def delete(self, run: Run) -> None:
        """Hide an ended run; the counters still include it."""
        self._database.run("UPDATE runs SET deleted = 1 WHERE id = ?", (run.id,))

    def list(self, filters: Mapping[str, Value], statuses: list[str], page: Page) -> tuple[list[Run], int]:
        """Return one page of runs by start time, and how many match.

        Filters: user_id, actor_id, task_id, after, before.
        """
        terms = {
            "user_id": "user_id = ?",
            "actor_id": "actor_id = ?",
            "task_id": _OF_TASK,
            "after": "started_at >= ?",
            "before": "started_at <= ?",
        }
        chosen = {terms[name]: value for name, value in filters.items() if value is not None}
        condition = " AND ".join(["deleted = 0", "listed_at <= ?", *chosen])
        parameters: list[Value] = [now(), *chosen.values()]
        if statuses:
            condition += f" AND status IN ({','.join('?' * len(statuses))})"
            parameters += statuses
        rows, total = self._database.page("runs", condition, parameters, page, order="started_at")
        return [self._open.get(row["id"]) or _run(row) for row in rows], total

    def count_of_task(self, task_id: str) -> int:
        """Return the number of runs of a saved task."""
        return self._database.number(f"SELECT count(*) FROM runs WHERE {_OF_TASK}", (task_id,))  # noqa: S608

    def details(self, run: Run) -> JsonObject:
        """Return the run object of the API."""
        cost = self.cost_usd(run)
        duration = run.duration_seconds()
        return {
            "id": run.id,
            "actId": run.actor_id,
            "userId": run.user_id,
            "actorTaskId": run.task_id,
            "startedAt": iso(run.started_at),
            "finishedAt": iso_or_none(run.finished_at),
            "status": run.status,
            "statusMessage": run.status_message,
            "isStatusMessageTerminal": run.is_status_message_terminal,
            "meta": self._meta(run),
            "stats": {
                "inputBodyLen": run.input_bytes,
                "migrationCount": run.migrations,
                "rebootCount": 0,
                "restartCount": 0,
                "resurrectCount": run.resurrections,
                "memAvgBytes": run.memory_sum_bytes / max(1, run.memory_samples),
                "memMaxBytes": run.memory_max_bytes,
                "memCurrentBytes": run.memory_now_bytes,
                "durationMillis": round(duration * 1000),
                "runTimeSecs": round(duration, 3),
                "metamorph": 0,
                "computeUnits": run.compute_units(),
            },
            "options": self._options(run),
            "buildId": run.build_id,
            "buildNumber": run.build_number,
            "exitCode": run.exit_code,
            "generalAccess": run.general_access or "FOLLOW_USER_SETTING",
            "defaultKeyValueStoreId": run.store_id,
            "defaultDatasetId": run.dataset_id,
            "defaultRequestQueueId": run.queue_id,
            "storageIds": run.storage_ids,
            "chargedEventCounts": run.charged,
            "pricingInfo": pricing_info(run.prices, run.started_at),
            "usage": {"ACTOR_COMPUTE_UNITS": run.compute_units()},
            "usageUsd": {"ACTOR_COMPUTE_UNITS": cost - run.charged_usd},
            "usageTotalUsd": cost,
            "platformUsageBillingModel": "USER",
        }

    def list_item(self, run: Run, *, with_user_agent: bool = True) -> JsonObject:
        """Return the shorter object of lists."""
        details = self.details(run)
        if not with_user_agent:
            details["meta"].pop("userAgent", None)
        return {name: details[name] for name in _LISTED}

    def cost_usd(self, run: Run) -> float:
        """Return the cost: compute units at the sandbox's price, and charged events."""
        return round(run.compute_units() * self._compute_unit_usd + run.charged_usd, 9)

    @staticmethod
    def _meta(run: Run) -> JsonObject:
        meta = {
            "origin": run.origin,
            "clientIp": run.client_ip,
            "userAgent": run.user_agent,
            "scheduleId": run.schedule_id,
            "scheduledAt": iso_or_none(run.scheduled_at),
        }
        return {key: value for key, value in meta.items() if value is not None}

    @staticmethod
    def _options(run: Run) -> JsonObject:
        options: JsonObject = {
            "build": run.build_tag,
            "timeoutSecs": run.timeout_seconds,
            "memoryMbytes": run.memory_mbytes,
            "diskMbytes": run.memory_mbytes * 2,
        }
        if run.max_items is not None:
            options["maxItems"] = run.max_items
        if run.max_total_charge_usd is not None:
            options["maxTotalChargeUsd"] = run.max_total_charge_usd
        return options


def pricing_info(prices: dict[str, float], since: float) -> JsonObject | None:
    """Return the pay-per-event prices of an Actor in the API's form, None for a free one."""
    if not prices:
        return None
    events = {
        name: {"eventTitle": name, "eventDescription": name, "eventPriceUsd": price} for name, price in prices.items()
    }
    return {
        "pricingModel": "PAY_PER_EVENT",
        "apifyMarginPercentage": 0.0,
        "createdAt": iso(since),
        "startedAt": iso(since),
        "pricingPerEvent": {"actorChargeEvents": events},
    }


def _run(row: sqlite3.Row) -> Run:
    # Another version may have written the data directory, with additional fields.
    document = document_of(row)
    if document is not None:
        with suppress(TypeError):
            return Run(**{name: document[name] for name in _FIELDS if name in document})
    run_id = str(row["id"])
    return Run(
        run_id,
        row["user_id"],
        row["actor_id"],
        actor_name="",
        build_id=run_id,
        dataset_id=run_id,
        store_id=run_id,
        queue_id=run_id,
        build_number="0.0.1",
        build_tag="latest",
        origin="API",
        memory_mbytes=0,
        timeout_seconds=0,
        started_at=row["started_at"],
        finished_at=row["started_at"],
        status="FAILED",
        status_message=DAMAGED,
        is_status_message_terminal=True,
    )
