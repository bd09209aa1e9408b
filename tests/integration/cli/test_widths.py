"""Narrow terminals: ids and addresses stay whole, columns are left out in the order of their use."""

import io
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console, RenderableType

from outlast.cli.commands.demo import row_table
from outlast.cli.commands.stack import address_table
from outlast.deploy.local.state import StackAddresses
from tests.integration.cli.answers import ID, task
from tests.integration.cli.test_terminal import environment
from tests.support.http.fake_api import FakeApi
from tests.support.processes.terminal import on_terminal, outlast_command

LONG_ID = "call-actor-72a5b4e08bf2cfc0b075aa00"


def screen_of(api: FakeApi, columns: int, *arguments: str) -> str:
    with on_terminal(outlast_command(*arguments), environment(api), columns=columns) as terminal:
        assert terminal.end() == 0, terminal.screen
    return terminal.screen


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        pytest.param(30, ["TASK"], marks=pytest.mark.thorough),
        (60, ["TASK", "STATUS"]),
        pytest.param(80, ["TASK", "STATUS", "AGE", "TOOL"], marks=pytest.mark.thorough),
        pytest.param(140, ["TASK", "STATUS", "AGE", "TOOK", "TOOL", "MESSAGE"], marks=pytest.mark.thorough),
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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (40, "TASK"),
        (80, "TASK TOOL QUESTION"),
        (160, "TASK TOOL CALLED BY QUESTION UNTIL AGE"),
    ],
)
def test_what_waits_is_a_hand_off_an_approval_of_anothers_call_or_a_plain_question(
    fake_api: FakeApi, columns: int, titles: str
) -> None:
    made = {"created_at": "2026-01-01T00:00:00Z", "deadline": "2126-01-01T00:00:00Z"}
    tabs = {"task_id": ID, "key": "tabs", "tool": "list_tabs", "message": "Tabs?", "audience": "program", **made}
    approval = {"task_id": LONG_ID, "key": "approval", "kind": "approval", "tool": "deploy", "maker": "key:agent"}
    approval |= {"message": "Allow deploy,\ncalled by key:agent?", "approvers": ["legal"], **made}
    for_another = {**approval, "task_id": ID}
    questions = {
        "tabs": {"message": "Tabs?", "handoff": {"tool": "list_tabs", "phase": "tabs"}},
        "colour": {"message": "Which colour?"},
    }
    fake_api.on("GET", "/v1/handoffs", {"handoffs": [tabs, approval, for_another]})
    fake_api.on("GET", "/v1/tasks", {"tasks": [task("input_required", input_requests=questions)]})
    lines = lines_on(fake_api, columns, "tasks", "waiting")
    assert lines[0].split() == titles.split()
    assert [line.split()[0] for line in lines[1:4]] == [ID, LONG_ID, ID]
    if columns > 100:
        assert "Allow deploy, called by key:agent?" in lines[2]
        assert [" you " in line for line in lines[1:4]] == [True, False, True]
        assert "Which colour?" in lines[3]
    assert [line.split("outlast ")[1] for line in lines[4:7]] == [
        "tasks answer TASK --yes",
        "tasks answer TASK",
        "client",
    ]
    assert " ".join(lines[7:]).startswith("Waiting for the approval of another caller: 1 call of yours;")


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_list_of_tools_shows_whole_names(fake_api: FakeApi, columns: int) -> None:
    name = "get-key-value-store-record"
    tool = {"name": name, "category": "storage", "description": "Get one record of a key-value store. It is long."}
    fake_api.on("GET", "/v1/tools", {"tools": [tool]})
    assert name in screen_of(fake_api, columns, "tools", "ls")


def lines_on(api: FakeApi, columns: int, *arguments: str) -> list[str]:
    return [line.rstrip() for line in screen_of(api, columns, *arguments).splitlines()]


