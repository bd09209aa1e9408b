"""An approval shows what would be approved, wherever the command line shows it."""

import pytest

from tests.integration.cli.answers import ID, task
from tests.integration.cli.conftest import Outlast
from tests.integration.cli.test_terminal import environment
from tests.support.http.fake_api import FakeApi
from tests.support.processes.terminal import on_terminal, outlast_command

QUESTION = {
    "message": "Allow call-actor, called by bob?",
    "requested_schema": {"type": "object", "properties": {"decision": {"type": "string"}}},
    "handoff": {
        "kind": "approval",
        "tool": "call-actor",
        "phase": "approval",
        "parameters": {
            "arguments": {"actor": "apify/crawler", "input": {"query": "x" * 1_000}},
            "actor": "apify/crawler",
            "budget": {"max_total_charge_usd": "2.50", "max_items": 100},
        },
        "deadline": "2126-01-01T00:00:00Z",
    },
}
SHOWN = ("call-actor", "apify/crawler", "2.50 US dollars, 100 rows", '{"actor": "apify/crawler"')


@pytest.fixture
def asking(fake_api: FakeApi) -> FakeApi:
    fake_api.on("GET", f"/v1/tasks/{ID}", task("input_required", input_requests={"approve": QUESTION}))
    return fake_api


def test_a_tasks_sheet_shows_it(asking: FakeApi, outlast: Outlast) -> None:
    out = outlast("tasks", "get", ID).out
    assert all(part in out for part in SHOWN)
    assert "x" * 300 not in out


def test_whoever_is_asked_on_a_terminal_sees_it(asking: FakeApi) -> None:
    asking.on("POST", f"/v1/tasks/{ID}/input", task())
    with on_terminal(outlast_command("tasks", "answer", ID), environment(asking), columns=120) as terminal:
        terminal.wait_for(r"es, no or edit\?")
        terminal.type("no")
        terminal.wait_for("A note")
        terminal.type("")
        assert terminal.end() == 0
    assert all(part in terminal.screen for part in SHOWN)
