"""When the rows of a run have come to their end: the platform shows them late, and fails in between."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from apify_client import ApifyClientAsync

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.outputs.dataset_source import GrowingDataset
from outlast.activities.runs.contracts import RunState
from outlast.api.errors import ApiError, PlatformUnavailable, RowsGone, RowsRefused
from outlast.api.tasks import live_rows
from outlast.api.tasks.live_rows import DatasetRows, RunOfTask, TaskRuns

GONE = ToolFailure.of(ErrorCategory.NOT_FOUND, "There is no dataset.")
AWAY = ConnectionError("reset")
LATER = timedelta(hours=1)


class Story:
    """A run and its dataset, of which something changes at moments that the test names, in seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.began = self.now
        self.shown = 0
        self.counted: int | None = None
        self.failure: Exception | None = None
        self.failure_of_count: Exception | None = None
        self.is_over = False
        self.status = "RUNNING"
        self.finished_at: datetime | None = None
        self.started_at = datetime.now(UTC)
        self.changes: list[tuple[float, Callable[[], None]]] = []

    def at(self, second: float, **changes: Any) -> None:
        """These change then."""
        self.changes.append((self.began + second, lambda: self.__dict__.update(changes)))

    @property
    def all(self) -> list[RunState]:
        times = {"started_at": self.started_at, "finished_at": self.finished_at}
        ids = {"run_id": "r", "actor_id": "a", "dataset_id": "d", "key_value_store_id": "k"}
        return [RunState.model_validate({**ids, **times, "status": self.status})]

    async def change(self, *, within: float) -> None:
        self.now += within
        while self.changes and self.changes[0][0] <= self.now:
            self.changes.pop(0)[1]()

    def dataset(self, _: str) -> "Story":
        return self

    async def get(self) -> Any:
        failure = self.failure or self.failure_of_count
        if failure is not None:
            raise failure
        return SimpleNamespace(item_count=self.shown if self.counted is None else self.counted)

    @asynccontextmanager
    async def stream_items(self, *, offset: int, limit: int, **_: object) -> AsyncIterator[Any]:
        if self.failure is not None:
            raise self.failure
        body = b"".join(json.dumps(row).encode() + b"\n" for row in range(offset, min(self.shown, offset + limit)))

        async def pieces() -> AsyncIterator[bytes]:
            yield body

        yield SimpleNamespace(headers={"x-apify-pagination-total": str(self.shown)}, aiter_bytes=pieces)

    async def told(self, *, offset: int = 0) -> tuple[list[int], float]:
        """The rows that come, and after how many seconds no more do."""
        dataset = GrowingDataset(cast(ApifyClientAsync, self), "d", offset=offset)
        rows = DatasetRows(RunOfTask(cast(TaskRuns, self), 0), dataset, Room())
        found: list[int] = []
        async for batch in rows.to_the_end():
            found += [json.loads(line) for line in batch.lines.splitlines()]
            assert len(found) <= self.shown
        return found, self.now - self.began


class Room:
    is_scarce = False

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncIterator[Any]:
        assert size_bytes > 0
        yield SimpleNamespace(holds=lambda _: None)


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    told = Story()
    monkeypatch.setattr(live_rows, "time", SimpleNamespace(monotonic=lambda: told.now))
    return told


async def test_rows_that_a_replica_shows_soon_after_the_end_belong_to_it(story: Story) -> None:
    story.shown = 2
    story.at(20, is_over=True, status="SUCCEEDED")
    story.at(22, shown=3)
    rows, seconds = await story.told()
    assert rows == [0, 1, 2]
    assert 24 < seconds < 40


async def test_silence_before_the_end_is_not_silence_after_it(story: Story) -> None:
    story.shown = 1
    story.at(100, is_over=True, status="SUCCEEDED")
    assert 103 <= (await story.told())[1] < 115


async def test_a_run_that_ended_long_ago_needs_one_look(story: Story) -> None:
    story.shown, story.is_over, story.status = 3, True, "SUCCEEDED"
    story.finished_at = datetime.now(UTC) - LATER
    assert await story.told(offset=1) == ([1, 2], 0)


async def test_rows_that_were_counted_are_waited_for(story: Story) -> None:
    story.shown, story.counted, story.is_over, story.status = 2, 3, True, "SUCCEEDED"
    story.at(30, shown=3)
    rows, seconds = await story.told()
    assert rows == [0, 1, 2]
    assert 30 <= seconds < 40


async def test_rows_that_were_counted_and_never_come_are_an_error(story: Story) -> None:
    story.shown, story.counted, story.is_over, story.status = 2, 3, True, "SUCCEEDED"
    with pytest.raises(RowsRefused, match=r"has 3 rows, and the platform shows 2"):
        await story.told()
    assert 60 < story.now - story.began < 80


@pytest.mark.timeout(60)
async def test_rows_end_although_the_platform_never_counts_them(story: Story) -> None:
    """The run of a task that was terminated: nothing says when it has ended."""
    story.shown, story.is_over, story.failure_of_count = 2, True, AWAY
    rows, seconds = await story.told()
    assert rows == [0, 1]
    assert 60 < seconds < 70


async def test_a_count_that_fails_once_is_repeated(story: Story) -> None:
    story.shown, story.is_over, story.failure_of_count = 2, True, AWAY
    story.at(10, failure_of_count=None, counted=3)
    story.at(20, shown=3)
    rows, seconds = await story.told()
    assert rows == [0, 1, 2]
    assert 20 <= seconds < 30


async def test_a_run_whose_end_falls_into_an_outage_ends_with_its_rows(story: Story) -> None:
    story.shown, story.started_at = 1, datetime.now(UTC) - LATER
    story.at(10, failure=AWAY)
    story.at(20, is_over=True, status="SUCCEEDED", shown=2, finished_at=datetime.now(UTC) - LATER)
    story.at(100, failure=None)
    rows, seconds = await story.told()
    assert rows == [0, 1]
    assert seconds >= 100


async def test_an_outage_is_borne_for_some_minutes(story: Story) -> None:
    story.failure = AWAY
    with pytest.raises(PlatformUnavailable):
        await story.told()
    assert 300 < story.now - story.began < 320


@pytest.mark.parametrize(
    ("is_new", "is_over", "least", "most"),
    [(True, False, 60, 70), (True, True, 3, 5), (False, False, 0, 0)],
    ids=["new run", "new run that is over", "old run"],
)
async def test_a_dataset_that_is_not_there_is_gone_but_for_a_new_run(
    story: Story, *, is_new: bool, is_over: bool, least: float, most: float
) -> None:
    story.failure, story.is_over = GONE, is_over
    story.started_at -= timedelta() if is_new else LATER
    with pytest.raises(RowsGone):
        await story.told()
    assert least <= story.now - story.began <= most


async def test_a_dataset_that_appears_late_loses_no_row(story: Story) -> None:
    story.failure, story.shown = GONE, 2
    story.at(30, failure=None)
    story.at(40, is_over=True)
    assert (await story.told())[0] == [0, 1]


async def test_what_stays_refused_ends_the_rows_at_once(story: Story) -> None:
    story.failure = ToolFailure.of(ErrorCategory.AUTHENTICATION, "The token was revoked.")
    with pytest.raises(ApiError, match="revoked"):
        await story.told()
    assert story.now == story.began