@pytest.mark.thorough
@pytest.mark.parametrize(("columns", "before"), [(40, "task\n  "), (60, "task      ")])
def test_a_task_shows_its_values_below_their_names_on_a_narrow_terminal(
    fake_api: FakeApi, columns: int, before: str
) -> None:
    message = "Crawled 12 of 30 pages, 18 are waiting, and none has failed so far"
    fake_api.on("GET", f"/v1/tasks/{LONG_ID}", task(id=LONG_ID, status_message=message))
    lines = lines_on(fake_api, columns, "tasks", "get", LONG_ID)
    assert "\n".join(lines).startswith(f"{before}{LONG_ID}\n")
    assert all(len(line) <= columns for line in lines if "http" not in line), "\n".join(lines)
    assert message in " ".join(" ".join(lines).split())


TOOL = {
    "name": "crawl",
    "description": "Crawl a site.",
    "input_schema": {
        "type": "object",
        "required": ["startUrls"],
        "properties": {
            "startUrls": {"type": "array", "description": "Addresses of the pages at which the crawl has to begin."}
        },
    },
}


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [30, 59])
def test_a_tools_arguments_are_explained_below_their_names_on_a_narrow_terminal(
    fake_api: FakeApi, columns: int
) -> None:
    fake_api.on("GET", "/v1/tools/crawl", TOOL)
    lines = lines_on(fake_api, columns, "tools", "get", "crawl")
    first = lines.index("startUrls*  array")
    assert lines[first + 1].startswith("  Addresses of the pages")
    assert "ARGUMENT" not in "".join(lines)


@pytest.mark.thorough
def test_a_tools_arguments_are_a_table_on_a_wider_terminal(fake_api: FakeApi) -> None:
    fake_api.on("GET", "/v1/tools/crawl", TOOL)
    lines = lines_on(fake_api, 60, "tools", "get", "crawl")
    header = next(line for line in lines if line.startswith("ARGUMENT"))
    below = lines[lines.index(header) + 2]
    assert header.split() == ["ARGUMENT", "TYPE", "DESCRIPTION"]
    assert below == " " * header.index("DESCRIPTION") + "has to begin."


@pytest.mark.thorough
def test_doctor_shows_findings_below_their_names_on_a_narrow_terminal(fake_api: FakeApi) -> None:
    command = outlast_command("doctor", "--url", fake_api.url)
    with on_terminal(command, environment(fake_api), columns=40) as terminal:
        terminal.end()
    lines = [line.rstrip() for line in terminal.screen.splitlines()]
    assert lines[lines.index("✓  Python") + 1].startswith("  3.")
    assert all(len(line) <= 40 for line in lines if "http" not in line), "\n".join(lines)


def printed(renderable: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(renderable, crop=False)
    return [line.rstrip() for line in cast(io.StringIO, console.file).getvalue().splitlines()]


ADDRESSES = StackAddresses(
    api_url="http://127.0.0.1:8400",
    temporal_address="127.0.0.1:7233",
    temporal_namespace="default",
    temporal_ui_url="http://127.0.0.1:8233",
    apify_api_base_url="http://127.0.0.1:8401",
)


@pytest.mark.parametrize(("width", "has_remarks"), [(20, False), (40, False), (59, False), (80, True)])
def test_the_addresses_of_a_stack_are_whole_and_their_remarks_go_first(width: int, has_remarks: bool) -> None:
    folder = Path("/home/somebody/with/a/long/name/.local/share/outlast")
    lines = printed(address_table(ADDRESSES, folder), width)
    assert [line for line in lines if "http://127.0.0.1:8400" in line]
    assert any("shows every task as a workflow" in line for line in lines) is has_remarks
    assert [line for line in lines if line.endswith(str(folder))]


@pytest.mark.parametrize(
    ("width", "titles"), [(20, ["PAGE"]), (40, ["PAGE", "TITLE"]), (60, ["PAGE", "TITLE", "WORDS", "TEXT"])]
)
def test_the_demos_rows_drop_columns(width: int, titles: list[str]) -> None:
    row = {"url": "http://127.0.0.1/site/decisions/0004.html", "title": "Seal secrets before", "text": "word " * 50}
    lines = printed(row_table([row]), width)
    assert lines[0].split() == titles
    assert all(len(line) <= width for line in lines)
