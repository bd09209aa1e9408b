"""Apify's own MCP server as a process, on the platform of a test: what the mode `apify` is compared with."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from outlast.deploy.local.processes import tail
from tests.support.ports import free_port
from tests.support.processes.installed import node, npm_package
from tests.support.stacks.sandbox import Sandbox

VERSION = "0.16.0"
_LOOPBACK_ONLY = Path(__file__).with_name("loopback_only.mjs")
_OUTSIDE_WORLD = Path(__file__).with_name("outside_world.mjs")
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Peer:
    """Its HTTP server, which answers at `url`."""

    url: str
    process: "subprocess.Popen[bytes]"

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.kill()
        self.process.wait()


def program_of_peer(name: str, folder: Path, sandbox: Sandbox) -> tuple[list[str], dict[str, str]]:
    """The command of one of its programs, and its environment. It asks nobody but the sandbox."""
    package = npm_package("@apify/actors-mcp-server", VERSION)
    # Telemetry of one connection can be switched on by its address.
    hooks = [part for hook in (_LOOPBACK_ONLY, _OUTSIDE_WORLD) for part in ("--import", hook.as_uri())]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "APIFY_API_BASE_URL": sandbox.url,
        "APIFY_TOKEN": sandbox.token,
        "TELEMETRY_ENABLED": "false",
    }
    return [str(node()), *hooks, str(package / "dist" / name)], environment


@contextmanager
def running_peer(folder: Path, sandbox: Sandbox, docs_url: str = "") -> Iterator[Peer]:
    """Its HTTP server until the end of the block. It asks nobody but the sandbox, and `docs_url`."""
    port, log = free_port(), folder / "peer.log"
    command, environment = program_of_peer("dev_server.js", folder, sandbox)
    environment |= {"PORT": str(port), "DOCS_URL": docs_url}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output)
    try:
        _await_answer(process, f"http://127.0.0.1:{port}/", log)
        yield Peer(f"http://127.0.0.1:{port}", process)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        process.kill()
        process.wait()


def _await_answer(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with httpx.Client(trust_env=False, timeout=10) as client:
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                client.get(url)
                return
            time.sleep(0.05)
    raise AssertionError(f"{url} does not answer:\n{tail(log)}")
