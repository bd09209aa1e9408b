"""The stack with a real Temporal server."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowExecutionStatus
from temporalio.common import Priority, SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from outlast.deploy.local.config import Component
from outlast.deploy.local.errors import DataDirectoryInUseError
from outlast.deploy.local.ports import is_free
from outlast.deploy.local.stack import Stack
from outlast.deploy.local.state import find_running, read_state
from outlast.deploy.local.temporal_server import SEARCH_ATTRIBUTES, TemporalServer
from outlast.worker.search_attributes import WANTED, register_search_attributes, type_name
from outlast.workflows.contracts.search_attributes import LOCATORS, RELEASED_AT, TOOL
from tests.integration.stack.greeter import Greeter
from tests.support.eventually import eventually
from tests.support.stacks.stack_config import Events, free_ports_config, running_children, start_stack_process


async def connect(address: str | None) -> Client:
    return await Client.connect(str(address), lazy=False)


async def status_of(client: Client, workflow_id: str) -> WorkflowExecutionStatus | None:
    try:
        return (await client.get_workflow_handle(workflow_id).describe()).status
    except RPCError:
        return None


async def test_a_workflow_survives_kill_9_of_the_server(tmp_path: Path) -> None:
    events = Events()
    async with Stack(free_ports_config(tmp_path, Component.TEMPORAL), on_event=events.append) as stack:
        client = await connect(stack.addresses.temporal_address)
        handle = await client.start_workflow(Greeter.run, id=f"greeter-{uuid4()}", task_queue="stack")
        pid = stack.pid("temporal")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: events.kinds_of("temporal").count("ready") == 2)
        await eventually(lambda: status_of(client, handle.id))
        async with Worker(client, task_queue="stack", workflows=[Greeter], workflow_runner=UnsandboxedWorkflowRunner()):
            await handle.signal(Greeter.finish)
            assert await handle.result() == "hello"


async def test_a_workflow_survives_kill_9_of_the_whole_stack(tmp_path: Path) -> None:
    config = free_ports_config(tmp_path, Component.TEMPORAL)
    with start_stack_process(config) as parent:
        await eventually(lambda: (find_running(tmp_path) or None) and running_children(find_running(tmp_path)))
        state = read_state(tmp_path)
        assert state is not None
        client = await eventually(lambda: try_connect(state.addresses.temporal_address))
        handle = await client.start_workflow(Greeter.run, id=f"greeter-{uuid4()}", task_queue="stack")
        parent.kill()
    # A killed process is a zombie before the last of its threads has closed its ports.
    await eventually(lambda: not running_children(state) and is_free("127.0.0.1", state.ports["temporal"]))
    async with Stack(config) as stack:
        client = await connect(stack.addresses.temporal_address)
        assert await status_of(client, handle.id) == WorkflowExecutionStatus.RUNNING


async def try_connect(address: str | None) -> Client | None:
    try:
        return await connect(address)
    except RuntimeError:
        return None


async def test_the_ui_and_the_servers_own_metrics_answer(tmp_path: Path) -> None:
    async with (
        Stack(free_ports_config(tmp_path, Component.TEMPORAL)) as stack,
        httpx.AsyncClient(trust_env=False, follow_redirects=True, timeout=180) as http,
    ):
        assert "<html" in (await http.get(str(stack.addresses.temporal_ui_url))).text
        assert "service_requests" in (await http.get(str(stack.addresses.temporal_metrics_url))).text


async def start_with_attributes(client: Client) -> None:
    """Start a workflow with one search attribute of each type, and find it by them."""
    workflow_id = f"greeter-{uuid4()}"
    attributes = TypedSearchAttributes(
        [
            SearchAttributePair(TOOL, workflow_id),
            SearchAttributePair(LOCATORS, ["a", "b"]),
            SearchAttributePair(RELEASED_AT, datetime.now(UTC)),
        ]
    )
    await client.start_workflow(Greeter.run, id=workflow_id, task_queue="stack", search_attributes=attributes)
    found = f"{TOOL.name} = '{workflow_id}' AND {LOCATORS.name} = 'b' AND {RELEASED_AT.name} IS NOT NULL"
    await eventually(lambda: counts(client, found))


async def counts(client: Client, query: str) -> bool:
    return (await client.count_workflows(query)).count == 1


async def test_search_attributes_that_are_added_can_be_used_at_once(temporal_server: TemporalServer) -> None:
    client = await Client.connect(temporal_server.address, namespace=f"own-{uuid4().hex[:8]}")
    request = RegisterNamespaceRequest(namespace=client.namespace)
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await client.workflow_service.register_namespace(request)
    # The server has read the namespace, and not what comes next.
    await eventually(lambda: counts_without_error(client))
    await register_search_attributes(client)
    await start_with_attributes(client)


async def counts_without_error(client: Client) -> bool:
    try:
        await client.count_workflows()
    except RPCError:
        return False
    return True


def test_a_new_namespace_has_the_search_attributes_that_workers_ask_for() -> None:
    assert {name: type_name(kind) for name, kind in WANTED.items()} == SEARCH_ATTRIBUTES


async def test_a_namespace_other_than_default_is_registered(tmp_path: Path) -> None:
    config = free_ports_config(tmp_path, Component.TEMPORAL)
    config = config.model_copy(update={"environment": {**config.environment, "TEMPORAL_NAMESPACE": "team"}})
    for _ in range(2):  # registering it again is no error
        async with Stack(config) as stack:
            client = await Client.connect(str(stack.addresses.temporal_address), namespace="team")
            await start_with_attributes(client)


async def test_the_data_directory_of_a_stack_in_another_process_is_refused(tmp_path: Path) -> None:
    config = free_ports_config(tmp_path, Component.TEMPORAL)
    with start_stack_process(config) as parent:
        state = await eventually(lambda: find_running(tmp_path))
        with pytest.raises(
            DataDirectoryInUseError, match=f"process {parent.pid}, .*{state.addresses.temporal_address}"
        ):
            await Stack(config).__aenter__()
        parent.kill()


async def test_the_shared_server_takes_updates_with_start_and_fairness_keys(temporal_server: TemporalServer) -> None:
    client = await connect(temporal_server.address)
    queue = f"greeter-{uuid4()}"
    start = WithStartWorkflowOperation(
        Greeter.run,
        id=queue,
        task_queue=queue,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        priority=Priority(priority_key=2, fairness_key="tenant", fairness_weight=1.0),
    )
    async with Worker(client, task_queue=queue, workflows=[Greeter], workflow_runner=UnsandboxedWorkflowRunner()):
        answer = await client.execute_update_with_start_workflow(Greeter.greet, "you", start_workflow_operation=start)
    assert answer == "hello you"


async def retention(stack: Stack) -> str:
    async with httpx.AsyncClient(trust_env=False, timeout=180) as http:
        answer = await http.get(f"{stack.addresses.temporal_http_url}/api/v1/namespaces/default")
        return answer.json()["config"]["workflowExecutionRetentionTtl"]


async def test_the_namespace_keeps_results_for_as_long_as_is_set_and_an_existing_one_is_updated(tmp_path: Path) -> None:
    config = free_ports_config(tmp_path, Component.TEMPORAL)
    async with Stack(config) as stack:
        assert await retention(stack) == f"{30 * 86_400}s"
    async with Stack(config.model_copy(update={"retention_days": 90})) as stack:
        assert await retention(stack) == f"{90 * 86_400}s"


async def test_with_json_logs_every_line_of_the_servers_is_json(tmp_path: Path) -> None:
    config = free_ports_config(tmp_path, Component.TEMPORAL, Component.SANDBOX, log_format="json")
    async with Stack(config):
        pass
    for name in ("temporal", "sandbox"):
        for line in (tmp_path / "logs" / f"{name}.log").read_text().splitlines():
            assert isinstance(json.loads(line), dict)
    assert (tmp_path / "logs" / "sandbox.log").read_text()
