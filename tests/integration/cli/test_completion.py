"""Completion in the shell."""

import subprocess

from tests.integration.cli.answers import ID, task
from tests.integration.cli.test_terminal import environment
from tests.support.http.fake_api import FakeApi
from tests.support.ports import free_address
from tests.support.processes.terminal import outlast_command


def completed(api_url: str, api: FakeApi, *words: str) -> list[str]:
    """Return the completions of the last word in bash."""
    command = {"COMP_WORDS": " ".join(("outlast", *words)), "COMP_CWORD": str(len(words))}
    variables = {**environment(api), "OUTLAST_URL": api_url, "_OUTLAST_COMPLETE": "complete_bash", **command}
    ended = subprocess.run(outlast_command(), env=variables, capture_output=True, text=True, timeout=180, check=False)
    assert ended.stderr == ""
    return ended.stdout.split()


def test_names_of_tools(fake_api: FakeApi) -> None:
    fake_api.on("GET", "/v1/tools", {"tools": [{"name": "get-dataset"}, {"name": "call-actor"}]})
    assert completed(fake_api.url, fake_api, "call", "get") == ["get-dataset"]


def test_ids_of_tasks(fake_api: FakeApi) -> None:
    fake_api.on("GET", "/v1/tasks", {"tasks": [task(), task(id="other-1")]})
    assert completed(fake_api.url, fake_api, "tasks", "get", "task-") == [ID]


def test_ids_of_tasks_that_wait_for_an_answer(fake_api: FakeApi) -> None:
    of_another = {
        "task_id": "task-of-another",
        "created_at": "2026-11-22T10:00:00Z",
        "key": "approval",
        "tool": "deploy",
        "message": "Allow deploy?",
    }
    fake_api.on("GET", "/v1/handoffs", {"handoffs": [of_another]})
    fake_api.on("GET", "/v1/tasks", {"tasks": [task("input_required")]})
    assert completed(fake_api.url, fake_api, "tasks", "answer", "task-") == [of_another["task_id"], ID]


def test_without_a_server_nothing_is_completed_and_nothing_said(fake_api: FakeApi) -> None:
    assert completed(free_address(), fake_api, "call", "get") == []
