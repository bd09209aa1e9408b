"""Stop conditions of runs: met as soon as one holds, on whichever worker."""

import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from apify_client import ApifyClientAsync
from temporalio.testing import ActivityEnvironment

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import OutputError
from outlast.activities.outputs import dataset_source
from outlast.activities.runs import stop_condition
from outlast.activities.runs.contracts import RunState, Until, UntilMet, UntilProgress
from outlast.activities.runs.stop_condition import StopCondition

ODD = "odd"
"""An expression: every second row matches it, beginning with the one that has number 1."""


class Dataset:
    """A dataset of the platform: it counts all of its rows, and shows those so far."""

    def __init__(self, rows: int = 0) -> None:
        self.shown = rows
        self.counted: int | None = None
        self.failure: Exception | None = None
        self.offsets: list[int] = []

    def dataset(self, _: str) -> "Dataset":
        return self

    async def get(self) -> Any:
        self._fail()
        return SimpleNamespace(item_count=self.shown if self.counted is None else self.counted)

    @asynccontextmanager
    async def stream_items(self, *, offset: int, limit: int, **_: object) -> AsyncIterator[Any]:
        self._fail()
        self.offsets.append(offset)
        rows = range(offset, min(self.shown, offset + limit))
        body = b"".join(json.dumps({"number": number, "odd": number % 2 == 1}).encode() + b"\n" for number in rows)

        async def pieces() -> AsyncIterator[bytes]:
            yield body

        yield SimpleNamespace(headers={"x-apify-pagination-total": str(self.shown)}, aiter_bytes=pieces)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


def run(cost_usd: float | None = None) -> RunState:
    return RunState(
        run_id="r", actor_id="a", status="RUNNING", dataset_id="d", key_value_store_id="k", usage_total_usd=cost_usd
    )


