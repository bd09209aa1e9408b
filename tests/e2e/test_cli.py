"""The command line on the whole stack: real Temporal, real worker, real Actors."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.console_examples import page_of_reason
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.processes.terminal import on_terminal, outlast_command
from tests.support.stacks.outlast_up import RunningStack, running_stack, stack_environment

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def run(environment: dict[str, str], *arguments: str, stdin: str = "") -> Ended:
    ended = subprocess.run(
        outlast_command(*arguments),
        cwd=ROOT,
        env={**environment, "COLUMNS": "80"},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return Ended(ended.returncode, ended.stdout, " ".join(ended.stderr.split()))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli") / "data"


@pytest.fixture(scope="module")
def demo(data_dir: Path) -> Ended:
    """`outlast demo` where nothing has ever run."""
    environment = stack_environment()
    return run(environment, "demo", "--ready-timeout", "5m", "--data-dir", str(data_dir))


@pytest.fixture(scope="module")
def stack(data_dir: Path, demo: Ended) -> Iterator[RunningStack]:
    """`outlast up` on the directory that the demo has left, with the tools of another package."""
    assert demo.code in (0, 1)
    with running_stack(data_dir, "--tools-from", "docs.examples.hello_tools") as stack:
        yield stack


def outlast(stack: RunningStack, *arguments: str, stdin: str = "") -> Ended:
    return run(stack.environment, *arguments, stdin=stdin)


def sleeper(stack: RunningStack, seconds: int) -> str:
    """Start a sleeper; the task's id."""
    ended = outlast(stack, "call", "outlast/sleeper", "-a", f"seconds={seconds}", "-a", f"steps={seconds}", "--detach")
    assert ended.code == 0, ended.err
    return ended.out.strip()


def test_the_demo_charges_once_although_it_kills_the_worker(demo: Ended) -> None:
    assert demo.code == 0, demo.err
    assert "✓ charged once requests to the shop: reserve 1, charge 1, ship 2" in " ".join(demo.out.split())
    events = re.findall(r"^ *[\d.]+ s  (kill -9|\w+)  ", demo.out, re.MULTILINE)
    assert [event for event in events if event != "worker"] == [
        "reserve", "charge", "ship", "kill -9", "ship", "completed",
    ]  # fmt: skip
    assert "worker" in events
    assert len(set(re.findall(r"asked by worker (\d+)", demo.out))) == 2
    assert "/namespaces/default/workflows/" in demo.out
    assert "starts the stack again, with this task in it" in demo.err
    assert max(map(len, [line for line in demo.out.splitlines() if "://" not in line])) <= 80


def test_the_readme_shows_what_the_demo_prints(demo: Ended) -> None:
    readme = page_of_reason(ROOT / "README.md", "compared in tests/e2e/test_cli.py")
    (shown,) = readme.examples
    printed = _anywhere(f"{demo.err}\n{demo.out}")
    lines = [_anywhere(line) for line in shown.printed.splitlines()]
    assert len(lines) > 15
    assert [line for line in lines if line not in printed] == []


def _anywhere(text: str) -> str:
    """Without what depends on the machine, and with single spaces."""
    text = re.sub(r"(\d+ min )?[\d.]+ s\b", "N s", text)
    text = re.sub(r"worker \d+", "worker N", re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text))
    return " ".join(re.sub(r"task-[0-9a-f]{8,}", "TASK", text).split())


@pytest.mark.thorough
def test_the_task_of_the_demo_is_there_again_when_the_stack_is_up(demo: Ended, stack: RunningStack) -> None:
    task_id = next(line.split()[1] for line in demo.out.splitlines() if line.startswith("task "))
    task = outlast(stack, "tasks", "get", task_id, "--json").document
    assert (task["status"], task["tool"]) == ("completed", "order")
    assert "charged" in outlast(stack, "tasks", "result", task_id).out


@pytest.mark.thorough
def test_the_demo_leaves_a_running_stack_alone_and_shows_its_progress(stack: RunningStack) -> None:
    """It kills the worker of a stack in a temporary directory."""
    worker = stack.pid("worker")
    with on_terminal(outlast_command("demo", "--ready-timeout", "5m"), stack.environment, columns=80) as terminal:
        terminal.wait_for(r"working [━╸╺]+ [12]/3 \(\d+%\)")
        terminal.wait_for("worker killed")
        terminal.wait_for("charged once")
        assert terminal.end() == 0
    assert "is not used" in terminal.screen
    assert "starts the stack again" not in terminal.screen
    assert stack.pid("worker") == worker


