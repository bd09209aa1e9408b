"""Prefect's background tasks: a task worker, Prefect's own server with SQLite, and a front that hands work to them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.benchmarks.peers.contract import CALLERS, Peer, app_environment
from tests.benchmarks.peers.environments import python_of, version_of
from tests.benchmarks.peers.front import RunningFront
from tests.benchmarks.peers.platform import platform
from tests.benchmarks.peers.processes import APPS, started
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.stack_config import clean_environment

_ENDS = {"COMPLETED": True, "FAILED": False, "CRASHED": False, "CANCELLED": False}


@asynccontextmanager
async def _running(folder: Path) -> AsyncGenerator[RunningFront]:
    python, port, server_port = python_of("prefect"), free_port(), free_port()
    with platform(folder) as sandbox:
        own = {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": f"http://127.0.0.1:{server_port}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_LOGGING_LEVEL": "WARNING",
        }
        environment = app_environment(sandbox, own, clean_environment())
        serve = (python, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", server_port, "--no-ui")
        async with started(serve, folder / "prefect-server.log", environment) as server:
            await server.await_answer(f"http://127.0.0.1:{server_port}/api/health")
            worker_log = folder / "prefect-worker.log"
            work = (python, APPS / "prefect_tasks.py", CALLERS)
            worker_environment = {**environment, "PREFECT_LOGGING_LEVEL": "INFO"}
            async with (
                started(work, worker_log, worker_environment) as worker,
                started((python, APPS / "prefect_front.py", port), folder / "prefect-front.log", environment) as front,
            ):
                await front.await_answer(f"http://127.0.0.1:{port}/")
                await eventually(lambda: "Subscribing to runs" in worker_log.read_text())
                yield RunningFront(sandbox, port, worker, _ENDS)


def _install() -> None:
    python_of("prefect")


PREFECT = Peer(
    name="Prefect background tasks",
    versions=lambda: f"prefect {version_of('prefect', 'prefect')}",
    front="FastAPI, task worker and Prefect server, one process each",
    settings=f"SQLite; {CALLERS} tasks at once in the worker; parts of a task are tasks with persisted results",
    recommended_by="https://docs.prefect.io/v3/advanced/background-tasks",
    promises="waiting tasks run later; a task whose worker died does not (heartbeats are for deployments)",
    install=_install,
    running=_running,
)
