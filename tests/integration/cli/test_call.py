"""`outlast call`: start a task, follow it, print its answer."""

import pytest

from tests.integration.cli.answers import (
    COMPLETED,
    CREATED,
    ID,
    RETURNED,
    RUN_FINISHED,
    RUN_STARTED,
    answer,
    said,
    task,
)
from tests.integration.cli.conftest import Outlast
from tests.support.http.fake_api import Answer, Drop, FakeApi, Stream, problem

WHOLE_LIFE = Stream((CREATED, RUN_STARTED, said("Slept 1 of 3 s", 3), RUN_FINISHED, RETURNED, COMPLETED))


@pytest.fixture
def task_api(fake_api: FakeApi) -> FakeApi:
    fake_api.on("POST", "/v1/tasks", Answer(task(), 201))
    fake_api.on("GET", f"/v1/tasks/{ID}/events", WHOLE_LIFE)
    fake_api.on("GET", f"/v1/tasks/{ID}/result", answer())
    fake_api.on("GET", f"/v1/tasks/{ID}", task("completed", finished=True))
    return fake_api


def test_a_call_prints_the_answer_on_standard_output_and_its_progress_on_standard_error(
    task_api: FakeApi, outlast: Outlast
) -> None:
    ended = outlast("call", "outlast--sleeper", '{"seconds": 3}')
    assert (ended.code, ended.out) == (0, "Slept 3 s\n")
    assert "RUNNING Slept 1 of 3 s" in ended.said
    assert "✓ completed in 12 s" in ended.said
    (request,) = task_api.requests("POST", "/v1/tasks")
    assert request.body == {"tool": "outlast--sleeper", "arguments": {"seconds": 3}}


def test_json_prints_the_answer_and_nothing_else(task_api: FakeApi, outlast: Outlast) -> None:
    ended = outlast("call", "outlast--sleeper", "--json")
    assert ended.document["result"]["content"][0]["text"] == "Slept 3 s"
    assert ended.document["task"]["id"] == ID
    assert (ended.code, ended.err) == (0, "")


def test_detach_prints_the_id_and_leaves(task_api: FakeApi, outlast: Outlast) -> None:
    ended = outlast("call", "outlast--sleeper", "--detach")
    assert (ended.code, ended.out) == (0, f"{ID}\n")
    assert f"outlast tasks watch {ID}" in ended.said
    assert len(task_api.seen) == 1


def test_options_reach_the_request(task_api: FakeApi, outlast: Outlast) -> None:
    options = "--mode openai --session chat-1 --max-usd 0.5 --max-items 10 --max-run-time 2m --deadline 1h -d"
    outlast("call", "outlast/site.crawler", "-a", "a.b=1", "--idempotency-key", "k1", *options.split())
    (request,) = task_api.requests("POST", "/v1/tasks")
    budget = {"max_total_charge_usd": "0.5", "max_items": 10, "max_run_seconds": 120}
    assert request.body == {
        "tool": "outlast--site-dot-crawler",
        "arguments": {"a": {"b": 1}},
        "mode": "openai",
        "session_id": "chat-1",
        "options": {"budget": budget, "deadline_seconds": 3600},
    }
    assert request.headers["idempotency-key"] == "k1"


def test_a_call_whose_answer_is_lost_is_sent_again_with_the_same_key(task_api: FakeApi, outlast: Outlast) -> None:
    task_api.on("POST", "/v1/tasks", Drop(), Answer(task(), 201))
    assert outlast("call", "outlast--sleeper").code == 0
    keys = [request.headers["idempotency-key"] for request in task_api.requests("POST", "/v1/tasks")]
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_a_dropped_event_stream_is_resumed_after_the_last_durable_event(task_api: FakeApi, outlast: Outlast) -> None:
    first = Stream((CREATED, RUN_STARTED, said("Slept 1 of 3 s", 3)), then="drop")
    busy = problem(503, "Away", "The Temporal server does not answer.", retry_after=0)
    task_api.on(
        "GET", f"/v1/tasks/{ID}/events", first, Drop(), busy, Stream((said("Slept 2 of 3 s", 4), RETURNED, COMPLETED))
    )
    ended = outlast("call", "outlast--sleeper")
    assert (ended.code, ended.out) == (0, "Slept 3 s\n")
    assert "Slept 2 of 3 s" in ended.said
    assert "The Temporal server does not answer. Trying again" in ended.said
    asked = task_api.requests("GET", f"/v1/tasks/{ID}/events")
    assert [request.headers.get("last-event-id") for request in asked] == [None, "5.1", "5.1", "5.1"]