def test_the_crawl_joins_a_stack_that_runs_already_and_shows_rows(stack: RunningStack) -> None:
    crawled = outlast(stack, "demo", "crawl", "--max-pages", "4")
    assert crawled.code == 0, crawled.err
    header = next(line for line in crawled.out.splitlines() if line.startswith("PAGE"))
    assert header.split() == ["PAGE", "TITLE", "WORDS", "TEXT"]
    assert sum(line.startswith("/site/") for line in crawled.out.splitlines()) >= 3
    assert "✓ SUCCEEDED" in crawled.out
    assert max(map(len, [line for line in crawled.out.splitlines() if "://" not in line])) <= 80
    assert stack.process.poll() is None


def test_the_tools_of_another_package_are_called(stack: RunningStack) -> None:
    ended = outlast(stack, "call", "hello_world", "-a", "name=Ann")
    assert (ended.code, ended.out.strip()) == (0, "Hello, Ann!"), ended.err


def test_a_call_shows_a_bar_and_prints_the_answer(stack: RunningStack) -> None:
    command = outlast_command("call", "outlast/sleeper", '{"seconds": 4, "steps": 8}')
    with on_terminal(command, stack.environment) as terminal:
        terminal.wait_for(r"RUNNING [━╸╺]+ [\d.]+/4 \(\d+%\) \d:\d\d")
        assert terminal.end() == 0
    assert "✓ completed in" in terminal.screen
    assert "is SUCCEEDED. Slept 4 of 4 s" in terminal.screen


def test_a_detached_call_is_watched_and_collected_later(stack: RunningStack) -> None:
    task_id = sleeper(stack, 3)
    early = outlast(stack, "tasks", "result", task_id)
    assert early.code in (0, 6)
    watched = outlast(stack, "tasks", "watch", task_id, "--json")
    events = [json.loads(line)["event"] for line in watched.out.splitlines()]
    durable = [event for event in events if event != "status_message"]
    assert durable == ["created", "run_started", "run_finished", "handler_returned", "task_completed"]
    result = outlast(stack, "tasks", "result", task_id, "--json")
    assert (watched.code, result.code) == (0, 0)
    assert result.document["result"]["structured"]["status"] == "SUCCEEDED"
    listed = outlast(stack, "tasks", "ls", "--tool", "outlast--sleeper", "--status", "completed", "--json").document
    assert task_id in [task["id"] for task in listed["tasks"]]


def test_ctrl_c_leaves_the_task_running_and_cancel_stops_its_run(stack: RunningStack) -> None:
    with on_terminal(outlast_command("call", "outlast/sleeper", "-a", "seconds=120"), stack.environment) as terminal:
        terminal.wait_for("RUNNING")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    task_id = terminal.wait_for(r"task (\S+) continues").group(1)
    assert outlast(stack, "tasks", "get", task_id, "--json").document["status"] == "working"
    assert outlast(stack, "tasks", "cancel", task_id, "--wait").code == 0
    task = outlast(stack, "tasks", "get", task_id, "--json").document
    assert (task["status"], task["run"]["status"]) == ("cancelled", "ABORTED")
    assert outlast(stack, "tasks", "result", task_id).code == 1
    again = outlast(stack, "tasks", "cancel", task_id)
    assert (again.code, "has ended" in again.err) == (2, True)


def test_an_async_call_answers_when_the_run_has_started(stack: RunningStack) -> None:
    ended = outlast(stack, "call", "outlast/sleeper", "-a", "seconds=60", "--mode", "openai", "--json")
    assert ended.code == 0, ended.err
    task = ended.document["task"]
    assert (task["status"], ended.document["result"]["structured"]["status"]) == ("completed", "READY")
    assert outlast(stack, "tasks", "cancel", task["id"], "--wait").code == 0


async def test_watching_survives_the_death_of_the_api_and_is_told_every_event_once(stack: RunningStack) -> None:
    task_id = sleeper(stack, 8)
    watching = await asyncio.create_subprocess_exec(
        *outlast_command("tasks", "watch", task_id, "--json"), cwd=ROOT, env=stack.environment, stdout=subprocess.PIPE
    )
    assert watching.stdout is not None
    lines = [await watching.stdout.readline(), await watching.stdout.readline()]
    back = stack.said("ready", "api")
    os.kill(stack.pid("api"), signal.SIGKILL)
    lines += (await watching.stdout.read()).splitlines()
    ids = [event["id"] for event in map(json.loads, lines) if event["id"]]
    assert await watching.wait() == 0
    assert len(ids) == len(set(ids)) == 5
    await eventually(lambda: stack.said("ready", "api") > back, timeout_seconds=180)


