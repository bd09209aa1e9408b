"""`outlast tasks rows` and `outlast call --follow-rows`: rows on standard output, one line of JSON each, none twice."""

import pytest

from tests.integration.cli.answers import ID, answer, task
from tests.integration.cli.conftest import Outlast
from tests.support.http.fake_api import Answer, Drop, FakeApi, Stream, problem, sse

ROWS = f"/v1/tasks/{ID}/rows"
END = sse("end", {"status": "completed", "rows": 4}, id="ds.4")


def row(number: int) -> str:
    return sse("row", {"index": number}, id=f"ds.{number}")


def test_rows_are_printed_once_over_cut_connections(fake_api: FakeApi, outlast: Outlast) -> None:
    busy = problem(503, "Away", "The Temporal server does not answer.", retry_after=0)
    retryable = sse("error", {"message": "away", "category": "network", "retryable": True})
    fake_api.on(
        "GET",
        ROWS,
        Stream((row(1), row(2)), then="drop"),
        Drop(),
        busy,
        Stream((row(3), retryable)),
        Stream(()),
        Stream((row(4), END)),
    )
    ended = outlast("tasks", "rows", ID)
    assert (ended.code, ended.lines) == (0, [{"index": number} for number in (1, 2, 3, 4)])
    asked = [request.headers.get("last-event-id") for request in fake_api.requests("GET", ROWS)]
    assert asked == [None, "ds.2", "ds.2", "ds.2", "ds.3", "ds.3"]


def test_rows_have_their_ids_for_programs(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", ROWS, Stream((row(4), END)))
    ended = outlast("tasks", "rows", ID, "--after", "ds.3", "--no-follow", "--json")
    assert ended.lines == [{"id": "ds.4", "data": {"index": 4}}]
    (request,) = fake_api.requests("GET", ROWS)
    assert (request.headers["last-event-id"], request.query) == ("ds.3", {"follow": "false"})


def test_rows_that_are_gone_are_an_error(fake_api: FakeApi, outlast: Outlast) -> None:
    gone = sse("error", {"message": "The rows are gone.", "category": "not_found", "retryable": False})
    fake_api.on("GET", ROWS, Stream((row(1), gone)))
    ended = outlast("tasks", "rows", ID)
    assert (ended.code, ended.lines) == (2, [{"index": 1}])
    assert "The rows are gone." in ended.said


@pytest.fixture
def calling(fake_api: FakeApi) -> FakeApi:
    fake_api.on("POST", "/v1/tasks", Answer(task(), 201))
    fake_api.on("GET", ROWS, Stream((row(1), row(2), END)))
    fake_api.on("GET", f"/v1/tasks/{ID}/result", answer(text="Slept 3 s\nand more"))
    return fake_api


def test_a_call_prints_the_rows_of_its_run(calling: FakeApi, outlast: Outlast) -> None:
    ended = outlast("call", "outlast--sleeper", "--follow-rows")
    assert (ended.code, ended.lines) == (0, [{"index": 1}, {"index": 2}])
    assert "✓ completed in 12 s Slept 3 s" in ended.said
    assert "and more" not in ended.said


def test_a_call_prints_rows_and_its_answer_for_programs(calling: FakeApi, outlast: Outlast) -> None:
    ended = outlast("call", "outlast--sleeper", "--follow-rows", "--json")
    *rows, last = ended.lines
    assert [line["id"] for line in rows] == ["ds.1", "ds.2"]
    assert last["task"]["id"] == ID


def test_a_call_without_rows_tells_why_it_failed(calling: FakeApi, outlast: Outlast) -> None:
    calling.on("GET", ROWS, problem(409, "The task has no rows", "Task started no run."))
    calling.on("GET", f"/v1/tasks/{ID}/result", answer("failed", text="There is no such Actor."))
    ended = outlast("call", "outlast--sleeper", "--follow-rows")
    assert (ended.code, ended.out) == (1, "")
    assert "There is no such Actor." in ended.said


def test_until_reaches_the_request(calling: FakeApi, outlast: Outlast) -> None:
    conditions = ("rows=100", "usd=0.5", "expression=price < `10`", "matches=3")
    outlast("call", "outlast--sleeper", "-d", *(part for one in conditions for part in ("--until", one)))
    (request,) = calling.requests("POST", "/v1/tasks")
    assert request.body["options"]["until"] == {
        "rows": 100,
        "usd": "0.5",
        "expression": "price < `10`",
        "matches": 3,
    }


@pytest.mark.parametrize("condition", ["rows", "rows=", "rows=many", "row=3", "usd=x"])
def test_a_condition_that_is_none_is_refused(calling: FakeApi, outlast: Outlast, condition: str) -> None:
    ended = outlast("call", "outlast--sleeper", "--until", condition)
    assert ended.code == 2
    assert calling.seen == []
