"""`outlast dev`, with a file of tools that is edited, broken and mended while calls are open."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import text_of
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.outlast_up import stack_environment

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 300
TOOLS = """
import asyncio
from pathlib import Path

from words import GREETING
from outlast import tool

@tool
def greet(name: str, times: int = 1) -> str:
    '''Greet somebody.

    Args:
        name: Whom.
    '''
    return f"{GREETING}, {name}!"

@tool(timeout=120)
async def wait_for(file: str) -> str:
    '''Wait until a file exists.'''
    Path(file + ".begun").touch()
    while not Path(file).exists():
        await asyncio.sleep(0.1)
    return GREETING
"""


@dataclass
class Dev:
    """A running `outlast dev --json`, with the events that it has printed."""

    process: asyncio.subprocess.Process
    data_dir: Path
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.events.append(json.loads(line))

    async def said(self, event: str, times: int = 1) -> dict[str, Any]:
        """The latest of `times` such events."""

        def found() -> list[dict[str, Any]] | None:
            assert self.process.returncode is None, self.events
            matching = [one for one in self.events if one["event"] == event]
            return matching if len(matching) >= times else None

        return (await eventually(found, timeout_seconds=SECONDS))[-1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "words.py").write_text("GREETING = 'Hello'\n")
    (folder / "my_tools.py").write_text(TOOLS)
    return folder


@pytest.fixture
async def dev(tmp_path: Path, project: Path) -> AsyncIterator[Dev]:
    data_dir = tmp_path / "data"
    process = await asyncio.create_subprocess_exec(
        *outlast_command("dev", "my_tools.py", "--json", "--data-dir", str(data_dir)),
        cwd=project,
        env={**stack_environment(), "OUTLAST_READY_TIMEOUT": str(SECONDS)},
        stdout=subprocess.PIPE,
    )
    running = Dev(process, data_dir)
    reading = asyncio.create_task(running.read())
    yield running
    process.terminate()
    assert await process.wait() == 0
    await reading


async def test_changes_are_loaded_errors_keep_the_old_tools_and_open_calls_complete(dev: Dev, project: Path) -> None:
    shown = {tool["name"]: tool for tool in (await dev.said("tools"))["tools"]}
    greet = shown["greet"]
    assert set(shown) == {"greet", "wait_for"}
    assert greet["description"] == "Greet somebody."
    assert greet["input_schema"]["properties"]["name"]["description"] == "Whom."
    assert greet["command"] == f"outlast call greet -a name=... --data-dir {dev.data_dir}"
    base = greet["rest_url"].removesuffix("/v1/tools/greet/call")
    assert greet["mcp_url"] == f"{base}/mcp?tools=greet"

    async with httpx.AsyncClient(base_url=base, timeout=SECONDS) as api:
        answer = (await api.post(greet["rest_url"], json={"arguments": {"name": "Ann"}})).json()
        assert text_of(answer["result"]) == "Hello, Ann!"
        gate = project / "gate"
        open_call = await started(api, call("wait_for", file=str(gate)))
        await eventually(Path(f"{gate}.begun").exists, timeout_seconds=SECONDS)

        # Also a change of a file that the module imports.
        (project / "words.py").write_text("GREETING = 'Good day'\n")
        assert (await dev.said("reloaded"))["tools"] == [], "no tool is another one for its callers"
        assert await greeting(api, "greet") == "Good day, Ann!"

        (project / "my_tools.py").write_text(TOOLS + "\n\ndef broken(:\n")
        failed = await dev.said("reload_failed")
        line = TOOLS.count("\n") + 3
        assert f"my_tools.py, line {line}: SyntaxError" in failed["message"]
        assert await greeting(api, "greet") == "Good day, Ann!"

        (project / "my_tools.py").write_text(TOOLS.replace("greet(", "welcome("))
        reloaded = await dev.said("reloaded", times=2)
        assert [tool["name"] for tool in reloaded["tools"]] == ["welcome"]
        assert reloaded["removed"] == ["greet"]
        assert await greeting(api, "welcome") == "Good day, Ann!"
        names = {tool["name"] for tool in (await api.get("/v1/tools")).json()["tools"]}
        assert names >= {"welcome", "wait_for"}
        assert not names & {"greet", "call-actor"}

        gate.touch()
        assert text_of((await result_of(api, open_call))["result"]) == "Good day"


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


async def greeting(api: httpx.AsyncClient, tool: str) -> str:
    return text_of((await completed(api, call(tool, name="Ann")))["result"])
