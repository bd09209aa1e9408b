"""Calls of tools of MCP servers: the workflow and real workers with real servers, which are killed in the middle."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from outlast.activities.contracts import Caller
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.workflow_requests import update_with_start
from outlast.worker.ended_runs import task_outcome
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.questions import InputAnswer, InputRequests, SubmitInput
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ServerCall, ToolCall, ToolOutcome
from outlast.workflows.tool_call import ToolCallWorkflow
from tests.support.eventually import eventually
from tests.support.mcp import effects_server
from tests.support.ports import free_port
from tests.support.processes.module_process import ServedProcess, started_module
from tests.support.stacks.api_server import connect
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import settings_environment
from tests.support.stacks.temporal import running_temporal

SAFE: dict[str, Any] = {"repeats_safely": True, "read_only": True}
VERIFY = mcp.Verify(tool="lines", arguments={"text": "{text}"}, done="length(structured.lines) > `0`")


class Setting:
    """A Temporal server, the file of the servers, and the effects of their calls."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.effects = folder / "effects"
        self.gate = folder / "gate"
        self.path = folder / "servers.json"
        server = {"command": sys.executable, "args": [effects_server.__file__], "env": {"EFFECTS": str(self.effects)}}
        self.path.write_text(json.dumps({"mcpServers": {"effects": server}}))

    @property
    def lines(self) -> list[str]:
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    @contextmanager
    def worker(self) -> Iterator[ServedProcess]:
        port, name = free_port(), uuid.uuid4().hex
        nowhere = Sandbox("http://127.0.0.1:9", "none", self.folder / "no.log")
        environment = settings_environment(
            self.address,
            nowhere,
            OUTLAST_DATA_DIR=str(self.folder),
            OUTLAST_WORKER_METRICS_PORT=str(port),
            OUTLAST_MCP_SERVERS_FILE=str(self.path),
        )
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


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    with running_temporal(tmp_path) as server:
        yield Setting(tmp_path, server.address)


@pytest.fixture
async def client(setting: Setting) -> Client:
    return await connect(setting.address)


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


async def test_tools_are_listed_and_the_last_list_remains_while_the_server_is_down(
    setting: Setting, client: Client
) -> None:
    with setting.worker():
        listing = await listed(client)
        assert listing.error is None
        assert {tool.name: tool.annotated for tool in listing.tools}.items() >= {"append": False, "put": True}.items()
        assert listing.instructions == "Count the effects."
        assert await listed(client, max_age_seconds=3600) == listing
        setting.path.write_text(json.dumps({"mcpServers": {"effects": {"command": "/no/such/program"}}}))
        down = await listed(client)
        assert down.tools == listing.tools
        assert "cannot be started" in (down.error or "")
        handle = client.get_workflow_handle(mcp.server_workflow_id("effects"))
        status = await handle.query(mcp.STATUS_QUERY, result_type=mcp.ServerStatus)
        assert (status.state, status.tools) == ("down", len(listing.tools))


async def test_calls_share_the_session_of_their_key_and_large_answers_are_stored(
    setting: Setting, client: Client
) -> None:
    with setting.worker():
        texts = [(await called(client, "count", {})).result.text for _ in range(2)]
        assert texts == ["1", "2"]
        assert (await called(client, "count", {}, session="call")).result.text == "1"
        large = (await called(client, "large", {}, **SAFE)).result
        assert large.locator is not None
        assert not large.is_error


async def test_what_a_killed_server_leaves_behind(setting: Setting, client: Client) -> None:
    gate = str(setting.gate)
    with setting.worker():
        unsafe = await begun(client, "append", {"text": "a", "gate": gate}, session_key="unsafe")
        verified = await begun(client, "append", {"text": "b", "gate": gate}, session_key="verified", verify=VERIFY)
        stated = await begun(client, "put", {"text": "c", "gate": gate}, session="shared", session_key="s", **SAFE)
        await eventually(lambda: sorted(setting.lines) == ["a", "b", "c"])
        setting.kill_server()
        setting.open_gate()
        error = (await task_outcome(unsafe)).result.error
        assert error is not None
        assert error.category == "outcome_unknown"
        assert "Do not repeat the call" in (error.hint or "")
        adopted = (await task_outcome(verified)).result
        assert not adopted.is_error
        assert "it was executed" in adopted.text
        assert (await task_outcome(stated)).result.text == "did c"
        told = (await called(client, "append", {"text": "d"}, session_key="unsafe")).result.error
        assert told is not None
        assert told.category == "conflict"
        assert told.message.startswith("The session with the MCP server effects was lost")
        assert (await called(client, "append", {"text": "d"}, session_key="unsafe")).result.text == "did d"
    assert sorted(setting.lines) == ["a", "b", "c", "c", "d"]


async def test_what_a_killed_worker_leaves_behind(setting: Setting, client: Client) -> None:
    gate = str(setting.gate)
    with ExitStack() as stack:
        first = stack.enter_context(setting.worker())
        unsafe = await begun(client, "append", {"text": "a", "gate": gate})
        safe = await begun(client, "put", {"text": "b", "gate": gate}, session="shared", **SAFE)
        await eventually(lambda: sorted(setting.lines) == ["a", "b"])
        first.process.kill()
        first.process.wait()
        setting.open_gate()
        stack.enter_context(setting.worker())
        error = (await task_outcome(unsafe)).result.error
        assert error is not None
        assert error.category == "outcome_unknown"
        assert "its worker was lost" in error.message
        assert (await task_outcome(safe)).result.text == "did b"
        told = (await called(client, "append", {"text": "c"})).result.error
        assert told is not None
        assert told.category == "conflict"
        assert (await called(client, "append", {"text": "c"})).result.text == "did c"
    assert sorted(setting.lines) == ["a", "b", "b", "c"]


async def test_what_a_stopped_worker_leaves_behind(setting: Setting, client: Client) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(setting.worker())
        unsafe = await begun(client, "append", {"text": "a", "gate": str(setting.gate)})
        await eventually(lambda: setting.lines == ["a"])
        first.process.terminate()
        stack.enter_context(setting.worker())
        error = (await task_outcome(unsafe)).result.error
        assert error is not None
        assert error.category == "outcome_unknown"
        assert "Its worker was stopped" in error.message
    assert setting.lines == ["a"]


async def test_a_question_of_the_server_goes_to_the_caller(setting: Setting, client: Client) -> None:
    with setting.worker():
        asking = await begun(client, "ask", {}, session="shared", **SAFE)

        async def asked() -> InputRequests | None:
            found = await (await asking.describe()).memo()
            requests = found.get(memo.INPUT_REQUESTS)
            return InputRequests.model_validate(requests) if requests and requests["requests"] else None

        questions = (await eventually(asked)).requests
        assert [question.message for question in questions.values()] == ["Who is there?"]
        answers = {key: InputAnswer(action="accept", content={"name": "Bea"}) for key in questions}
        await asking.execute_update(ToolCallWorkflow.submit_input, SubmitInput(answers=answers))
        assert "Bea" in (await task_outcome(asking)).result.text
