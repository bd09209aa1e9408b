"""While Temporal is down the API says so; when it is back, the API works again. Tasks are readable without a worker."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from outlast.deploy.local.temporal_server import TemporalServer
from outlast.worker.search_attributes import register_search_attributes
from tests.support.calls.tasks import events, sleeper_call
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.temporal import start_temporal


class OwnTemporal:
    """A Temporal server of this test's own, on a file, to be stopped and started."""

    def __init__(self, folder: Path) -> None:
        ports = [free_port() for _ in range(3)]
        self.server = TemporalServer(*ports, database=folder / "temporal.db")
        self._log = folder / "temporal.log"
        self._process = None

    def start(self) -> None:
        self._process = start_temporal(self.server, self._log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def own_temporal(tmp_path: Path) -> Iterator[OwnTemporal]:
    own = OwnTemporal(tmp_path)
    yield own
    own.kill()


async def unavailable(api: httpx.AsyncClient, method: str, path: str, body: object = None) -> None:
    response = await api.request(method, path, json=body)
    assert response.status_code == 503, response.text
    assert response.json()["type"] == "urn:outlast:problem:temporal-unavailable"
    assert int(response.headers["retry-after"]) > 0


@pytest.mark.slow
async def test_an_outage_is_told_and_nothing_is_lost_over_it(own_temporal: OwnTemporal, sandbox: Sandbox) -> None:
    client = await connect(own_temporal.server.address, lazy=True)
    async with serving_api(client, api_settings(sandbox)) as api:
        await unavailable(api, "POST", "/v1/tasks", sleeper_call())
        await unavailable(api, "GET", "/v1/tasks")
        await unavailable(api, "GET", "/v1/tasks/any")
        assert (await api.get("/healthz")).status_code == 200
        ready = await api.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["temporal"]) == (503, "failing")
        assert "outlast_open_tasks NaN" in (await api.get("/metrics")).text

        own_temporal.start()
        await eventually(lambda: _answers(api), timeout_seconds=180)
        await register_search_attributes(client)
        response = await api.post("/v1/tasks", json=sleeper_call() | {"session_id": "s"})
        assert response.status_code == 201, response.text
        task_id = response.json()["id"]

        shown = (await api.get(f"/v1/tasks/{task_id}")).json()
        assert (shown["status"], shown["tool"], shown["actor"]) == ("working", "call-actor", "outlast/sleeper")
        await eventually(lambda: _waits_for_a_worker(api, task_id))
        checks = (await api.get("/readyz")).json()["checks"]
        assert checks == {"temporal": "ok", "worker": "failing", "disk": "ok"}
        assert (await api.get(f"/v1/tasks/{task_id}/result")).status_code == 202
        first = await anext(aiter(events(api, task_id)))
        assert (first.name, first.data["tool"]) == ("created", "call-actor")

        own_temporal.kill()
        await unavailable(api, "GET", f"/v1/tasks/{task_id}")
        own_temporal.start()
        await eventually(lambda: _answers(api), timeout_seconds=180)
        assert (await api.get(f"/v1/tasks/{task_id}")).json()["status"] == "working"


async def _waits_for_a_worker(api: httpx.AsyncClient, task_id: str) -> bool:
    return (await api.get(f"/v1/tasks/{task_id}")).json()["status_message"] == "Waiting for a worker."


async def _answers(api: httpx.AsyncClient) -> bool:
    return (await api.get("/readyz")).status_code == 200
