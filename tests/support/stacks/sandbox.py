"""The sandbox platform as a process, with its control API: users, faults, limits, counters."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_port
from tests.support.processes.module_process import started_module
from tests.support.stacks.stack_config import clean_environment

MODULE = "outlast.deploy.local.sandbox"
TOKEN = "apify_api_sandboxOperatorTokenOfTests"


@dataclass(frozen=True)
class SandboxUser:
    """An account of the sandbox."""

    id: str
    token: str


class Sandbox:
    """A running sandbox platform: `url` (without /v2), `token` of its first user, `log`."""

    def __init__(self, url: str, token: str, log: Path) -> None:
        self.url = url
        self.token = token
        self.log = log
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=180)

    def close(self) -> None:
        """Let the connection go."""
        self._http.close()

    def add_user(self, username: str, token: str | None = None, **more: str) -> SandboxUser:
        answer = self._control("POST", "users", {"username": username, **({"token": token} if token else {}), **more})
        return SandboxUser(answer["id"], answer["token"])

    def order_fault(self, action: str, *, path: str, method: str | None = None, **options: Any) -> None:
        """Have matching requests fail, see deploy/local/sandbox/faults.py."""
        self._control("POST", "faults", {"action": action, "match": {"path": path, "method": method}, **options})

    def clear_faults(self) -> None:
        self._control("DELETE", "faults")

    @property
    def faults(self) -> list[dict[str, Any]]:
        """The injected faults, with how often each was applied (`hits`)."""
        return self._control("GET", "faults")["faults"]

    def limit(self, **limits: int) -> None:
        self._control("POST", "limits", limits)

    def restore(self) -> None:
        """Let it work as at its start: without faults, and with its first limits."""
        self.clear_faults()
        self.limit(memoryMbytes=8192, concurrentRuns=25)

    @property
    def counters(self) -> dict[str, Any]:
        return self._control("GET", "counters")

    def run(self, run_id: str) -> dict[str, Any]:
        """A run as the platform tells it."""
        answer = self._http.get(f"/v2/actor-runs/{run_id}", headers={"Authorization": f"Bearer {self.token}"})
        return answer.raise_for_status().json()["data"]

    def abort_run(self, run_id: str) -> None:
        """Stop a run of the first user."""
        self._http.post(f"/v2/actor-runs/{run_id}/abort", headers=self._authorized).raise_for_status()

    def lose_run(self, run_id: str) -> None:
        """Have a run die with its server."""
        self._control("POST", f"runs/{run_id}/lose")

    def paid_runs(self, payer: str) -> set[str]:
        """The runs that a wallet has paid (x402)."""
        rows = self._control("GET", "settlements")["settlements"]
        return {row["runId"] for row in rows if row["payer"] == payer}

    def add_usage(self, run_id: str, usd: float) -> None:
        """Have a run cost so much more, also when it has ended."""
        self._control("POST", f"runs/{run_id}/usage", {"usd": usd})

    def actor_id(self, actor: str) -> str:
        """The id of the Actor `user/name`."""
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = self._http.get(f"/v2/acts/{actor.replace('/', '~')}", headers=headers)
        return answer.raise_for_status().json()["data"]["id"]

    def rows(self, dataset_id: str) -> list[dict[str, Any]]:
        """All rows of a dataset of the first user."""
        answer = self._http.get(f"/v2/datasets/{dataset_id}/items", headers=self._authorized)
        return answer.raise_for_status().json()

    def new_dataset(self, rows: list[dict[str, Any]]) -> str:
        """The id of a new dataset that holds `rows`."""
        headers = {"Authorization": f"Bearer {self.token}"}
        dataset_id = self._http.post("/v2/datasets", headers=headers).raise_for_status().json()["data"]["id"]
        # Halves of characters, too, which httpx does not write.
        headers["Content-Type"] = "application/json"
        url = f"/v2/datasets/{dataset_id}/items"
        self._http.post(url, headers=headers, content=json.dumps(rows)).raise_for_status()
        return dataset_id

    def delete_dataset(self, dataset_id: str) -> None:
        """Remove a dataset of the first user."""
        self._http.delete(f"/v2/datasets/{dataset_id}", headers=self._authorized).raise_for_status()

    def record(self, store_id: str, key: str) -> Any:
        """A record of JSON in a store of the first user."""
        answer = self._http.get(f"/v2/key-value-stores/{store_id}/records/{key}", headers=self._authorized)
        return answer.raise_for_status().json()

    def save_task(self, actor: str, **more: object) -> str:
        """Save a task of an Actor for the first user; its id."""
        answer = self._http.post("/v2/actor-tasks", json={"actId": actor, **more}, headers=self._authorized)
        return answer.raise_for_status().json()["data"]["id"]

    def delete_task(self, task_id: str) -> None:
        """Remove a saved task."""
        self._http.delete(f"/v2/actor-tasks/{task_id}", headers=self._authorized).raise_for_status()

    def make_due(self, schedule_id: str) -> None:
        """Have a schedule come due now."""
        self._control("POST", f"schedules/{schedule_id}/due")

    def saved_objects(self) -> int:
        """How many saved tasks and schedules the first user has."""
        answers = [self._http.get(f"/v2/{kind}", headers=self._authorized) for kind in ("actor-tasks", "schedules")]
        return sum(answer.raise_for_status().json()["data"]["total"] for answer in answers)

    @property
    def _authorized(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def _control(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        return self._http.request(method, f"/sandbox/{path}", json=body).raise_for_status().json()


def sandbox_arguments(folder: Path, port: int) -> tuple[str, ...]:
    """The command line of a sandbox that keeps its state in `folder`."""
    place = ("--port", str(port), "--data-dir", str(folder / "sandbox"), "--token", TOKEN)
    return (*place, "--in-process", "outlast/sleeper", "--graceful-abort-seconds", "1", "--log-format", "json")


@contextmanager
def running_sandbox(folder: Path, *options: str) -> Iterator[Sandbox]:
    """Serve the sandbox on a free port; the sleeper Actor runs inside it, so that a run costs no process."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with started_module(
        MODULE,
        *sandbox_arguments(folder, port),
        *options,
        ready_url=f"{url}/sandbox/healthz",
        log=folder / "sandbox.log",
        environment=clean_environment(),
    ) as served:
        served.await_answer()
        with closing(Sandbox(url, TOKEN, served.log)) as sandbox:
            yield sandbox
