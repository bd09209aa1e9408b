"""What `outlast mcp install` has written is what a real client starts."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.state import find_running
from tests.support.eventually import eventually
from tests.support.processes.installed import node, npm_package, path_with_node
from tests.support.stacks.stack_config import clean_environment

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]
PORTS = [f"OUTLAST_{name.upper()}=0" for name in StackConfig.model_fields if name.endswith("_port")]
PORTS += ["OUTLAST_READY_TIMEOUT=180s"]


def said(command: list[str], home: Path, folder: Path = Path("/")) -> str:
    environment = clean_environment(HOME=str(home), PATH=path_with_node())
    ended = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=200
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def joined(data_dir: Path, tools: Path) -> "subprocess.CompletedProcess[str]":
    """An `outlast mcp` with tools that the running stack may not have; its client leaves at once."""
    outlast = str(Path(sys.executable).parent / "outlast")
    command = [outlast, "mcp", "--data-dir", str(data_dir), "--tools-from", str(tools)]
    environment = clean_environment()
    return subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=False, timeout=200)


async def test_a_client_starts_the_server_that_was_installed_and_calls_a_tool(tmp_path: Path) -> None:
    outlast = str(Path(sys.executable).parent / "outlast")
    data_dir = tmp_path / "data"
    flags = [part for port in PORTS for part in ("--env", port)]
    offered = ["--mode", "apify", "--tools", "actors", "--ui", "apps"]
    said([outlast, "mcp", "install", "cursor", *offered, "--data-dir", str(data_dir), *flags], tmp_path)
    configuration = tmp_path / ".cursor" / "mcp.json"
    entries = json.loads(configuration.read_text())
    entries["mcpServers"]["outlast"]["requestTimeout"] = 180_000  # A stack starts first; the inspector waits a minute.
    configuration.write_text(json.dumps(entries))
    package = npm_package("@modelcontextprotocol/inspector", "2.12.0")
    client = [str(node()), str(package / "clients" / "launcher" / "build" / "index.js"), "--cli"]
    client += ["--config", str(configuration), "--server", "outlast"]
    client += ["--connect-timeout", "180000"]
    call = ["--method", "tools/call", "--tool-name", "search-actors-widget", "--tool-arg", "keywords=sleeper"]
    answer = json.loads(said([*client, *call], tmp_path))
    assert answer["structuredContent"]["actors"][0]["fullName"] == "outlast/sleeper", "an answer of the mode"
    state = find_running(data_dir)
    assert state is not None, "the client has used a stack on the data directory that was named"
    await eventually(lambda: find_running(data_dir) is None, timeout_seconds=180)


async def test_a_client_gets_the_users_tools_from_any_folder_and_calls_one(tmp_path: Path) -> None:
    """The official client starts what was written, in `/`, and a second one with other tools is refused."""
    outlast = str(Path(sys.executable).parent / "outlast")
    data_dir, folder = tmp_path / "data", tmp_path / "project"
    folder.mkdir()
    (folder / "words.py").write_text("GREETING = 'Hello'\n")
    (folder / "my_tools.py").write_text(
        "from words import GREETING\nfrom outlast import tool\n\n"
        "@tool\ndef greet(name: str) -> str:\n    '''Greet.'''\n    return f'{GREETING}, {name}!'\n"
    )
    flags = [part for port in PORTS for part in ("--env", port)]
    install = [outlast, "mcp", "install", "cursor", "--tools-from", "my_tools.py", "--data-dir", str(data_dir), *flags]
    said(install, tmp_path, folder)
    entry = json.loads((tmp_path / ".cursor" / "mcp.json").read_text())["mcpServers"]["outlast"]
    server = StdioServerParameters(
        command=entry["command"], args=entry["args"], env=clean_environment(**entry["env"]), cwd="/"
    )
    async with Client(stdio_client(server), mode="legacy", read_timeout_seconds=300) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        answer = await client.call_tool("greet", {"name": "Ann"})
        other = folder / "others.py"
        other.write_text((folder / "my_tools.py").read_text().replace("greet", "greet_again"))
        refused = await asyncio.to_thread(joined, data_dir, other)
    assert "greet" in names
    assert "call-actor" not in names, "of Apify's tools, only what is asked for"
    assert answer.structured_content == {"result": "Hello, Ann!"} or "Hello, Ann!" in str(answer.content)
    assert refused.returncode == 2
    assert f"has not loaded {other}" in refused.stderr.replace("\n", " ")
    await eventually(lambda: find_running(data_dir) is None, timeout_seconds=180)
