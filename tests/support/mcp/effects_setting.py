"""Workers with the MCP server of `effects_server`, which a test kills in the middle of calls."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from outlast.activities.contracts import Caller
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.workflow_requests import update_with_start
from outlast.worker.ended_runs import task_outcome
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ServerCall, ToolCall, ToolOutcome
from outlast.workflows.tool_call import ToolCallWorkflow
from tests.support.mcp import effects_server
from tests.support.ports import free_port
from tests.support.processes.module_process import ServedProcess, started_module
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import settings_environment

SAFE: dict[str, Any] = {"repeats_safely": True, "read_only": True}
VERIFY = mcp.Verify(tool="lines", arguments={"text": "{text}"}, done="length(structured.lines) > `0`")


def server_entry(program: str = sys.executable, version: str = "2.0", **options: Any) -> dict[str, Any]:
    """An entry of a file of MCP servers; version 2.1 of the server crashes at each call."""
    return {"command": program, "args": [effects_server.__file__, f"notes@{version}"], "outlast": options}


class EffectsSetting:
    """A Temporal server, the file of the servers, and the effects of their calls."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.effects = folder / "effects"
        self.gate = folder / "gate"
        self.path = folder / "servers.json"
        server = {**server_entry(), "env": {"EFFECTS": str(self.effects)}}
        self.path.write_text(json.dumps({"mcpServers": {"effects": server}}))

    @property
    def lines(self) -> list[str]:
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    @contextmanager
    def worker(self, **settings: str) -> Iterator[ServedProcess]:
        """A worker; `ready_url` of it has its metrics."""
        port, name = free_port(), uuid.uuid4().hex
        nowhere = Sandbox("http://127.0.0.1:9", "none", self.folder / "no.log")
        own = {
            "OUTLAST_DATA_DIR": str(self.folder),
            "OUTLAST_WORKER_METRICS_PORT": str(port),
            "OUTLAST_MCP_SERVERS_FILE": str(self.path),
        }
        environment = settings_environment(self.address, nowhere, **{**own, **settings})
        ready, log = f"http://127.0.0.1:{port}/metrics", self.folder / f"{name}.log"
        with started_module("outlast.worker", ready_url=ready, log=log, environment=environment) as worker:
            worker.await_answer()
            yield worker

    def open_gate(self) -> None:
        """Let calls with the gate answer."""
        self.gate.touch()

    def kill_server(self) -> None:
        """Kill the processes of the server."""
        found = subprocess.run(["pgrep", "-f", effects_server.__file__], capture_output=True, text=True, check=False)
        mark = f"EFFECTS={self.effects}".encode()
        for pid in found.stdout.split():
            if mark in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(int(pid), signal.SIGKILL)


async def begun(
    client: Client, tool: str, arguments: dict[str, Any], **server: Any
) -> WorkflowHandle[ToolCallWorkflow, ToolOutcome]:
    given: dict[str, Any] = {"session": "caller", "session_key": "k", "repeats_safely": False, **server}
    call = ToolCall(
        tool=f"effects__{tool}",
        arguments=arguments,
        caller=Caller(id="anna"),
        server=ServerCall(server="effects", tool=tool, **given),
    )
    return await client.start_workflow(
        ToolCallWorkflow.run, call, id=f"call-{uuid.uuid4().hex}", task_queue=TOOLS_TASK_QUEUE
    )


async def called(client: Client, tool: str, arguments: dict[str, Any], **server: Any) -> ToolOutcome:
    return await task_outcome(await begun(client, tool, arguments, **server))


async def listed(client: Client, **request: Any) -> mcp.ServerListing:
    given = mcp.ListServerInput(server="effects", config_digest="d", **request)
    state = mcp.ServerState(server="effects", kind="stdio")
    name = mcp.server_workflow_id("effects")
    return await update_with_start(
        client,
        mcp.LIST_TOOLS_UPDATE,
        given,
        mcp.ServerListing,
        mcp.SERVER_WORKFLOW,
        state,
        id=name,
        task_queue=TOOLS_TASK_QUEUE,
    )