def test_a_stream_that_ends_before_the_task_is_resumed(task_api: FakeApi, outlast: Outlast) -> None:
    task_api.on("GET", f"/v1/tasks/{ID}/events", Stream((CREATED,)), Stream((RETURNED, COMPLETED)))
    task_api.on("GET", f"/v1/tasks/{ID}", task())
    assert outlast("call", "outlast--sleeper").code == 0
    assert len(task_api.requests("GET", f"/v1/tasks/{ID}/events")) == 2


def test_a_failed_call_prints_what_failed_and_ends_with_1(task_api: FakeApi, outlast: Outlast) -> None:
    task_api.on("GET", f"/v1/tasks/{ID}/result", answer("failed", "Out of luck"))
    ended = outlast("call", "outlast--sleeper")
    assert (ended.code, ended.out) == (1, "Out of luck\n")
    assert "✗ failed" in ended.said


def test_a_refused_call_names_every_violation(task_api: FakeApi, outlast: Outlast) -> None:
    violations = [{"path": "/seconds", "message": "not a number"}, {"path": "/steps", "message": "too few"}]
    error = {"message": "…", "hint": "Mend every violation.", "violations": violations}
    task_api.on("POST", "/v1/tasks", problem(422, "Invalid", "The arguments do not fit.", error=error))
    ended = outlast("call", "outlast--sleeper")
    assert ended.code == 2
    for words in ("The arguments do not fit.", "/seconds: not a number", "/steps: too few", "Mend every violation."):
        assert words in ended.said
    told = outlast("call", "outlast--sleeper", "--json")
    assert told.code == 2
    assert told.document["error"]["problem"]["error"]["violations"] == violations


def test_bad_json_is_refused_before_anything_is_sent(task_api: FakeApi, outlast: Outlast) -> None:
    ended = outlast("call", "outlast--sleeper", '{"seconds": }')
    assert ended.code == 2
    assert "line 1, column 13" in ended.said
    assert task_api.seen == []


def test_content_that_is_no_text_is_named(task_api: FakeApi, outlast: Outlast) -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    task_api.on("GET", f"/v1/tasks/{ID}/result", answer(content=[{"type": "text", "text": "Look:"}, picture]))
    assert outlast("call", "outlast--sleeper").out == "Look:\n[image image/png]\n"


def test_a_token_is_sent_as_bearer_and_never_shown(
    task_api: FakeApi, outlast: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_TOKEN", "sk-planted-secret-1")
    task_api.on("POST", "/v1/tasks", problem(401, "No", "This bearer token is not known."))
    ended = outlast("call", "outlast--sleeper")
    assert task_api.seen[0].headers["authorization"] == "Bearer sk-planted-secret-1"
    assert ended.code == 4
    assert "OUTLAST_TOKEN" in ended.said
    assert "planted" not in ended.out + ended.err + outlast("call", "--help").out


def test_reuse_is_asked_for_and_told(task_api: FakeApi, outlast: Outlast) -> None:
    reused = {"joined": False, "age_seconds": 7_200.0}
    task_api.on("POST", "/v1/tasks", Answer({**task("completed", finished=True), "reused": reused}, 201))
    ended = outlast("call", "outlast--sleeper", "--reuse", "6h")
    assert ended.code == 0
    assert "reused, answered 2 h 00 min ago" in ended.said
    (request,) = task_api.requests("POST", "/v1/tasks")
    assert request.body["options"] == {"reuse": {"max_age": "6h"}}


def test_a_call_is_refreshed(task_api: FakeApi, outlast: Outlast) -> None:
    outlast("call", "outlast--sleeper", "--refresh")
    (request,) = task_api.requests("POST", "/v1/tasks")
    assert request.body["options"] == {"reuse": {"refresh": True}}
