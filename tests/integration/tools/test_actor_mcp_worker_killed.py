"""The worker that holds the session with an Actor's MCP server dies while the server asks something."""

from pathlib import Path

import httpx

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes.served_process import started_module
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import running_service, settings_environment
from tests.support.stacks.temporal import running_temporal


async def test_a_question_dies_with_its_session_and_the_tool_is_not_called_again(
    tools_sandbox: Sandbox, tmp_path: Path
) -> None:
    port = free_port()
    with (
        running_temporal(tmp_path) as temporal,
        running_service(tmp_path, temporal.address, tools_sandbox, OUTLAST_TAKEOVER_SECONDS="2") as service,
    ):
        environment = settings_environment(
            temporal.address,
            tools_sandbox,
            OUTLAST_DATA_DIR=str(tmp_path),
            OUTLAST_WORKER_METRICS_PORT=str(port),
        )
        async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=60) as http:
            task_id = (await http.post("/v1/tasks", json={"tool": "outlast--toolbox-ask"})).json()["id"]

            async def has_status(*statuses: str) -> bool:
                return (await http.get(f"/v1/tasks/{task_id}")).json()["status"] in statuses

            await eventually(lambda: has_status("input_required"))
            service.worker.process.kill()
            ready = f"http://127.0.0.1:{port}/metrics"
            with started_module(
                "outlast.worker", ready_url=ready, log=tmp_path / "second.log", environment=environment
            ):
                await eventually(lambda: has_status("failed"), timeout_seconds=90)
            answer = (await http.get(f"/v1/tasks/{task_id}/result")).json()
    assert answer["task"].get("input_requests") is None
    error = answer["result"]["error"]
    assert "the worker that waited for its result was lost" in error["message"]
    assert not error["retryable"]
