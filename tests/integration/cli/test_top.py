"""`outlast top` on a terminal: the live view, narrow terminals, and servers that leave things out."""

from typing import Any

import pytest

from tests.integration.cli.conftest import Outlast
from tests.integration.cli.test_terminal import environment
from tests.support.http.fake_api import FakeApi, problem
from tests.support.processes.terminal import on_terminal, outlast_command

TASK = "call-actor-72a5b4e08bf2cfc0b075aa00"
NO_COUNTS = dict.fromkeys(("queued", "input_required", "answered", "failed_last_hour", "cancelled_last_hour"), 0)


def operations(working: int = 1, *, tasks: int = 1, pollers: int = 1) -> dict[str, Any]:
    started = "2026-11-22T10:00:00Z"
    task = {"tool": "call-actor", "caller": "key:ann", "actor": "outlast/sleeper", "status": "working"}
    queue = {"queue": "outlast-tools", "kind": "workflows", "backlog": 7, "oldest_seconds": 90, "pollers": pollers}
    worker = {"identity": "4242@machine", "version": "0.1.0", "queues": ["outlast-tools"], "last_seen_at": started}
    return {
        "at": "2026-11-22T10:05:00Z",
        "scope": "all",
        "counts": {**NO_COUNTS, "working": working, "completed_last_hour": 12},
        "tasks": [{**task, "id": TASK[: -len(str(n))] + str(n), "started_at": started} for n in range(tasks)],
        "queues": [queue],
        "workers": [worker] if pollers else [],
    }


@pytest.fixture
def top_api(fake_api: FakeApi) -> FakeApi:
    row = {"caller": "key:ann", "runs": 1, "model_calls": 0, "cost_usd": 1.5}
    other = {**row, "caller": "key:bob", "cost_usd": 0.25}
    day = {"first_day": "2026-11-22", "last_day": "2026-11-22", "rows": [row, other], "caps": []}
    fake_api.on("GET", "/v1/usage", {**day, "total_usd": 1.75})
    return fake_api


def test_it_follows_what_changes_until_ctrl_c(top_api: FakeApi) -> None:
    top_api.on("GET", "/v1/operations", operations(1), operations(41), operations(42))
    with on_terminal(outlast_command("top", "--interval", "1s"), environment(top_api), columns=100) as terminal:
        terminal.wait_for("● working 41")
        terminal.wait_for("● working 42")
        terminal.wait_for(r"spent today 1\.75 US dollars +· +key:ann 1\.50, key:bob 0\.25")
        terminal.press_ctrl_c()
        assert terminal.end() == 0
    assert "4242@machine" in terminal.screen
    assert "tools (workflows)" in terminal.screen
    assert "Traceback" not in terminal.screen


def test_as_many_tasks_are_shown_as_there_is_room_for(top_api: FakeApi) -> None:
    top_api.on("GET", "/v1/operations", operations(tasks=100))
    with on_terminal(outlast_command("top"), environment(top_api), columns=100) as terminal:
        terminal.wait_for(TASK[:-2])
        terminal.wait_for("spent today 1.75")
        terminal.press_ctrl_c()
        assert terminal.end() == 0
    shown = [frame.count(TASK[:-2]) for frame in terminal.screen.split("Outlast  ")]
    assert 10 < max(shown) < 40, "the terminal has 40 lines"


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (36, ["TASK"]),
        (60, ["TASK", "STATUS", "FOR"]),
        (100, ["TASK", "STATUS", "FOR", "TOOL", "CALLER"]),
    ],
)
def test_a_narrow_terminal_keeps_whole_ids(top_api: FakeApi, columns: int, titles: list[str]) -> None:
    top_api.on("GET", "/v1/operations", operations())
    with on_terminal(outlast_command("top", "--once"), environment(top_api), columns=columns) as terminal:
        assert terminal.end() == 0
    lines = terminal.screen.splitlines()
    assert [line.split() for line in lines if line.startswith("TASK")] == [titles]
    assert any(line.startswith(TASK[:-1] + "0") for line in lines)


def test_once_is_a_document_for_programs_and_says_what_is_missing(top_api: FakeApi, outlast: Outlast) -> None:
    top_api.on("GET", "/v1/operations", operations(pollers=0))
    assert outlast("top", "--once", "--json").document["usage"]["total_usd"] == 1.75
    top_api.on("GET", "/v1/usage", problem(403, "No", "Without the scope `admin` you see your own usage only."))
    shown = outlast("top")
    assert "No worker polls for tasks" in shown.out
    assert "spent today is unknown: Without the scope `admin`" in shown.out
    assert outlast("top", "--once", "--json").document["usage"] is None


def test_a_server_that_refuses_ends_it(top_api: FakeApi, outlast: Outlast) -> None:
    top_api.on("GET", "/v1/operations", problem(401, "No", "Send your API key."))
    assert outlast("top", "--once").code == 4
    assert outlast("top", "--json").code == 4