def test_mistakes_are_refused_with_what_to_do(stack: RunningStack) -> None:
    unknown = outlast(stack, "call", "no-such-tool", "{}")
    assert unknown.code == 2
    assert "no-such-tool" in unknown.err
    broken = outlast(stack, "call", "outlast/sleeper", '{"seconds": "many", "steps": 0}')
    assert broken.code == 2
    assert "/seconds:" in broken.err
    assert "/steps:" in broken.err
    assert outlast(stack, "call", "outlast/sleeper", "-", stdin="{").code == 2
    assert outlast(stack, "tasks", "get", "no-such-task").code == 2
    assert outlast(stack, "tasks", "ls", "--page-token", "nonsense").code == 2
    for address in ("http://localhost:8080/hook", "http://127.0.0.1:9000/hook"):
        webhook = outlast(stack, "webhooks", "create", address)
        assert webhook.code == 2
        assert "OUTLAST_ALLOW_PRIVATE_ADDRESSES=true" in webhook.err


def test_doctor_finds_everything_well(stack: RunningStack) -> None:
    ended = outlast(stack, "doctor", "--json")
    health = {check["name"]: check["health"] for check in ended.document["checks"]}
    assert (ended.code, ended.document["ok"]) == (0, True), ended.out
    parts = ("Stack", "API", "Temporal", "Worker", "Credential", "Tools", "Platform", "Worker metrics", "Temporal UI")
    assert {name: health[name] for name in parts} == dict.fromkeys(parts, "ok")


def test_a_second_stack_on_the_same_directory_is_refused_by_name(stack: RunningStack) -> None:
    ended = outlast(stack, "up")
    assert ended.code == 2
    assert f"process {stack.process.pid}" in ended.err


async def test_up_tells_when_a_part_was_killed_and_is_back(stack: RunningStack) -> None:
    os.kill(stack.pid("worker"), signal.SIGKILL)
    await eventually(lambda: stack.said("exited", "worker") and stack.said("restarting", "worker"), timeout_seconds=180)
    await eventually(lambda: stack.said("ready", "worker") > stack.said("exited", "worker"), timeout_seconds=180)
    await eventually(lambda: outlast(stack, "doctor", "--json").code == 0, timeout_seconds=180)


def test_a_large_output_is_fetched_in_parts_whole_and_verified(stack: RunningStack, tmp_path: Path) -> None:
    called = outlast(stack, "call", "outlast/big-table", "-a", "rows=500", "-a", "columns=narrow", "--json")
    assert called.code == 0, called.err
    locator = called.document["result"]["locator"]
    shown = outlast(stack, "output", "get", locator, "--rows", "100:102", "--fields", "id")
    assert [json.loads(line) for line in shown.out.splitlines()] == [{"id": 100}, {"id": 101}]
    file = tmp_path / "all.jsonl"
    assert outlast(stack, "output", "get", locator, "-o", str(file)).code == 0
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == list(range(500))
    told = outlast(stack, "output", "info", locator, "--json").document
    assert (told["count"], told["size_bytes"]) == (500, file.stat().st_size)
    assert "every byte is what was stored" in outlast(stack, "output", "verify", locator).out
    refused = outlast(stack, "output", "get", locator, "--filter", "id >")
    assert (refused.code, "not valid JMESPath" in refused.err) == (2, True)
    assert outlast(stack, "output", "rm", locator).code == 0
    assert "was deleted" in outlast(stack, "output", "get", locator).err


def test_a_part_file_is_verified_without_a_server(stack: RunningStack, data_dir: Path) -> None:
    outlast(stack, "call", "outlast/big-table", "-a", "rows=300", "-a", "columns=narrow")
    part = next((data_dir / "outputs" / "parts").rglob("*.zst"))
    intact = outlast(stack, "output", "verify", str(part), "--json")
    assert (intact.code, intact.document["intact"]) == (0, True)
    damaged = part.with_name("damaged.zst")
    damaged.write_bytes(part.read_bytes()[:-1])
    try:
        broken = outlast(stack, "output", "verify", str(damaged))
    finally:
        damaged.unlink()
    assert broken.code == 1
    assert "✗" in broken.out
