"""A real Alertmanager with the configuration that ships."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from outlast.deploy.local.orphans import die_with_parent
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.stacks.prometheus import await_ready

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
        with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=10) as client:
            yield Alertmanager(f"http://{address}", client)
    finally:
        process.kill()
        process.wait()
