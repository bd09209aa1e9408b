"""An API on a full disk is not ready, and is ready again when there is room. The disk is a tiny one in memory."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from outlast.deploy.local.temporal_server import TemporalServer
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes.module_process import ServedProcess, started_module
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.outlast_up import stack_environment
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import settings_environment
from tests.support.stacks.stack_config import clean_environment

_DISK_MBYTES = 64
RESERVE = {"OUTLAST_DISK_RESERVE_MBYTES": "32"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with room for a reserve and a little more."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MBYTES}m,mode=700", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """A file that leaves less than the reserve."""
    file = disk / "filler"
    file.write_bytes(bytes((_DISK_MBYTES - 16) << 20))
    return file


@pytest.fixture
def api(disk: Path, tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServedProcess]:
    port = free_port()
    environment = settings_environment(
        temporal_server.address,
        Sandbox("http://127.0.0.1:9", "no token", tmp_path),
        OUTLAST_DATA_DIR=str(disk),
        OUTLAST_API_PORT=str(port),
        **RESERVE,
    )
    url = f"http://127.0.0.1:{port}/readyz"
    with started_module("outlast.api", ready_url=url, log=tmp_path / "api.log", environment=environment) as process:
        process.await_answer()
        yield process


async def test_an_api_on_a_full_disk_is_not_ready_until_there_is_room(api: ServedProcess, disk: Path) -> None:
    url = api.ready_url.removesuffix("/readyz")
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=180) as http:
        assert (await http.get("/readyz")).json()["checks"]["disk"] == "ok"
        filler = fill(disk)
        full = await http.get("/readyz")
        assert (full.status_code, full.json()["ready"], full.json()["checks"]["disk"]) == (503, False, "failing")
        assert full.json()["checks"]["temporal"] == "ok"
        metrics = (await http.get("/metrics")).text
        shown = next(line for line in metrics.splitlines() if line.startswith('outlast_disk_free_bytes{place="data"}'))
        assert float(shown.split()[1]) < 32e6
        assert (await http.get("/healthz")).status_code == 200
        assert "less space than the reserve" in doctor(url)
        filler.unlink()

        async def is_ready() -> bool:
            return (await http.get("/readyz")).status_code == 200

        await eventually(is_ready)
    log = api.log.read_text()
    assert log.count("Not ready: The disk of") == 1
    assert "Ready again" in log


def doctor(url: str) -> str:
    command = outlast_command("doctor", "--url", url)
    ended = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    return " ".join(ended.stdout.split())


def test_a_stack_on_a_full_disk_says_so_instead_of_waiting(disk: Path) -> None:
    fill(disk)
    command = outlast_command("up", "--data-dir", str(disk))
    environment = {**stack_environment(), **RESERVE}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1
    assert "less than the reserve of 32 MB (OUTLAST_DISK_RESERVE_MBYTES)" in " ".join(ended.stderr.split())
    assert not (disk / "temporal").exists()
