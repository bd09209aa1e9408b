"""Output on a terminal, and Ctrl-C."""

import pytest

from tests.integration.cli.answers import COMPLETED, CREATED, ID, RETURNED, RUN_STARTED, answer, said, task
from tests.support.http.fake_api import Answer, FakeApi, Stream
from tests.support.processes.terminal import on_terminal, outlast_command
from tests.support.stacks.stack_config import clean_environment

UNDER_WAY = Stream((CREATED, RUN_STARTED, said("Crawled 12/30 pages", 3)), then="hang")


def environment(api: FakeApi, **extra: str) -> dict[str, str]:
    shell = {name: value for name, value in clean_environment().items() if name not in ("NO_COLOR", "COLUMNS")}
    return {**shell, "OUTLAST_URL": api.url, **extra}


@pytest.fixture
def task_api(fake_api: FakeApi) -> FakeApi:
    fake_api.on("POST", "/v1/tasks", Answer(task(), 201))
    fake_api.on("GET", f"/v1/tasks/{ID}", task())
    fake_api.on("GET", f"/v1/tasks/{ID}/events", UNDER_WAY)
    fake_api.on("GET", f"/v1/tasks/{ID}/result", answer())
    return fake_api


def test_a_bar_shows_how_far_the_run_is_and_ctrl_c_leaves_the_task_alone(task_api: FakeApi) -> None:
    with on_terminal(outlast_command("call", "outlast--sleeper"), environment(task_api)) as terminal:
        terminal.wait_for(r"RUNNING [━╸╺]+ 12/30 \(40%\) [\d:]+")
        terminal.wait_for("Crawled 12/30 pages")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert f"task {ID} continues" in terminal.screen
    assert f"outlast tasks cancel {ID}" in terminal.screen
    assert task_api.requests("POST", f"/v1/tasks/{ID}/cancel") == []
    assert "Traceback" not in terminal.screen


def test_ctrl_c_on_watch_is_the_same(task_api: FakeApi) -> None:
    with on_terminal(outlast_command("tasks", "watch", ID), environment(task_api)) as terminal:
        terminal.wait_for("run started +run-1")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert f"task {ID} continues" in terminal.screen


def test_ctrl_c_with_json_leaves_one_document(task_api: FakeApi) -> None:
    with on_terminal(outlast_command("call", "outlast--sleeper", "--json"), environment(task_api)) as terminal:
        terminal.wait_for("40%")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert f'"task_id": "{ID}"' in terminal.screen


def test_colours_are_for_terminals_and_no_color_is_honoured(task_api: FakeApi) -> None:
    task_api.on("GET", f"/v1/tasks/{ID}/events", Stream((RETURNED, COMPLETED)))
    with on_terminal(outlast_command("tasks", "get", ID), environment(task_api)) as colourful:
        assert colourful.end() == 0
    with on_terminal(outlast_command("tasks", "get", ID), environment(task_api, NO_COLOR="1")) as plain:
        assert plain.end() == 0
    assert "\x1b[34m● working" in colourful.raw
    assert "\x1b[3" not in plain.raw


def test_a_tool_cannot_move_the_cursor(task_api: FakeApi) -> None:
    task_api.on("GET", f"/v1/tasks/{ID}/result", answer(text="\x1b[2Jgone"))
    with on_terminal(outlast_command("tasks", "result", ID), environment(task_api)) as terminal:
        assert terminal.end() == 0
    assert "\x1b[2J" not in terminal.raw
    assert "[2Jgone" in terminal.screen
