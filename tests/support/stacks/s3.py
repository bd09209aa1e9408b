"""A real S3 server for tests: SeaweedFS, one process with its own data, ports and credentials."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from outlast.deploy.local.orphans import die_with_parent
from outlast.deploy.local.processes import tail
from tests.support.ports import free_port

_START_TIMEOUT_SECONDS = 90.0
_ATTEMPTS = 3
_ACCESS_KEY = "outlast-tests"
_SECRET_KEY = "outlast-tests-secret"
_PORTS = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket."""

    endpoint: str
    bucket: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which programs find the server and its credentials."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,
            "AWS_REGION": "us-east-1",
        }

    @property
    def options(self) -> dict[str, str]:
        """The same for `OutputObjects.open`."""
        return {name.lower(): value for name, value in self.environment.items()}

    def open(self) -> S3Store:
        """The bucket, for what tests do with it themselves. What fails is not tried again."""
        return S3Store(
            self.bucket,
            config={"endpoint": self.endpoint, "region": "us-east-1"},
            access_key_id=_ACCESS_KEY,
            secret_access_key=_SECRET_KEY,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    def url(self, prefix: str) -> str:
        """A store of its own for each test."""
        return f"s3://{self.bucket}/{prefix}"


@contextmanager
def running_s3(folder: Path) -> Iterator[S3Server]:
    """Run a server on free ports until the end of the block; it dies with this process whatever happens."""
    server, process = _start(folder)
    try:
        yield server
    finally:
        process.kill()
        process.wait()


def _start(folder: Path) -> tuple[S3Server, "subprocess.Popen[bytes]"]:
    log = folder / "s3.log"
    for attempt in range(_ATTEMPTS):  # between picking a port and listening on it, another test's server may take it
        data = folder / f"data-{attempt}"
        data.mkdir(parents=True)
        command, port = _command(data)
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, cwd=data, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=die_with_parent()
            )
        server = S3Server(f"http://127.0.0.1:{port}", "outputs")
        if _becomes_ready(server, process):
            return server, process
        process.kill()
        process.wait()
    raise AssertionError(f"The S3 server does not start:\n{tail(log)}")


def _command(data: Path) -> tuple[list[str], int]:
    ports = {f"{name}{suffix}": free_port() for name in _PORTS for suffix in (".port", ".port.grpc")}
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": _ACCESS_KEY, "secretKey": _SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config = data / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    weed = Path(sys.executable).parent / "weed"
    options = [f"-{name}={port}" for name, port in ports.items()]
    options += [f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.config={config}"]
    options += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-master.volumeSizeLimitMB=64"]
    options += ["-volume.max=50", "-volume.preStopSeconds=0"]
    return [str(weed if weed.exists() else shutil.which("weed")), "server", *options], ports["s3.port"]


def _becomes_ready(server: S3Server, process: "subprocess.Popen[bytes]") -> bool:
    """Whether the server takes a bucket and an object before the time is up."""
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    store = server.open()
    with httpx.Client(trust_env=False, timeout=10) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                client.get(server.endpoint)
                obstore.put(store, "ready", b"1")
                return process.poll() is None
            except (httpx.HTTPError, BaseError):
                time.sleep(0.05)
    return False
