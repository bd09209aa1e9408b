"""The worker that holds the session with an Actor's MCP server dies while the server asks something."""

from pathlib import Path

from tests.support.eventually import eventually
from tests.support.paths import TEST_ACTORS
from tests.support.ports import free_port
from tests.support.processes.module_process import started_module
from tests.support.stacks.service import running_outlast, settings_environment


async def test_a_question_dies_with_its_session_and_the_tool_is_not_called_again(tmp_path: Path) -> None:
    port = free_port()
    with running_outlast(tmp_path, actors=TEST_ACTORS) as service:
        environment = settings_environment(
            service.temporal_address,
            service.sandbox,
            OUTLAST_DATA_DIR=str(tmp_path),
            OUTLAST_WORKER_METRICS_PORT=str(port),
        )
        async with service.http() as http:
            task_id = (await http.post("/v1/tasks", json={"tool": "outlast--toolbox-ask"})).json()["id"]

            async def has_status(*statuses: str) -> bool:
                return (await http.get(f"/v1/tasks/{task_id}")).json()["status"] in statuses

            await eventually(lambda: has_status("input_required"))
            service.worker.process.kill()
            service.worker.process.wait()
            ready = f"http://127.0.0.1:{port}/metrics"
            with started_module(
                "outlast.worker", ready_url=ready, log=tmp_path / "second.log", environment=environment
            ):
                await eventually(lambda: has_status("failed"), timeout_seconds=180)
            answer = (await http.get(f"/v1/tasks/{task_id}/result")).json()
    assert answer["task"].get("input_requests") is None
    error = answer["result"]["error"]
    assert "the worker that waited for its result was lost" in error["message"]
    assert not error["retryable"]
