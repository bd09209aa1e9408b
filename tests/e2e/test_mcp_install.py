"""What `outlast mcp install` has written is what a real client starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.state import find_running
from tests.support.eventually import eventually
from tests.support.processes.installed import node, npm_package, path_with_node
from tests.support.stacks.stack_config import clean_environment

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]
PORTS = [f"OUTLAST_{name.upper()}=0" for name in StackConfig.model_fields if name.endswith("_port")]


def said(command: list[str], home: Path) -> str:
    environment = clean_environment(HOME=str(home), PATH=path_with_node())
    ended = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False, timeout=200)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


async def test_a_client_starts_the_server_that_was_installed_and_calls_a_tool(tmp_path: Path) -> None:
    outlast = str(Path(sys.executable).parent / "outlast")
    data_dir = tmp_path / "data"
    flags = [part for port in PORTS for part in ("--env", port)]
    offered = ["--mode", "apify", "--tools", "actors", "--ui", "apps"]
    said([outlast, "mcp", "install", "cursor", *offered, "--data-dir", str(data_dir), *flags], tmp_path)
    package = npm_package("@modelcontextprotocol/inspector", "2.12.0")
    client = [str(node()), str(package / "clients" / "launcher" / "build" / "index.js"), "--cli"]
    client += ["--config", str(tmp_path / ".cursor" / "mcp.json"), "--server", "outlast"]
    client += ["--connect-timeout", "180000"]  # A stack starts first; the inspector would wait half a minute for that.
    call = ["--method", "tools/call", "--tool-name", "search-actors-widget", "--tool-arg", "keywords=sleeper"]
    answer = json.loads(said([*client, *call], tmp_path))
    assert answer["structuredContent"]["actors"][0]["fullName"] == "outlast/sleeper", "an answer of the mode"
    state = find_running(data_dir)
    assert state is not None, "the client has used a stack on the data directory that was named"
    await eventually(lambda: find_running(data_dir) is None, timeout_seconds=180)
