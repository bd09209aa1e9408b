"""A stream of rows continues after any row that a client has, and gives each row the same id every time."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.contracts import RunState
from outlast.api.access.limits.caller_limits import UnreadBytes
from outlast.api.access.policy.contracts import Policy
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import BadRequest
from outlast.api.outputs import StoredOutputs
from outlast.api.rest.task_routes import _frames
from outlast.api.tasks import live_rows
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.live_rows import RowPlace, TaskRows
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.tool_calls import TaskStatus

ANN = Caller(id="key:ann")
LONG_AGO = datetime.now(UTC) - timedelta(hours=1)

Frame = tuple[str | None, Any]


def row_of(dataset: str, number: int) -> dict[str, str]:
    """A row, of which a response has many in several pieces."""
    return {"run": dataset, "text": f"{number}\r\n" + 300 * " "}


class Runs:
    """The runs of a task that has ended, with a dataset of so many rows each."""

    is_over = True

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = {f"d{number}": size for number, size in enumerate(sizes)}
        self.all = [
            RunState(
                run_id=f"r{number}",
                actor_id="a",
                dataset_id=dataset,
                key_value_store_id="k",
                status="SUCCEEDED",
                finished_at=LONG_AGO,
            )
            for number, dataset in enumerate(self.sizes)
        ]

    @asynccontextmanager
    async def followed(self, *_: object) -> AsyncIterator["Runs"]:
        yield self

    async def nth(self, index: int) -> RunState | None:
        return self.all[index] if index < len(self.all) else None

    def is_past(self, _: int) -> bool:
        return True

    async def describe(self, *_: object) -> Task:
        run = SimpleNamespace(**self.all[-1].model_dump())
        fields = {"id": "t", "tool": "x", "mode": "default", "executor": "run", "created_at": LONG_AGO}
        return Task.model_construct(**fields, status=TaskStatus.COMPLETED, finished_at=LONG_AGO, run=run)

    def client(self, _: Caller) -> "Runs":
        return self

    def dataset(self, dataset: str) -> Any:
        size = self.sizes[dataset]

        async def get() -> Any:
            return SimpleNamespace(item_count=size)

        @asynccontextmanager
        async def stream_items(*, offset: int, limit: int, **_: object) -> AsyncIterator[Any]:
            rows = [row_of(dataset, number) for number in range(offset, min(size, offset + limit))]

            async def pieces() -> AsyncIterator[bytes]:
                yield b"".join(json.dumps(row).encode() + b"\n" for row in rows)

            yield SimpleNamespace(headers={"x-apify-pagination-total": str(size)}, aiter_bytes=pieces)

        return SimpleNamespace(get=get, stream_items=stream_items)

    async def told(self, after: str | None = None, *, follow: bool = True) -> tuple[list[Frame], Frame]:
        """The rows with their ids, and the last event, as a client of server-sent events gets them."""
        policy = SimpleNamespace(of=Policy().of)
        rows = TaskRows(
            cast(Client, None),
            cast(TaskClient, self),
            cast(StoredOutputs, None),
            cast(ApifyPlatform, self),
            UnreadBytes(cast(PolicySource, policy)),
        )
        body = b"".join([part async for part in _frames(await rows.stream(ANN, "t", after=after, follow=follow))])
        found: list[tuple[str, Frame]] = []
        for frame in body.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in frame.split("\n"))
            found.append((fields["event"], (fields.get("id"), json.loads(fields["data"])["data"])))
        assert [name for name, _ in found] == ["row"] * (len(found) - 1) + ["end"]
        return [frame for _, frame in found[:-1]], found[-1][1]


@pytest.fixture(params=[[3, 0, 2], [0, 0, 1], [2, 0], [1, 120], [0]], ids=str)
def runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs(request.param)
    monkeypatch.setattr(live_rows, "TaskRuns", made)
    return made


@pytest.mark.parametrize("follow", [True, False])
async def test_every_row_has_the_id_of_its_dataset_and_number(runs: Runs, *, follow: bool) -> None:
    rows, (last, end) = await runs.told(follow=follow)
    numbers = [(dataset, number) for dataset, size in runs.sizes.items() for number in range(1, size + 1)]
    assert [row_id for row_id, _ in rows] == [f"{dataset}.{number}" for dataset, number in numbers]
    assert [row for _, row in rows] == [row_of(dataset, number - 1) for dataset, number in numbers]
    dataset, size = list(runs.sizes.items())[-1]
    assert (last, end["rows"], end["dataset_id"], end["is_complete"]) == (f"{dataset}.{size}", size, dataset, True)


async def test_a_stream_after_any_row_has_the_rows_that_follow_it(runs: Runs) -> None:
    rows, end = await runs.told()
    for number in {0, 1, len(rows) // 2, len(rows) - 1, len(rows)} & {*range(len(rows) + 1)}:
        assert await runs.told(str(number)) == (rows[number:], end), number
        if number:
            assert await runs.told(rows[number - 1][0]) == (rows[number:], end), number
    assert await runs.told(end[0]) == ([], end)


async def test_a_client_that_counts_more_rows_than_there_are_gets_no_row_and_no_id(runs: Runs) -> None:
    rows, _ = await runs.told()
    further, (last, end) = await runs.told(str(len(rows) + 5))
    assert (further, last, end["rows"], end["is_complete"]) == ([], None, 0, True)


async def test_the_beginning_of_a_dataset_comes_after_all_rows_of_the_earlier_ones(runs: Runs) -> None:
    rows, end = await runs.told()
    for dataset in runs.sizes:
        first = next((at for at, (row_id, _) in enumerate(rows) if str(row_id).split(".")[0] >= dataset), len(rows))
        assert await runs.told(f"{dataset}.0") == (rows[first:], end)


async def test_a_place_in_a_dataset_of_another_task_is_refused(runs: Runs) -> None:
    for place in ("other.1", "output.1"):
        with pytest.raises(BadRequest, match="is not the id of a row of this task"):
            await runs.told(place)


async def test_the_latest_row_is_the_last_one_of_the_latest_run(runs: Runs) -> None:
    rows = TaskRows(
        cast(Client, None),
        cast(TaskClient, runs),
        cast(StoredOutputs, None),
        cast(ApifyPlatform, runs),
        cast(UnreadBytes, None),
    )
    assert await rows.latest(ANN, "t") == (await runs.told())[1][0]


def test_a_place_is_written_as_it_is_read() -> None:
    assert RowPlace.parse("dataset~1_x-y.12") == RowPlace("dataset~1_x-y", 12)
    assert str(RowPlace("dataset~1_x-y", 12)) == "dataset~1_x-y.12"
    assert RowPlace.parse("12") == RowPlace(None, 12)
    assert RowPlace.parse("") == RowPlace.parse(None) == RowPlace(None, 0)


@pytest.mark.parametrize("text", ["x.y", "a.1.2", "-1", "1" * 13, "a" * 101 + ".1", "\u0661", "a.1\n", " 1", "."])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        RowPlace.parse(text)
