"""Skills, files and commands through the whole service: who is offered what, and what becomes of a call."""

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from temporalio.client import Client

from outlast.deploy.local.temporal_server import TemporalServer
from outlast.workflows.tools import registry
from outlast.workflows.tools.framework.tool import with_description
from tests.integration.shared_tools.conftest import caller_of
from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service, running_service
from tests.support.stacks.temporal import running_temporal

ON_DEMAND = {"Skill", "LoadSkillSupporting", "Read", "Bash"}


def bash(command: str, session: str = "shell", **arguments: Any) -> dict[str, Any]:
    return {"tool": "Bash", "arguments": {"command": command, **arguments}, "session_id": session}


def read(path: str, session: str = "shell", **arguments: Any) -> dict[str, Any]:
    return {"tool": "Read", "arguments": {"path": path, **arguments}, "session_id": session}


def text_of(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]


def alive(mark: str) -> bool:
    return any(
        mark in part
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != "zombie"
        for part in process.info["cmdline"] or ()
    )


async def test_they_are_offered_where_they_are_configured_and_nowhere_else(
    full: httpx.AsyncClient, plain: httpx.AsyncClient
) -> None:
    offered, lacking = [
        {tool["name"] for tool in (await api.get("/v1/tools")).json()["tools"]} for api in (full, plain)
    ]
    assert offered - lacking == ON_DEMAND
    assert {"react_emoji", "send_update"} <= lacking
    for name in ON_DEMAND:
        refused = await plain.post("/v1/tasks", json={"tool": name, "arguments": {}})
        assert (refused.status_code, name in refused.json()["error"]["allowed_tools"]) == (404, False)


