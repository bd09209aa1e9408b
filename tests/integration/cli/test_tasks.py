"""`outlast tasks` and `outlast tools`."""

from typing import Any

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
from tests.support.http.fake_api import Answer, FakeApi, Stream, problem


def page(first: int, count: int, token: str | None = None) -> dict[str, Any]:
    tasks = [task("completed", finished=True, id=f"task-{number:032d}") for number in range(first, first + count)]
    return {"tasks": tasks, "next_page_token": token}


def test_a_list_is_fetched_page_by_page_up_to_its_limit(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/v1/tasks", page(0, 200, "t1"), page(200, 50, "t2"))
    ended = outlast("tasks", "ls", "--limit", "250", "--status", "completed", "--tool", "x", "--session", "s", "--json")
    assert len(ended.document["tasks"]) == 250
    assert ended.document["next_page_token"] == "t2"
    filters = {"status": "completed", "tool": "x", "session_id": "s"}
    assert [seen.query for seen in fake_api.seen] == [
        {**filters, "page_size": "200"},
        {**filters, "page_size": "50", "page_token": "t1"},
    ]


def test_a_list_fits_80_columns_and_never_cuts_an_id(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/v1/tasks", page(0, 3))
    ended = outlast("tasks", "ls")
    header, *rows = ended.out.splitlines()
    assert header.split() == ["TASK", "STATUS", "AGE", "TOOL"]
    assert [row.split()[0] for row in rows] == [f"task-{number:032d}" for number in range(3)]
    assert max(map(len, ended.out.splitlines())) <= 80


def test_an_empty_list_says_so(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/v1/tasks", {"tasks": []})
    assert "No tasks yet" in outlast("tasks", "ls").err
    assert "No task matches" in outlast("tasks", "ls", "--status", "failed").err


def test_an_unknown_status_is_a_usage_error(outlast: Outlast) -> None:
    assert outlast("tasks", "ls", "--status", "done").code == 2


def test_one_task_is_shown_with_its_run_and_its_workflow(fake_api: FakeApi, outlast: Outlast) -> None:
    run = {"run_id": "run-1", "status": "RUNNING", "dataset_id": "data-1", "status_message": "1/3", "adopted": True}
    fake_api.on("GET", f"/v1/tasks/{ID}", task(run=run, status_message="1/3", from_the_future={"a": None}))
    ended = outlast("tasks", "get", ID)
    for words in (ID, "● working", "run-1  ● RUNNING", "data-1", "adopted", f"http://temporal.example/workflows/{ID}"):
        assert words in ended.out
    assert outlast("tasks", "get", ID, "--json").document["from_the_future"] == {"a": None}


def test_an_unknown_task_is_bad_input(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", "/v1/tasks/nope%2F..", problem(404, "There is no such task", "You have no task 'nope/..'."))
    ended = outlast("tasks", "get", "nope/..")
    assert (ended.code, ended.out) == (2, "")
    assert "You have no task" in ended.said


def test_watch_prints_one_json_line_per_event(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", f"/v1/tasks/{ID}", task(), task("completed", finished=True))
    first = Stream((CREATED, RUN_STARTED, said("1/3", 3)), then="drop")
    fake_api.on("GET", f"/v1/tasks/{ID}/events", first, Stream((RUN_FINISHED, RETURNED, COMPLETED)))
    ended = outlast("tasks", "watch", ID, "--json")
    assert ended.code == 0
    assert [(line["event"], line["id"]) for line in ended.lines] == [
        ("created", "1.1"),
        ("run_started", "5.1"),
        ("status_message", None),
        ("run_finished", "9.1"),
        ("handler_returned", "12.1"),
        ("task_completed", "12.2"),
    ]
    assert fake_api.requests("GET", f"/v1/tasks/{ID}/events")[1].headers["last-event-id"] == "5.1"


def test_watch_can_begin_after_an_event(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", f"/v1/tasks/{ID}", task("cancelled", finished=True))
    fake_api.on("GET", f"/v1/tasks/{ID}/events", Stream((RUN_FINISHED,)))
    ended = outlast("tasks", "watch", ID, "--after", "5.1")
    assert ended.code == 1
    assert "run finished      ✓ SUCCEEDED" in ended.out
    assert fake_api.requests("GET", f"/v1/tasks/{ID}/events")[0].headers["last-event-id"] == "5.1"


def test_a_question_to_the_client_is_shown(fake_api: FakeApi, outlast: Outlast) -> None:
    asked = 'id: 7.1\nevent: input_required\ndata: {"data": {"requests": {"q": {"message": "Go on?"}}}}\n\n'
    fake_api.on("GET", f"/v1/tasks/{ID}", task("completed", finished=True, input_requests={"q": {"message": "Go on?"}}))
    fake_api.on("GET", f"/v1/tasks/{ID}/events", Stream((asked, COMPLETED)))
    assert "input required    Go on?" in outlast("tasks", "watch", ID).out
    assert "asks      Go on?" in outlast("tasks", "get", ID).out


def test_a_result_that_is_not_there_yet_has_its_own_exit_code(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", f"/v1/tasks/{ID}/result", Answer({"task": task(status_message="Slept 1 of 3 s")}, 202))
    ended = outlast("tasks", "result", ID)
    assert (ended.code, ended.out) == (6, "")
    assert "is working: Slept 1 of 3 s" in ended.said
    told = outlast("tasks", "result", ID, "--json")
    assert (told.code, "result" in told.document) == (6, False)


def test_a_result_is_waited_for(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("GET", f"/v1/tasks/{ID}/result", Answer({"task": task()}, 202), answer())
    ended = outlast("tasks", "result", ID, "--wait", "10m")
    assert (ended.code, ended.out) == (0, "Slept 3 s\n")
    assert [seen.query for seen in fake_api.seen] == [{"wait": "60"}, {"wait": "60"}]


def test_cancel_says_that_it_is_on_its_way(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("POST", f"/v1/tasks/{ID}/cancel", Answer(task(), 202))
    ended = outlast("tasks", "cancel", ID)
    assert ended.code == 0
    assert f"Cancelling {ID}" in ended.said
    assert outlast("tasks", "cancel", ID, "--json").document["id"] == ID


def test_cancel_of_a_finished_task_is_refused(fake_api: FakeApi, outlast: Outlast) -> None:
    fake_api.on("POST", f"/v1/tasks/{ID}/cancel", problem(409, "Ended", f"Task {ID} has ended."))
    ended = outlast("tasks", "cancel", ID)
    assert (ended.code, "has ended" in ended.said) == (2, True)


def test_tools_are_listed_by_what_they_do(fake_api: FakeApi, outlast: Outlast) -> None:
    actor = {
        "name": "outlast--sleeper",
        "category": "actors",
        "description": "This tool calls the Actor outlast/sleeper and returns what it produced. Sleeps. And more.",
        "actor": "outlast/sleeper",
    }
    other = {"name": "get-actor-log", "category": "runs", "description": "Get the log. Use it.", "tags": ["ops"]}
    fake_api.on("GET", "/v1/tools", {"tools": [other, actor]})
    ended = outlast("tools", "ls", "--mode", "openai")
    assert [line.split() for line in ended.out.splitlines()[1:]] == [
        ["outlast--sleeper", "actors", "Sleeps."],
        ["get-actor-log", "runs,", "tag:ops", "Get", "the", "log."],
    ]
    assert fake_api.seen[0].query == {"mode": "openai"}
    assert [tool["name"] for tool in outlast("tools", "ls", "--json").document["tools"]] == [
        "get-actor-log",
        "outlast--sleeper",
    ]


def test_a_tool_is_shown_with_its_arguments_and_an_example(fake_api: FakeApi, outlast: Outlast) -> None:
    schema = {"properties": {"seconds": {"type": "number", "description": "How long."}}, "required": ["seconds"]}
    fake_api.on("GET", "/v1/tools/outlast--sleeper", {"name": "outlast--sleeper", "input_schema": schema})
    ended = outlast("tools", "get", "outlast/sleeper")
    assert "seconds*" in ended.out
    assert "How long." in ended.out
    assert """outlast call outlast--sleeper '{"seconds": 1}'""" in ended.said
