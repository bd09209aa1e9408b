"""A backup of a working stack, restored elsewhere after the stack was killed: every task ends, no run is paid twice."""

import json
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.eventually import eventually
from tests.support.http.api_client import api_client, bearer
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.outlast_up import RunningStack, running_stack
from tests.support.stacks.sandbox import Sandbox, running_sandbox
from tests.support.stacks.stack_config import clean_environment


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The outside world: it outlives every stack."""
    with running_sandbox(tmp_path_factory.mktemp("platform")) as sandbox:
        yield sandbox


async def test_a_stack_that_was_killed_goes_on_elsewhere_from_its_backup(platform: Sandbox, tmp_path: Path) -> None:
    settings = {
        "APIFY_TOKEN": platform.token,
        "APIFY_API_BASE_URL": platform.url,
        "OUTLAST_TAKEOVER_SECONDS": "1",
        "OUTLAST_RUN_HEARTBEAT_SECONDS": "5",
    }
    archive, guest = tmp_path / "outlast.tar.zst", platform.add_user("guest").token
    with running_stack(tmp_path / "first", **settings) as first:
        tasks = await work_until_killed(first, platform, archive, guest)

    restored = outlast("restore", archive, "--data-dir", tmp_path / "second")
    assert "no longer runs" in restored["left_to_do"][0]
    assert json.loads((tmp_path / "second" / "version.json").read_text())["outlast_version"] == version("outlast")
    with running_stack(tmp_path / "second", **settings) as second:
        assert second.addresses.api_url
        async with api_client(second.addresses.api_url, timeout_seconds=30) as http:
            for moment, task in tasks.items():
                await expect_completed(http, task, bearer(guest) if moment == "sealed" else {})
            stored = (await http.get(f"/v1/tasks/{tasks['stored']}/result")).json()["result"]["structured"]
        outlast("output", "verify", stored["locator"], "--data-dir", second.data_dir)
    assert platform.counters["startsAccepted"] == len(tasks), "a run was paid again"
    assert all(len(runs) == 1 for runs in platform.counters["operations"].values())


async def work_until_killed(stack: RunningStack, platform: Sandbox, archive: Path, guest: str) -> dict[str, str]:
    """The tasks, which are at different moments of their lives when the backup is made.

    The stack goes on with them, and starts runs that the backup does not know, before it is killed.
    """
    assert stack.addresses.api_url
    async with api_client(stack.addresses.api_url, timeout_seconds=30) as http:
        tasks = {"ended": await call(http, seconds=0), "stored": await call(http, seconds=0, rows=500)}
        for task in tasks.values():
            await expect_completed(http, task, {})
        tasks["run going on"] = await call(http, seconds=15)
        await eventually(lambda: platform.counters["startsAccepted"] == len(tasks))
        worker = psutil.Process(stack.pid("worker"))
        worker.suspend()
        tasks["not begun"] = await call(http, seconds=5)
        tasks["sealed"] = await call(http, seconds=5, headers=bearer(guest))
        made = outlast("backup", archive, "--data-dir", stack.data_dir)
        assert made["has_secrets"] is True
        worker.resume()
        await eventually(lambda: platform.counters["startsAccepted"] == len(tasks))
    stack.process.kill()
    stack.process.wait()
    return tasks


async def call(http: httpx.AsyncClient, *, seconds: float, rows: int = 3, headers: dict[str, str] | None = None) -> str:
    """The id of a call of the sleeper that was accepted."""
    arguments = {"actor": "outlast/sleeper", "input": {"seconds": seconds, "steps": 5, "rows": rows}}
    answer = await http.post("/v1/tasks", json={"tool": "call-actor", "arguments": arguments}, headers=headers)
    return answer.raise_for_status().json()["id"]


async def expect_completed(http: httpx.AsyncClient, task: str, headers: dict[str, str]) -> None:
    async def completed() -> bool:
        found = (await http.get(f"/v1/tasks/{task}", headers=headers)).raise_for_status().json()
        assert found["status"] == "completed", found
        return True

    await eventually(completed, interval_seconds=0.2)


def outlast(*arguments: object) -> dict[str, Any]:
    """What a command prints, which has to work."""
    command = outlast_command(*map(str, arguments), "--json")
    ended = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)