async def test_a_worker_that_lacks_them_says_what_is_missing(
    plain_service: Service, plain_temporal: Client, shared_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another API on the same Temporal server offers what its worker was not given."""
    monkeypatch.setattr(registry, "_COMMON", list(registry.COMMON))
    monkeypatch.setattr(registry, "_BY_MODE", dict(registry._BY_MODE))  # pyright: ignore[reportPrivateUsage]
    registry.offer_on_demand(sorted(ON_DEMAND))
    registry.offer_on_demand(sorted(ON_DEMAND))
    async with serving_api(plain_temporal, api_settings(shared_sandbox)) as api:
        for body, setting in (
            (bash("true"), "OUTLAST_ENABLE_BASH"),
            (read("a"), "OUTLAST_ENABLE_READ"),
            ({"tool": "Skill", "arguments": {"name": "a"}}, "OUTLAST_SKILLS_DIR"),
        ):
            answer = await completed(api, body)
            error = answer["result"]["error"]
            assert (error["tool"], setting in error["hint"]) == (body["tool"], True)


async def test_no_other_tool_takes_the_name_of_one_that_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_COMMON", list(registry.COMMON))
    monkeypatch.setattr(registry, "_BY_MODE", dict(registry._BY_MODE))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ValueError, match="'Bash' already"):
        registry.extend([with_description(registry.ON_DEMAND["Bash"], "Mine")])


async def test_a_skill_is_loaded_with_its_files(full: httpx.AsyncClient) -> None:
    main = await completed(full, {"tool": "Skill", "arguments": {"name": "invoices"}})
    assert text_of(main) == (
        "# Invoices\nSee rules/vat.md.\n\nSupporting files of this skill (LoadSkillSupporting loads them):\n"
        "- rules/long.md\n- rules/vat.md"
    )
    file = {"tool": "LoadSkillSupporting", "arguments": {"name": "invoices", "path": "rules/vat.md"}}
    assert text_of(await completed(full, file)) == "7 % or 19 %"
    wrong = await completed(full, {"tool": "Skill", "arguments": {"name": "invoice"}})
    assert wrong["result"]["error"]["hint"] == "Did you mean invoices?"
    outside = {"tool": "LoadSkillSupporting", "arguments": {"name": "invoices", "path": "../../secret"}}
    assert (await completed(full, outside))["result"]["error"]["category"] == "validation"


async def test_a_large_document_is_stored_and_restored(full: httpx.AsyncClient) -> None:
    file = {"tool": "LoadSkillSupporting", "arguments": {"name": "invoices", "path": "rules/long.md"}}
    answer = await completed(full, file)
    assert answer["result"]["structured"]["compressed"] is True
    whole = await full.get(f"/v1/outputs/{answer['result']['locator']}")
    assert whole.text == "A long rule.\n" * 5_000


async def test_skills_are_listed_to_mcp_clients_that_can_load_them(full_service: Service) -> None:
    headers = {"Authorization": "Bearer key-of-caller-number-one"}
    instructions: list[str] = []
    for query in ("?tools=Skill", "?tools=docs"):
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
        accept = {"Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(
            base_url=full_service.api_url, headers=headers | accept, trust_env=False, timeout=180
        ) as http:
            instructions.append((await http.post(f"/mcp{query}", json=request)).text)
    assert "invoices: How to check invoices." in instructions[0]
    assert "invoices" not in instructions[1]


@pytest.mark.needs("bubblewrap")
async def test_commands_and_files_share_the_workspace_of_the_conversation(
    full: httpx.AsyncClient, full_service: Service
) -> None:
    written = await completed(full, bash("seq 1 5 > numbers.txt; echo done; exit 4"))
    assert (text_of(written), written["result"]["is_error"]) == ("Exit code 4.\ndone", False)
    assert written["result"]["meta"]["outlast/exitCode"] == 4
    lines = await completed(full, read("/workspace/numbers.txt", offset=1, limit=2))
    assert text_of(lines) == "/workspace/numbers.txt (10 bytes), lines 1 to 2; more with offset 3:\n2\n3\n"
    elsewhere = await completed(full, read("numbers.txt", session="another"))
    assert elsewhere["result"]["error"]["category"] == "filesystem"
    async with caller_of(full_service, "two") as other:
        theirs = await completed(other, read("numbers.txt"))
        assert theirs["result"]["error"]["category"] == "filesystem"


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("target", ["/etc/passwd", "/proc/self/environ", "../../../../etc/passwd", ".."])
async def test_a_link_made_by_a_command_is_not_followed_out(full: httpx.AsyncClient, target: str) -> None:
    await completed(full, bash(f"ln -sfn {target} link; mkfifo -m 666 fifo 2>&1; true"))
    for path in ("link", "link/passwd", "fifo", target):
        answer = await completed(full, read(path))
        assert answer["result"]["error"]["category"] == "filesystem", path


@pytest.mark.needs("bubblewrap")
async def test_a_large_output_is_stored(full: httpx.AsyncClient) -> None:
    answer = await completed(full, bash("seq 1 20000"))
    assert answer["result"]["structured"]["compressed"] is True
    whole = (await full.get(f"/v1/outputs/{answer['result']['locator']}")).text
    assert whole.splitlines() == ["Exit code 0.", *map(str, range(1, 20_001))]


@pytest.mark.needs("bubblewrap")
async def test_a_command_knows_no_secret_of_the_worker(full: httpx.AsyncClient) -> None:
    answer = await completed(full, bash("env; cat /proc/*/environ | tr '\\0' '\\n'"))
    assert "HOME=/workspace" in text_of(answer)
    for secret in ("secretOfTheWorker", "OUTLAST", "APIFY"):
        assert secret not in text_of(answer)


@pytest.mark.needs("bubblewrap")
async def test_a_command_is_killed_after_its_time(full: httpx.AsyncClient) -> None:
    mark = f"8{secrets.randbelow(10**9):09}"
    answer = await completed(full, bash(f"echo begun; sleep {mark}", timeoutSecs=5))
    assert answer["result"]["error"]["category"] == "timeout"
    assert text_of(answer) == "The command did not end within 5 seconds and was killed.\nbegun"
    assert not alive(mark)


@pytest.mark.needs("bubblewrap")
async def test_cancelling_a_task_kills_its_command_first(full: httpx.AsyncClient) -> None:
    mark = f"8{secrets.randbelow(10**9):09}"
    task_id = await started(full, bash(f"setsid sleep {mark} & sleep {mark}", timeoutSecs=600))
    await eventually(lambda: alive(mark))
    await full.post(f"/v1/tasks/{task_id}/cancel")
    assert (await result_of(full, task_id))["task"]["status"] == "cancelled"
    assert not alive(mark)


@pytest.fixture
def own_temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """Not the one of other tests: their workers poll the same task queues and are set up otherwise."""
    with running_temporal(tmp_path_factory.mktemp("own-temporal")) as server:
        yield server


@pytest.mark.needs("bubblewrap")
async def test_a_command_is_not_run_again_when_its_worker_died(
    tmp_path_factory: pytest.TempPathFactory,
    own_temporal: TemporalServer,
    shared_sandbox: Sandbox,
    reachable: Path,
) -> None:
    mark = f"8{secrets.randbelow(10**9):09}"
    settings = {
        "OUTLAST_WORKSPACE_DIR": str(reachable / "killed"),
        "OUTLAST_ENABLE_BASH": "true",
        "OUTLAST_TAKEOVER_SECONDS": "2",
    }
    address = own_temporal.address
    first, second = tmp_path_factory.mktemp("killed"), tmp_path_factory.mktemp("killed-next")
    with running_service(first, address, shared_sandbox, **settings) as service:
        async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=180) as api:
            task_id = await started(api, bash(f"echo x >> runs; sleep {mark}", timeoutSecs=600))
            await eventually(lambda: any(file.read_text() for file in (reachable / "killed").rglob("runs")))
            os.kill(service.worker.process.pid, signal.SIGKILL)
            await eventually(lambda: not alive(mark))
            with running_service(second, address, shared_sandbox, **settings):
                answer = await result_of(api, task_id)
                error = answer["result"]["error"]
                assert "may or may not have run" in error["message"]
                assert not error["retryable"]
                assert text_of(await completed(api, bash("cat runs"))) == "Exit code 0.\nx"


async def test_a_worker_without_a_sandbox_refuses_every_command(
    tmp_path_factory: pytest.TempPathFactory,
    own_temporal: TemporalServer,
    shared_sandbox: Sandbox,
    reachable: Path,
) -> None:
    folder = tmp_path_factory.mktemp("no-sandbox")
    settings = {"OUTLAST_WORKSPACE_DIR": str(reachable / "refused"), "OUTLAST_ENABLE_BASH": "true", "PATH": str(folder)}
    with running_service(folder, own_temporal.address, shared_sandbox, **settings) as service:
        async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=180) as api:
            error = (await completed(api, bash("echo hello")))["result"]["error"]
        assert (error["category"], error["retryable"]) == ("permission", False)
        assert "bwrap is not installed" in error["message"]
        assert "commands are refused" in service.worker.log.read_text()


@pytest.mark.parametrize("arguments", [{"command": ""}, {"command": "x", "timeoutSecs": 601}])
async def test_arguments_are_checked_before_anything_runs(full: httpx.AsyncClient, arguments: dict[str, Any]) -> None:
    refused = await full.post("/v1/tasks", json={"tool": "Bash", "arguments": arguments})
    assert refused.status_code == 422
