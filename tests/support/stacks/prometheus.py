"""A real Prometheus and a real Alertmanager, with the configuration that ships."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from outlast.deploy.local.orphans import die_with_parent
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.stacks.service import Service

SHIPPED = ROOT / "deploy" / "prometheus"
_PROMETHEUS, _PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")


def promtool(*arguments: str, given: str | None = None) -> None:
    """Run promtool beside the shipped files; fails with what it says."""
    done = subprocess.run(
        [str(_PROMTOOL), *arguments], cwd=SHIPPED, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Targets:
    """Where the processes are that are scraped."""

    api: str
    worker: str
    temporal: str
    alertmanager: str = ""
    """Where alerts go; empty for nowhere."""

    @classmethod
    def of(cls, service: Service) -> "Targets":
        """The processes of a service."""
        return cls(service.api_url, service.worker_metrics_url, service.temporal_metrics_url)


class Prometheus:
    """Prometheus' HTTP API."""

    def __init__(self, client: httpx.Client) -> None:
        self._http = client

    def get(self, path: str, **params: str) -> Any:
        """The data of an answer of `/api/v1/PATH`."""
        return self._http.get(f"/{path}", params=params).raise_for_status().json()["data"]

    def query(self, expression: str) -> list[float]:
        """The values of an expression now."""
        return [float(result["value"][1]) for result in self.get("query", query=expression)["result"]]

    async def reaches(self, query: str, least: float) -> None:
        """Return when the sum of a query's results is `least` or more."""

        def reached() -> bool:
            total = sum(self.query(query))
            assert total >= least, f"{query} is {total}, not {least}"
            return True

        await eventually(reached)


@contextmanager
def running_prometheus(
    folder: Path, targets: Targets, rules: str | None = None, *, every: str = "500ms"
) -> Iterator[Prometheus]:
    """Prometheus with the shipped configuration, but for where this test's processes listen, and more often.

    With `rules` these take the place of the alerts that ship.
    """
    config = (SHIPPED / "prometheus.yml").read_text()
    here = {
        "127.0.0.1:8400": targets.api,
        "127.0.0.1:8402": targets.worker,
        "127.0.0.1:7253": targets.temporal,
        "127.0.0.1:9093": targets.alertmanager,
    }
    for shipped, url in here.items():
        assert shipped in config
        config = config.replace(f'"{shipped}"', f'"{httpx.URL(url).netloc.decode()}"' if url else "")
    config = re.sub(r"_interval: \w+", f"_interval: {every}", config)
    (folder / "prometheus.yml").write_text(config)
    (folder / "alerts.yml").write_text(rules or (SHIPPED / "alerts.yml").read_text())
    address = f"127.0.0.1:{free_port()}"
    command = [str(_PROMETHEUS), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command.append("--rules.alert.resend-delay=1s")  # what Alertmanager missed, or forgets after five minutes
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address={address}"], stdout=log, stderr=log, preexec_fn=die_with_parent()
        )
    try:
        await_ready(process, f"http://{address}/-/ready", folder / "log")
        with httpx.Client(base_url=f"http://{address}/api/v1", trust_env=False, timeout=60) as client:
            yield Prometheus(client)
    finally:
        process.kill()
        process.wait()


def await_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    """Return when a process answers at `url`; fails with its log when it ends before."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            if httpx.get(url, trust_env=False).is_success:
                return
        time.sleep(0.05)
    raise AssertionError(log.read_text())


SHIPPED_CONFIG = ROOT / "deploy" / "compose" / "alertmanager.yml"
_PROGRAM = shutil.which("prometheus-alertmanager")


class Alertmanager:
    """Alertmanager's HTTP API."""

    def __init__(self, url: str, client: httpx.Client) -> None:
        self.url = url
        self._http = client

    def active(self) -> set[str]:
        """The names of the alerts that it holds as going on."""
        answer = self._http.get("/api/v2/alerts", params={"active": "true"}).raise_for_status()
        return {alert["labels"]["alertname"] for alert in answer.json()}


@contextmanager
def running_alertmanager(folder: Path) -> Iterator[Alertmanager]:
    """Alertmanager on a free port until the end of the block."""
    address = f"127.0.0.1:{free_port()}"
    options = [f"--config.file={SHIPPED_CONFIG}", f"--storage.path={folder}/alertmanager", "--cluster.listen-address="]
    log = folder / "alertmanager.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(_PROGRAM), *options, f"--web.listen-address={address}"],
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent(),
        )
    try:
        await_ready(process, f"http://{address}/-/ready", log)
        with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=60) as client:
            yield Alertmanager(f"http://{address}", client)
    finally:
        process.kill()
        process.wait()
