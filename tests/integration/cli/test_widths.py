"""Tables on narrow terminals: ids stay whole, columns go in the order of their use."""

import pytest

from tests.integration.cli.answers import ID, task
from tests.integration.cli.test_terminal import environment
from tests.support.http.fake_api import FakeApi
from tests.support.processes.terminal import on_terminal, outlast_command

LONG_ID = "call-actor-72a5b4e08bf2cfc0b075aa00"


def screen_of(api: FakeApi, columns: int, *arguments: str) -> str:
    with on_terminal(outlast_command(*arguments), environment(api), columns=columns) as terminal:
        assert terminal.end() == 0
    return terminal.screen


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (30, ["TASK"]),
        (40, ["TASK"]),
        (60, ["TASK", "STATUS"]),
        (80, ["TASK", "STATUS", "AGE", "TOOL"]),
        (140, ["TASK", "STATUS", "AGE", "TOOK", "TOOL", "MESSAGE"]),
    ],
)
def test_a_list_of_tasks_shows_whole_ids_and_drops_columns(fake_api: FakeApi, columns: int, titles: list[str]) -> None:
    tasks = [task(status_message="Crawled 12 of 30 pages", id=LONG_ID), task("input_required")]
    fake_api.on("GET", "/v1/tasks", {"tasks": tasks})
    lines = screen_of(fake_api, columns, "tasks", "ls").splitlines()
    assert lines[0].split() == titles
    assert lines[1].startswith(LONG_ID)
    assert lines[2].startswith(ID)
    assert all(len(line.rstrip()) <= max(columns, len(LONG_ID)) for line in lines)


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_list_of_tools_shows_whole_names(fake_api: FakeApi, columns: int) -> None:
    name = "get-key-value-store-record"
    tool = {"name": name, "category": "storage", "description": "Get one record of a key-value store. It is long."}
    fake_api.on("GET", "/v1/tools", {"tools": [tool]})
    assert name in screen_of(fake_api, columns, "tools", "ls")
