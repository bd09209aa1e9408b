"""A real sandbox server in a process of its own, to be called, killed and started again."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
from apify_client import ApifyClientAsync

from tests.support.ports import free_port
from tests.support.processes.module_process import ModuleProcess

ACTORS = Path(__file__).with_name("actors")
TOKEN = "token-of-the-first-user"


class SandboxServer:
    """`python -m outlast.deploy.local.sandbox` on a free port, on a data directory that survives its restarts."""

    def __init__(self, data_dir: Path, *flags: str) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = data_dir.with_name(f"{data_dir.name}.log")
        self._flags = flags
        self._process: ModuleProcess | None = None
        self.control = httpx.Client(base_url=f"{self.url}/sandbox", timeout=180)

    def start(self) -> None:
        """Return when it answers."""
        arguments = ["--port", str(self.port), "--data-dir", str(self.data_dir), "--token", TOKEN]
        arguments += ["--actors", str(ACTORS), "--graceful-abort-seconds", "1.5", "--kill-after-seconds", "0.4"]
        arguments += ["--webhook-retry-seconds", "0.05", *self._flags]
        environment = {**os.environ, "OUTLAST_PLANTED_SECRET": "the-stack-knows-this"}
        self._process = ModuleProcess(
            "outlast.deploy.local.sandbox", arguments, log=self.log_path, environment=environment
        )
        deadline = time.monotonic() + 30
        while not self._answers():
            assert self._process.poll() is None, self.log_path.read_text()
            assert time.monotonic() < deadline, self.log_path.read_text()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, by default without a chance to say goodbye; return when it is gone."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=60)
            self._process = None

    def close(self) -> None:
        """End it with the Actors that it still runs."""
        self.kill(signal.SIGTERM)
        self.control.close()

    def client(self, token: str = TOKEN, **options: Any) -> ApifyClientAsync:
        """Return the real client; without retries, so that a test sees what the server does."""
        return ApifyClientAsync(token, api_url=self.url, **{"max_retries": 0, **options})

    def fault(self, action: str, method: str = "", path: str = "", **options: object) -> None:
        order = {"action": action, "match": {"method": method, "path": path}, **options}
        self.control.post("/faults", json=order).raise_for_status()

    def lose(self, run_id: str) -> None:
        """Have a run die with its server."""
        self.control.post(f"/runs/{run_id}/lose").raise_for_status()

    def counters(self) -> Any:
        return self.control.get("/counters").raise_for_status().json()

    def add_user(self, username: str) -> str:
        """Return the new user's token."""
        return str(self.control.post("/users", json={"username": username}).raise_for_status().json()["token"])

    def _answers(self) -> bool:
        try:
            return self.control.get("/healthz").is_success
        except httpx.TransportError:
            time.sleep(0.02)
            return False
