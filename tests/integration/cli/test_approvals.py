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


def test_a_list_of_waiting_calls_shows_their_arguments_on_a_narrow_terminal(fake_api: FakeApi) -> None:
    """As the server shows them: it has masked what is secret. They are escaped and cut."""
    call = {"kind": "approval", "tool": "pay", "task_id": ID, "key": "approve", "created_at": "2026-01-01T00:00:00Z"}
    given = {"to": "[bold]Ann\x1b[2J", "amount": 12.5, "card": "[secret]", "note": "x" * 1_000}
    approval = {**call, "message": "Pay?", "parameters": {"arguments": given}}
    tabs = {**call, "kind": "client", "tool": "list_tabs", "audience": "program", "task_id": "task-2", "parameters": {}}
    omitted = {"arguments_begin": '{"to": "Bob', "arguments_omitted_bytes": 9_000}
    large = {**call, "task_id": "task-3", "message": "Pay?", "parameters": omitted}
    fake_api.on("GET", "/v1/handoffs", {"handoffs": [approval, {**tabs, "message": "Tabs?"}, large]})
    fake_api.on("GET", "/v1/tasks", {"tasks": []})
    with on_terminal(outlast_command("tasks", "waiting"), environment(fake_api), columns=80) as terminal:
        assert terminal.end() == 0
    _, _, shown = terminal.screen.partition("ARGUMENTS\n")
    assert shown.startswith(ID)
    assert '{"to": "[bold]Ann\\u001b[2J", "amount": 12.5,' in " ".join(shown.split())
    assert '"card": "[secret]"' in " ".join(shown.split())
    assert "x" * 300 not in "".join(shown.split())
    assert "\x1b[2J" not in terminal.raw
    assert '9000 bytes: {"to": "Bob' in " ".join(shown.split())
    assert "task-2" not in shown
