"""Questions on a terminal: typed in while a call is watched, or with `outlast tasks answer`."""

import asyncio
import json
import subprocess
from collections.abc import Mapping

import httpx
import pytest

from tests.integration.protocol.conftest import ANN
from tests.support.calls.questions import answered, asks, call, result, said, waiting
from tests.support.paths import ROOT
from tests.support.processes.terminal import on_terminal, outlast_command
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment


@pytest.fixture
def shell(service: Service) -> Mapping[str, str]:
    plain = {name: value for name, value in clean_environment().items() if name not in ("NO_COLOR", "COLUMNS")}
    return {**plain, "OUTLAST_URL": service.api_url, "OUTLAST_TOKEN": ANN}


def run(shell: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        outlast_command(*arguments),
        cwd=ROOT,
        env=dict(shell),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_a_client_phase_is_asked_field_by_field_and_again_when_it_does_not_fit(shell: Mapping[str, str]) -> None:
    with on_terminal(outlast_command("call", "order", '{"item": "tea"}'), shell) as terminal:
        terminal.wait_for(r"Order for 3\?")
        terminal.wait_for(r'"total": 3')
        terminal.wait_for(r"Answer by \d{4}-\d\d-\d\d .*\(in .*\)")
        terminal.wait_for(r"confirmed.*:")
        terminal.type("perhaps")
        terminal.wait_for(r"comment.*:")
        terminal.type("")
        terminal.wait_for("/confirm/confirmed")
        terminal.wait_for(r"(?s)Order for 3\?.*Order for 3\?.*confirmed[^\n]*:")
        terminal.type("yes")
        terminal.wait_for(r"(?s)(?:comment.*){2}:")
        terminal.type("")
        assert terminal.end() == 0
    assert "Ordered 1 tea for 3, said key:ann" in terminal.screen


def test_an_approval_is_yes_no_or_edit(shell: Mapping[str, str]) -> None:
    with on_terminal(outlast_command("call", "deploy", '{"item": "site"}'), shell) as terminal:
        terminal.wait_for(r"yes, no or edit\?")
        terminal.type("e")
        terminal.wait_for("as JSON:")
        terminal.type('{"item": "shop"}')
        terminal.wait_for("note")
        terminal.type("")
        assert terminal.end() == 0
    assert "Deployed 1 shop" in terminal.screen


async def test_somebody_else_is_quicker(shell: Mapping[str, str], api: httpx.AsyncClient) -> None:
    with on_terminal(outlast_command("call", "deploy", '{"item": "elsewhere"}'), shell) as terminal:
        await asyncio.to_thread(terminal.wait_for, r"yes, no or edit\?")
        listed = (await api.get("/v1/tasks", params={"tool": "deploy", "status": "input_required"})).json()["tasks"]
        for task in listed:
            if task["input_requests"]["approval"]["handoff"]["parameters"]["arguments"]["item"] == "elsewhere":
                assert (await answered(api, task, {"decision": "yes"})).status_code == 200
        assert await asyncio.to_thread(terminal.end) == 0
    assert "Deployed 1 elsewhere" in terminal.screen


async def test_another_terminal_answers(shell: Mapping[str, str], api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("deploy", item="site"))
    nothing = run(shell, "tasks", "answer", task["id"])
    assert nothing.returncode == 2
    assert "There is no answer" in nothing.stderr
    given = run(shell, "tasks", "answer", task["id"], "--yes", "--note", "go", "--json")
    assert given.returncode == 0, given.stderr
    assert json.loads(given.stdout)["id"] == task["id"]
    assert said(await result(api, task["id"])) == "Deployed 1 site"
    late = run(shell, "tasks", "answer", task["id"], "--yes")
    assert (late.returncode, "has no open question" in late.stderr) == (2, True)


async def test_fields_are_given_one_by_one_and_a_wrong_one_is_told(
    shell: Mapping[str, str], api: httpx.AsyncClient
) -> None:
    task = await waiting(api, call("order", item="tea"))
    wrong = run(shell, "tasks", "answer", task["id"], "-a", "confirmed=perhaps")
    assert wrong.returncode == 2
    assert "/confirm/confirmed" in wrong.stderr
    assert (await asks(api, task["id"]))["status"] == "input_required"
    assert run(shell, "tasks", "answer", task["id"], "-a", "confirmed=true").returncode == 0
    assert said(await result(api, task["id"])).startswith("Ordered 1 tea")


async def test_without_a_terminal_the_call_says_how_to_answer(shell: Mapping[str, str], api: httpx.AsyncClient) -> None:
    process = await asyncio.create_subprocess_exec(
        *outlast_command("call", "deploy", '{"item": "quiet"}'),
        cwd=ROOT,
        env=dict(shell),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    told = ""
    while "tasks answer" not in told:
        line = await asyncio.wait_for(process.stderr.readline(), 60)
        assert line, told
        told += line.decode()
    task_id = told.rpartition("tasks answer ")[2].split()[0]
    await asyncio.to_thread(run, shell, "tasks", "answer", task_id, "--no")
    out, _ = await process.communicate()
    assert process.returncode == 1
    assert "was not approved by key:ann" in out.decode()
