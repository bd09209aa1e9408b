"""How a worker process starts: what it needs, what it survives, and how it proves that it is ready."""

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from outlast.deploy.local.temporal_server import TemporalServer
from outlast.worker.ready_file import Readiness, read_ready_file
from tests.support.eventually import eventually
from tests.support.processes.module_process import ModuleProcess
from tests.support.stacks.service import SEAL_KEYS
from tests.support.stacks.stack_config import clean_environment

pytestmark = pytest.mark.timeout(300)  # the first start of a test process imports all of Outlast

Start = Callable[..., ModuleProcess]


@pytest.fixture
def start(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[Start]:
    """Starts `python -m MODULE` with these settings; its lines are in `tmp_path/log`, its ready file is `ready`."""
    started: list[ModuleProcess] = []

    def start(module: str = "outlast.worker", **settings: str) -> ModuleProcess:
        environment = {
            "TEMPORAL_ADDRESS": temporal_server.address,
            "OUTLAST_SEAL_KEYS": SEAL_KEYS,
            "OUTLAST_DATA_DIR": str(tmp_path),
            "OUTLAST_READY_FILE": str(tmp_path / "ready"),
            "OUTLAST_SHUTDOWN_SECONDS": "1",
            "OUTLAST_WORKER_METRICS_PORT": "0",
            **settings,
        }
        process = ModuleProcess(module, (), log=tmp_path / "log", environment=clean_environment(**environment))
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@contextmanager
def taken_port() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def readiness(folder: Path, process: ModuleProcess) -> Readiness:
    """What the process announces."""

    def announced() -> Readiness | None:
        assert process.poll() is None, (folder / "log").read_text()
        return read_ready_file(folder / "ready")

    return await eventually(announced)


async def status_of(url: str) -> int:
    """The status with which `url` answers."""
    async with httpx.AsyncClient(trust_env=False) as http:
        return (await http.get(url)).status_code


async def test_the_ready_file_names_the_process_and_goes_with_it(tmp_path: Path, start: Start) -> None:
    process = start()
    said = await readiness(tmp_path, process)
    assert said.pid == process.pid
    assert said.metrics_url is not None
    assert await status_of(said.metrics_url) == 200
    process.terminate()
    assert process.wait(180) == 0
    assert read_ready_file(tmp_path / "ready") is None


async def test_a_worker_that_replaces_a_killed_one_announces_its_own_pid(tmp_path: Path, start: Start) -> None:
    killed = start()
    await readiness(tmp_path, killed)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(180)
    heir = start()
    said = await eventually(
        lambda: found if (found := read_ready_file(tmp_path / "ready")) and found.pid != killed.pid else None,
        timeout_seconds=120,
    )
    assert said.pid == heir.pid


async def test_a_taken_metrics_port_does_not_keep_a_worker_from_working(tmp_path: Path, start: Start) -> None:
    with taken_port() as port:
        process = start(OUTLAST_WORKER_METRICS_PORT=str(port))
        said = await readiness(tmp_path, process)
    assert said.metrics_url is not None
    assert f":{port}/" not in said.metrics_url
    assert await status_of(said.metrics_url) == 200
    lines = [line for line in (tmp_path / "log").read_text().splitlines() if "warning" in line]
    assert len([line for line in lines if f"127.0.0.1:{port}" in line and said.metrics_url in line]) == 1, lines


async def test_a_metrics_host_of_another_machine_does_not_either(tmp_path: Path, start: Start) -> None:
    process = start(OUTLAST_WORKER_METRICS_HOST="203.0.113.9")
    assert (await readiness(tmp_path, process)).metrics_url is None
    assert "Metrics are not served" in (tmp_path / "log").read_text()


def test_a_bad_setting_is_one_line(tmp_path: Path, start: Start) -> None:
    assert start(OUTLAST_RUN_SLOTS="many").wait(180) == 1
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 1
    assert "OUTLAST_RUN_SLOTS" in lines[0]


def test_a_refusal_of_the_temporal_server_is_one_line(tmp_path: Path, start: Start) -> None:
    assert start(TEMPORAL_NAMESPACE="nowhere").wait(180) == 1
    log = (tmp_path / "log").read_text()
    assert "Worker cannot start: Namespace nowhere is not found" in log
    assert "Traceback" not in log


async def test_the_api_announces_itself_too(tmp_path: Path, start: Start) -> None:
    with taken_port() as port:
        pass
    process = start("outlast.api", OUTLAST_API_PORT=str(port))
    said = await readiness(tmp_path, process)
    assert said.pid == process.pid
    assert said.url == f"http://127.0.0.1:{port}"
    assert await status_of(f"{said.url}/healthz") == 200


@pytest.mark.parametrize("module", ["outlast.worker", "outlast.api"])
def test_a_misspelt_setting_ends_the_process_with_one_line_that_names_what_was_meant(
    start: Start, tmp_path: Path, module: str
) -> None:
    process = start(module, OUTLAST_API_KEY="ada:secret-secret-secret")
    assert process.wait() == 1
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert "OUTLAST_API_KEY is not a setting of Outlast. Did you mean OUTLAST_API_KEYS?" in line
    assert "secret" not in line


@pytest.mark.parametrize("module", ["outlast.worker", "outlast.api"])
def test_an_unknown_kind_of_store_ends_the_process_with_what_to_write(
    start: Start, tmp_path: Path, module: str
) -> None:
    process = start(module, OUTLAST_STORE_URL="s4://bucket")
    assert process.wait() == 1
    log = (tmp_path / "log").read_text()
    assert "OUTLAST_STORE_URL cannot be used" in log
    assert "Traceback" not in log


async def test_a_worker_serves_the_queues_that_it_is_told_and_no_others(start: Start, tmp_path: Path) -> None:
    process = start(OUTLAST_QUEUES="runs, models")
    ready = await readiness(tmp_path, process)
    assert ready.metrics_url is not None
    async with httpx.AsyncClient(trust_env=False) as http:

        async def polled() -> bool:
            metrics = (await http.get(str(ready.metrics_url))).text
            assert set(re.findall(r'task_queue="(outlast-\w+)"', metrics)) == {"outlast-runs", "outlast-models"}
            return True

        assert await eventually(polled)