Judge = Callable[..., StopCondition]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A judge of rows in a dataset, as the attempt of an activity has it that begins after `before`."""
    monkeypatch.setattr(stop_condition, "_SETTLE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(stop_condition.activity, "logger", SimpleNamespace(info=lambda *_: None))

    def made(dataset: Dataset, before: UntilProgress | None = None, **until: Any) -> StopCondition:
        environment = ActivityEnvironment()
        details = [run().model_dump(), before.model_dump()] if before is not None else []
        environment.info = dataclasses.replace(environment.info, heartbeat_details=details)
        places = stop_condition.asyncio.Semaphore(1)
        return environment.run(lambda: StopCondition(cast(ApifyClientAsync, dataset), Until(**until), places))

    return made


async def test_the_last_row_that_is_wanted_is_enough(judge: Judge) -> None:
    dataset = Dataset(4)
    judging = judge(dataset, rows=5)
    assert await judging.judge(run()) is None
    dataset.shown = 5
    assert await judging.judge(run()) == UntilMet(condition="rows", rows=5)


async def test_as_much_money_as_was_given_is_enough(judge: Judge) -> None:
    judging = judge(Dataset(), usd="0.25")
    for cost in (None, 0.0, 0.2499):
        assert await judging.judge(run(cost)) is None
    assert await judging.judge(run(0.25)) == UntilMet(condition="usd", usd=0.25)


async def test_whichever_condition_is_met_first_ends_the_run_and_money_is_looked_at_before_rows(judge: Judge) -> None:
    dataset = Dataset(1)
    assert await judge(dataset, rows=1, usd=1).judge(run(0.5)) == UntilMet(condition="rows", rows=1)
    assert await judge(dataset, rows=2, usd=1).judge(run(1.0)) == UntilMet(condition="usd", usd=1.0)
    assert await judge(dataset, rows=1, usd=1).judge(run(1.0)) == UntilMet(condition="usd", usd=1.0)
    assert await judge(dataset, expression=ODD, rows=1).judge(run()) == UntilMet(condition="rows", rows=1)


async def test_what_was_enough_once_stays_so(judge: Judge) -> None:
    dataset = Dataset(5)
    judging = judge(dataset, rows=5)
    met = await judging.judge(run())
    dataset.shown = 9
    assert await judging.judge(run(9.0)) == met != None  # noqa: E711 (it was met at all)
    assert judging.met == met


async def test_rows_that_match_are_counted_across_looks_and_each_row_once(judge: Judge) -> None:
    dataset = Dataset(4)
    judging = judge(dataset, expression=ODD, matches=3)
    assert await judging.judge(run()) is None
    assert judging.progress == UntilProgress(offset=4, matches=2)
    assert await judging.judge(run()) is None
    dataset.shown = 6
    assert await judging.judge(run()) == UntilMet(condition="expression", rows=6, matches=3)
    assert dataset.offsets == [0, 4, 4]


async def test_another_attempt_goes_on_where_the_one_before_has_told_that_it_was(judge: Judge) -> None:
    dataset = Dataset(6)
    judging = judge(dataset, UntilProgress(offset=4, matches=2), expression=ODD, matches=3)
    assert await judging.judge(run()) == UntilMet(condition="expression", rows=6, matches=3)
    assert dataset.offsets == [4]
    # Rows that were read before count, also while no replica shows them.
    assert await judge(Dataset(0), UntilProgress(offset=5), rows=5).judge(run()) == UntilMet(condition="rows", rows=5)


async def test_rows_are_read_until_enough_of_them_match(judge: Judge) -> None:
    dataset = Dataset(3_000)
    met = await judge(dataset, expression=ODD, matches=2).judge(run())
    assert (met, dataset.offsets) == (UntilMet(condition="expression", rows=3_000, matches=500), [0])


async def test_one_look_at_a_run_judges_a_part_of_many_rows(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look has a process of its own, whose CPU time is limited, and the run may cost too much in between."""
    monkeypatch.setattr(stop_condition, "_BATCHES_PER_ROUND", 2)
    monkeypatch.setattr(dataset_source, "_MOST_PAGE_ROWS", 1_000)
    dataset = Dataset(4_500)
    judging = judge(dataset, expression=ODD, matches=2_250)
    for offset in (2_000, 4_000):
        assert await judging.judge(run()) is None
        assert judging.progress == UntilProgress(offset=offset, matches=offset // 2)
    assert await judging.judge(run()) == UntilMet(condition="expression", rows=4_500, matches=2_250)


async def test_rows_that_are_too_large_for_an_expression_do_not_match(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_condition, "MAX_JSON_BYTES", 50)
    judging = judge(Dataset(4), expression=ODD)
    assert await judging.judge(run()) is None
    assert judging.progress == UntilProgress(offset=4, matches=0)


async def test_a_run_that_has_ended_is_judged_until_its_rows_are_shown(judge: Judge) -> None:
    dataset = Dataset(0)
    judging = judge(dataset, rows=3)
    looks = 0
    look = judging.judge

    async def counting(state: RunState) -> UntilMet | None:
        nonlocal looks
        looks += 1
        dataset.shown = looks
        return await look(state)

    judging.judge = counting
    assert await judging.judge_end(run()) == UntilMet(condition="rows", rows=3)
    assert looks == 3


async def test_a_run_that_has_ended_with_too_little_is_not_judged_for_ever(judge: Judge) -> None:
    assert await judge(Dataset(2), rows=3).judge_end(run()) is None


@pytest.mark.parametrize(
    "passing",
    [ConnectionError("reset"), ToolFailure.of(ErrorCategory.NOT_FOUND, "There is no dataset yet.")],
    ids=["platform away", "not readable yet"],
)
async def test_rows_that_cannot_be_read_now_count_later(judge: Judge, passing: Exception) -> None:
    dataset = Dataset(5)
    dataset.failure = passing
    judging = judge(dataset, rows=5)
    assert await judging.judge(run()) is None
    dataset.failure = None
    assert await judging.judge(run()) == UntilMet(condition="rows", rows=5)


async def test_a_refusal_that_stays_ends_the_judging(judge: Judge) -> None:
    dataset = Dataset(5)
    dataset.failure = ToolFailure.of(ErrorCategory.AUTHENTICATION, "The token was revoked.")
    with pytest.raises(ToolFailure, match="revoked"):
        await judge(dataset, rows=5).judge(run())


async def test_an_expression_is_given_up_after_three_failures_in_a_row(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails: list[bool] = []

    class Evaluator:
        async def evaluate(self, _: bytes) -> dict[str, Any]:
            if fails.pop(0):
                raise OutputError("bad_selection", "It takes too much time.")
            return {"found": []}

    @asynccontextmanager
    async def expressions(_: object) -> AsyncIterator[Evaluator]:
        yield Evaluator()

    monkeypatch.setattr(stop_condition, "expressions", expressions)
    dataset = Dataset()
    judging = judge(dataset, expression=ODD)
    fails[:] = [True, True, False, True, True, True]
    for _ in range(5):
        dataset.shown += 1
        assert await judging.judge(run()) is None
    with pytest.raises(ToolFailure, match=r"options\.until\.expression: It takes too much time"):
        await judging.judge(run())
