"""`outlast top` on a real server: callers see their own tasks, operators see everything."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import (
    Client,
    CountWorkflowsInput,
    Interceptor,
    ListWorkflowsInput,
    OutboundInterceptor,
    WorkflowExecutionAsyncIterator,
    WorkflowExecutionCount,
)

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry, Scope
from outlast.api.access.policy.policy_file import add_key
from outlast.api.access.principal import LOCAL
from outlast.api.operations import OperationsReader
from outlast.workflows.contracts.queues import QUEUES, SCHEDULES_TASK_QUEUE, SERVERS_TASK_QUEUE
from tests.support.calls.tasks import sleeper_call
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment

SCOPES: dict[str, frozenset[Scope]] = {
    "ann": frozenset({"call", "read", "cancel"}),
    "bob": frozenset({"call", "read", "cancel"}),
    "operator": frozenset({"read", "admin"}),
    "sender": frozenset({"call"}),
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A policy file, and the key of each of its callers."""
    path, keys = tmp_path_factory.mktemp("policy") / "policy.toml", dict[str, str]()
    for name, scopes in SCOPES.items():
        key, hashed = new_key(name)
        add_key(path, KeyEntry(id=name, caller=f"key:{name}", hash=str(hashed), scopes=scopes))
        keys[name] = key.get_secret_value()
    return path, keys


@pytest.fixture
async def guarded_api(
    temporal: Client, service: Service, policy: tuple[Path, dict[str, str]]
) -> AsyncIterator[httpx.AsyncClient]:
    settings = api_settings(service.sandbox, policy_file=policy[0], store_url=str(service.outputs))
    async with serving_api(temporal, settings) as api:
        yield api


async def top(api: httpx.AsyncClient, key: str) -> dict[str, Any]:
    """What `outlast top` tells a caller, in a process of its own."""
    command = outlast_command("top", "--once", "--json", "--url", str(api.base_url))
    environment = clean_environment(OUTLAST_TOKEN=key)
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return json.loads(out)


async def test_callers_see_their_own_tasks_and_operators_see_everything(
    guarded_api: httpx.AsyncClient, policy: tuple[Path, dict[str, str]]
) -> None:
    keys = policy[1]
    body = sleeper_call(seconds=60)
    tasks = {
        name: (await guarded_api.post("/v1/tasks", json=body, headers=bearer(keys[name]))).json()["id"]
        for name in ("ann", "bob")
    }

    async def anns() -> dict[str, Any]:
        found = await top(guarded_api, keys["ann"])
        assert found["counts"]["working"] == 1, found
        return found

    own = await eventually(anns)
    assert (own["scope"], [task["id"] for task in own["tasks"]]) == ("own", [tasks["ann"]])
    assert own["queues"] == own["workers"] == []
    assert own["usage"]["total_usd"] == 0

    everything = await top(guarded_api, keys["operator"])
    callers = {task["id"]: task["caller"] for task in everything["tasks"]}
    assert everything["scope"] == "all"
    assert (callers[tasks["ann"]], callers[tasks["bob"]]) == ("key:ann", "key:bob")
    assert everything["counts"]["working"] >= 2
    served = {queue["queue"] for queue in everything["queues"] if queue["pollers"]}
    of_worker = {*QUEUES.values(), SERVERS_TASK_QUEUE}
    assert served == {*of_worker, SCHEDULES_TASK_QUEUE}
    assert [set(worker["queues"]) for worker in everything["workers"]] == [of_worker]
    assert everything["workers"][0]["version"]

    for name, task in tasks.items():
        await guarded_api.post(f"/v1/tasks/{task}/cancel", headers=bearer(keys[name]))

    async def anns_ended() -> bool:
        counts = (await guarded_api.get("/v1/operations", headers=bearer(keys["ann"]))).json()["counts"]
        assert (counts["working"], counts["cancelled_last_hour"]) == (0, 1), counts
        return True

    await eventually(anns_ended, interval_seconds=0.5)
    refused = await guarded_api.get("/v1/operations", headers=bearer(keys["sender"]))
    assert (refused.status_code, "`read`" in refused.json()["detail"]) == (403, True)


class Watched(Interceptor):
    """What a client asks Temporal's lists for, and a clock on which only counting what has ended takes time."""

    def __init__(self, *, counting_seconds: float) -> None:
        self.now = 0.0
        self.counting_seconds = counting_seconds
        self.counted: list[str] = []
        self.largest_page = 0

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # its name there
        return _Watching(next, self)


class _Watching(OutboundInterceptor):
    def __init__(self, next_: OutboundInterceptor, watched: Watched) -> None:
        super().__init__(next_)
        self._watched = watched

    async def count_workflows(self, input: CountWorkflowsInput) -> WorkflowExecutionCount:  # noqa: A002
        ended = "CloseTime" in (input.query or "")
        self._watched.counted.append("ended" if ended else "open")
        self._watched.now += self._watched.counting_seconds if ended else 0
        return await super().count_workflows(input)

    def list_workflows(self, input: ListWorkflowsInput) -> WorkflowExecutionAsyncIterator:  # noqa: A002
        self._watched.largest_page = max(self._watched.largest_page, input.page_size)
        return super().list_workflows(input)


async def test_what_has_ended_is_counted_the_less_often_the_longer_that_takes(temporal: Client) -> None:
    watched = Watched(counting_seconds=0.5)
    reader = OperationsReader(Client(**{**temporal.config(), "interceptors": [watched]}), clock=lambda: watched.now)

    async def counted_after(seconds: float) -> set[str]:
        watched.now += seconds
        watched.counted.clear()
        await reader.read(LOCAL)
        return set(watched.counted)

    assert await counted_after(0) == {"open", "ended"}
    assert await counted_after(1) == set()
    # Three counts of half a second: a twentieth of the time are 30 seconds.
    assert await counted_after(2) == {"open"}
    assert await counted_after(26) == {"open"}
    assert await counted_after(3) == {"open", "ended"}
    assert watched.largest_page == 50
