"""A server that is away, for a moment or for good."""

from dataclasses import replace

import pytest

from outlast.cli import runner
from tests.integration.cli.answers import ID, task
from tests.integration.cli.conftest import Outlast
from tests.support.http.fake_api import Answer, Drop, FakeApi, problem
from tests.support.ports import free_address

AWAY = problem(503, "Away", "The Temporal server does not answer. Nothing is lost.", retry_after=0)


def test_nobody_there_says_how_to_start_a_server(outlast: Outlast) -> None:
    ended = outlast("tasks", "ls", "--url", free_address())
    assert ended.code == 3
    assert "Nothing answers" in ended.said
    assert "outlast up" in ended.said


def test_no_stack_names_the_data_directory(outlast: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_URL")
    ended = outlast("tasks", "ls", "--data-dir", "elsewhere", "--json")
    assert ended.code == 3
    assert "No stack runs on the data directory elsewhere" in ended.document["error"]["message"]


def test_a_read_is_repeated_while_temporal_is_away_and_says_what_it_waits_for(
    fake_api: FakeApi, outlast: Outlast
) -> None:
    fake_api.on("GET", f"/v1/tasks/{ID}", AWAY, AWAY, Drop(), Answer(task()))
    ended = outlast("tasks", "get", ID)
    assert ended.code == 0
    assert len(fake_api.seen) == 4
    assert ended.said.count("Temporal server does not answer") == 1


def test_patience_has_an_end(fake_api: FakeApi, outlast: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RETRIES", replace(runner.RETRIES, request_seconds=0.1))
    fake_api.on("GET", "/v1/tasks", AWAY)
    ended = outlast("tasks", "ls", "--json")
    assert ended.code == 3
    assert ended.document["error"]["problem"]["status"] == 503


def test_a_server_error_is_not_repeated(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/v1/tasks", Answer("Internal Server Error", 500))
    ended = outlast("tasks", "ls")
    assert (ended.code, len(fake_api.seen)) == (5, 1)
    assert "500 Internal Server Error" in ended.said


def test_another_kind_of_server_is_recognised(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/v1/tasks", Answer("<html>Welcome</html>"))
    ended = outlast("tasks", "ls")
    assert ended.code == 5
    assert "did not answer as an Outlast server does" in ended.said


def test_a_bad_address_is_bad_input(outlast: Outlast) -> None:
    ended = outlast("tasks", "ls", "--url", "localhost:8400")
    assert (ended.code, "not the address of a server" in ended.said) == (2, True)
