"""Runs as their activities follow, stop and abort them, and what of it is booked. The platform is a list of answers."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from outlast.activities import apify
from outlast.activities.contracts import Caller
from outlast.activities.failures.exceptions import SealError
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs import activities, resurrection, stop_condition
from outlast.activities.runs.activities import RunActivities
from outlast.activities.runs.contracts import (
    AbortRunInput,
    Budget,
    Production,
    ResurrectRunInput,
    RunSpec,
    RunState,
    StartRunInput,
    Until,
    WaitRunInput,
)
from outlast.activities.runs.resurrection import RunResurrections
from outlast.activities.spending.contracts import Reserved, Settlement, Spend, SpendingCaps
from outlast.activities.spending.ledger import Ledgers

ANN = Caller(id="key:ann")
SPEND = Spend(entry_id="e")
CAPS = SpendingCaps(per_day_usd=5)
NOW = datetime(2026, 1, 1, tzinfo=UTC).isoformat()


class Platform:
    """Answers each look at a run with the next of its states, and each look at a dataset with the next count."""

    def __init__(self, *states: tuple[str, float], counts: Sequence[int] = (0,)) -> None:
        self.states = list(states)
        self.counts = list(counts)
        self.aborts: list[bool] = []
        self.is_deaf = False
        self.failure: Exception | None = None
        self.http_client = self

    def client(self, _: Caller) -> "Platform":
        return self

    account_client = client

    def url_of(self, _: str, run_id: str) -> str:
        return run_id

    async def call(self, *, url: str, **_: object) -> Any:
        status, cost_usd = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        names = ("id", "actId", "userId", "buildId", "defaultDatasetId", "defaultKeyValueStoreId")
        names = (*names, "defaultRequestQueueId")
        times = {"startedAt": NOW, "finishedAt": NOW if status in ("ABORTED", "SUCCEEDED") else None}
        run = {**dict.fromkeys(names, url), **times, "status": status, "usageTotalUsd": cost_usd}
        stats = {"restartCount": 0, "resurrectCount": 0, "computeUnits": 0}
        options = {"build": "latest", "timeoutSecs": 0, "memoryMbytes": 128, "diskMbytes": 128}
        more = {"meta": {"origin": "API"}, "stats": stats, "options": options, "containerUrl": "https://run.test"}
        more |= {"buildNumber": "0.0.1", "exitCode": None, "generalAccess": "RESTRICTED"}
        return SimpleNamespace(json=lambda: {"data": {**run, **more}})

    def run(self, _: str) -> "Platform":
        return self

    async def abort(self, *, gracefully: bool) -> None:
        self.aborts.append(gracefully)
        if self.is_deaf:
            self.is_deaf = False
            raise ConnectionError("reset")

    def dataset(self, _: str) -> "Platform":
        return self

    async def get(self) -> Any:
        return SimpleNamespace(item_count=self.counts.pop(0) if len(self.counts) > 1 else self.counts[0])

    async def input_text(self, *_: object, **__: object) -> bytes:
        assert self.failure is not None
        raise self.failure


class Books:
    """What a ledger was told."""

    def __init__(self) -> None:
        self.released: list[str] = []
        self.settled: list[tuple[str, Decimal, str | None]] = []

    async def reserve(self, _: object) -> Reserved:
        return Reserved(granted_usd=Decimal(1), basis="caps")

    async def release(self, caller: Caller, entry_id: str) -> None:
        assert caller == ANN
        self.released.append(entry_id)

    async def settle(self, caller: Caller, settlement: Settlement) -> None:
        assert caller == ANN
        self.settled.append((settlement.spend.entry_id, settlement.cost_usd, settlement.run_id))


@pytest.fixture
def books() -> Books:
    return Books()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(stop_condition, "_SETTLE_PAUSE_SECONDS", 0.0)
    return iter(())


def of(platform: Platform, books: Books) -> RunActivities:
    return RunActivities(cast(ApifyPlatform, platform), cast(Ledgers, books))


async def followed(platform: Platform, books: Books, until: Until, budget: Budget | None = None) -> Any:
    request = WaitRunInput(caller=ANN, run_id="r", until=until, budget=budget or Budget(), spend=SPEND)
    return await ActivityEnvironment().run(of(platform, books).wait_for_run, request)


async def test_a_run_that_has_produced_enough_is_stopped_once_and_followed_to_its_end(books: Books) -> None:
    platform = Platform(("RUNNING", 0.1), ("RUNNING", 0.3), ("ABORTING", 0.3), ("ABORTING", 0.3), ("ABORTED", 0.35))
    ended = await followed(platform, books, Until(usd=Decimal("0.25")))
    assert (ended.status, ended.until_met.condition, ended.until_met.usd) == ("ABORTED", "usd", 0.3)
    assert platform.aborts == [True]
    assert books.settled == [("e", Decimal("0.35"), "r")]


async def test_a_run_that_did_not_hear_that_it_is_to_stop_is_asked_again(books: Books) -> None:
    platform = Platform(("RUNNING", 0.3), ("RUNNING", 0.3), ("ABORTED", 0.3))
    platform.is_deaf = True
    assert (await followed(platform, books, Until(usd=Decimal("0.25")))).until_met is not None
    assert platform.aborts == [True, True]


async def test_a_run_that_has_produced_enough_exceeds_no_budget_on_its_way_to_its_end(books: Books) -> None:
    platform = Platform(("RUNNING", 0.3), ("ABORTING", 0.6), ("ABORTED", 0.6))
    budget = Budget(max_total_charge_usd=Decimal("0.5"))
    ended = await followed(platform, books, Until(usd=Decimal("0.25")), budget)
    assert (ended.status, ended.over_budget) == ("ABORTED", None)


async def test_a_run_that_ended_by_itself_was_not_stopped(books: Books) -> None:
    ended = await followed(Platform(("SUCCEEDED", 0.3)), books, Until(usd=Decimal("0.25")))
    assert (ended.status, ended.until_met) == ("SUCCEEDED", None)


async def test_an_aborted_run_is_judged_until_all_of_its_rows_are_shown(books: Books) -> None:
    """The worker that has stopped it was lost, and the first replica lags."""
    platform = Platform(("ABORTED", 0.3), counts=(2, 3))
    ended = await followed(platform, books, Until(rows=3))
    assert (ended.until_met.condition, ended.until_met.rows, platform.aborts) == ("rows", 3, [])


async def test_runs_of_an_aborted_operation_are_booked_each_once(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        def __init__(self, *_: object, **__: object) -> None: ...

        async def find(self, **_: object) -> list[str]:
            return ["r1", "r2"]

    monkeypatch.setattr(activities, "StartedRuns", Found)
    request = AbortRunInput(caller=ANN, actor="u/a", operation_id="o", spend=SPEND)
    await ActivityEnvironment().run(of(Platform(("ABORTED", 0.2)), books).abort_run, request)
    assert books.settled == [("e", Decimal("0.2"), "r1"), ("e/r2", Decimal("0.2"), "r2")]
    assert books.released == []


@pytest.mark.parametrize(("spend", "released"), [(SPEND, ["e"]), (None, [])])
async def test_what_was_reserved_for_a_run_that_never_was_is_given_back(
    books: Books, spend: Spend | None, released: list[str]
) -> None:
    request = AbortRunInput(caller=ANN, operation_id="o", spend=spend)
    result = await ActivityEnvironment().run(of(Platform(("ABORTED", 0.2)), books).abort_run, request)
    assert (result.runs, books.released, books.settled) == ((), released, [])


@pytest.mark.parametrize(
    ("failure", "caps", "released"),
    [
        (SealError("no key"), CAPS, ["e"]),
        (SealError("no key"), None, []),
        # The run may have started.
        (ConnectionError("reset"), CAPS, []),
    ],
)
async def test_an_attempt_that_started_nothing_for_sure_gives_back_what_it_has_reserved(
    books: Books, failure: Exception, caps: SpendingCaps | None, released: list[str]
) -> None:
    platform = Platform(("RUNNING", 0.0))
    platform.failure = failure
    request = StartRunInput(
        caller=ANN,
        spec=RunSpec(actor="u/a", input={}, budget=Budget(max_total_charge_usd=Decimal(1))),
        operation_id="o",
        spend=SPEND,
        caps=caps,
    )
    with pytest.raises(ApplicationError):
        await ActivityEnvironment().run(of(platform, books).start_run, request)
    assert books.released == released


class SlowPlatform(Platform):
    """Has a request to start a run, and answers it when it may."""

    def __init__(self, *states: tuple[str, float]) -> None:
        super().__init__(*states)
        self.has_request, self.may_answer = asyncio.Event(), asyncio.Event()

    def actor(self, _: str) -> "SlowPlatform":
        return self

    def run(self, _: str) -> "SlowPlatform":
        return self

    async def input_text(self, *_: object, **__: object) -> bytes:
        return b"{}"

    def open_payment(self, *_: object) -> None:
        return None

    owner_mark = open_payment

    async def start(self, **_: object) -> apify.Run:
        self.has_request.set()
        await self.may_answer.wait()
        return apify.Run.model_validate((await self.call(url="r")).json()["data"])

    resurrect = start


@pytest.mark.parametrize("kind", ["start", "resurrect"])
async def test_the_answer_to_a_request_for_a_run_is_read_also_when_the_call_was_cancelled(
    books: Books, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The platform has the request, so the run has to be known: it is to be aborted."""
    environment = ActivityEnvironment()
    if kind == "start":
        platform = SlowPlatform(("RUNNING", 0.0))
        spec = RunSpec(actor="u/a", input={})
        start = StartRunInput(caller=ANN, spec=spec, operation_id="o")
        running = asyncio.ensure_future(environment.run(of(platform, books).start_run, start))
    else:

        async def production_of(*_: object) -> Production:
            return Production(rows=1)

        monkeypatch.setattr(resurrection, "production_of", production_of)
        platform = SlowPlatform(("ABORTED", 0.1), ("RUNNING", 0.1))
        ended = RunState(
            run_id="r",
            actor_id="r",
            dataset_id="r",
            key_value_store_id="r",
            status="ABORTED",
            finished_at=datetime.fromisoformat(NOW),
        )
        again = ResurrectRunInput(caller=ANN, run_id="r", ended=ended)
        resurrections = RunResurrections(cast(ApifyPlatform, platform), cast(Ledgers, books))
        running = asyncio.ensure_future(environment.run(resurrections.resurrect_run, again))
    await platform.has_request.wait()
    environment.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done()
    platform.may_answer.set()
    result = await running
    run = result if isinstance(result, RunState) else result.run
    assert (run.run_id, run.status) == ("r", "RUNNING")
