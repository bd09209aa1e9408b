"""Faults on order are what they say: the work is done, or not, and the answer is lost, or late, or cut."""

import asyncio
import time

import httpx
import pytest
from apify_client import ApifyClientAsync
from apify_client.errors import ApifyApiError
from impit import RemoteProtocolError

from tests.integration.sandbox.server import TOKEN, SandboxServer

PROBE = "outlast/probe"
RUNS = r"/runs$"


def starts(sandbox: SandboxServer, operation: str) -> list[str]:
    runs: list[str] = sandbox.counters()["operations"].get(operation, [])
    return runs


def read_items(sandbox: SandboxServer, dataset_id: str) -> httpx.Response:
    return httpx.get(
        f"{sandbox.url}/v2/datasets/{dataset_id}/items", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=180
    )


async def start(client: ApifyClientAsync) -> str:
    return (await client.actor(PROBE).start(run_input={"do": "push"})).id


async def test_drop_after_loses_the_answer_of_a_start_that_was_accepted_once(sandbox: SandboxServer) -> None:
    client = sandbox.client(user_agent_suffix="outlast-op/dropped-after")
    sandbox.fault("drop_after", "POST", RUNS, times=1)
    with pytest.raises(RemoteProtocolError):
        await start(client)

    (run_id,) = starts(sandbox, "dropped-after")

    run = await client.run(run_id).wait_for_finish()
    assert run is not None
    assert run.status == "SUCCEEDED"
    assert run.meta.user_agent is not None
    assert "outlast-op/dropped-after" in run.meta.user_agent
    assert sandbox.control.get("/faults").json()["faults"][0]["hits"] == 1


async def test_a_client_that_retries_starts_twice_when_the_answer_is_lost(sandbox: SandboxServer) -> None:
    client = sandbox.client(max_retries=2, user_agent_suffix="outlast-op/retried")
    sandbox.fault("drop_after", "POST", RUNS, times=1)
    await start(client)
    assert len(starts(sandbox, "retried")) == 2


async def test_drop_before_leaves_the_work_undone(sandbox: SandboxServer) -> None:
    client = sandbox.client(user_agent_suffix="outlast-op/dropped-before")
    sandbox.fault("drop_before", "POST", RUNS, times=1)
    with pytest.raises(RemoteProtocolError):
        await start(client)
    assert starts(sandbox, "dropped-before") == []


async def test_status_refuses_and_status_after_lies(sandbox: SandboxServer) -> None:
    client = sandbox.client(user_agent_suffix="outlast-op/statuses")
    headers = {"Retry-After": "7"}
    sandbox.fault("status", "POST", RUNS, times=1, status=429, type="rate-limit-exceeded", headers=headers)
    with pytest.raises(ApifyApiError) as refused:
        await start(client)
    assert (refused.value.status_code, refused.value.type) == (429, "rate-limit-exceeded")
    assert starts(sandbox, "statuses") == []

    sandbox.fault("status_after", "POST", RUNS, times=1, status=502)
    with pytest.raises(ApifyApiError) as lied:
        await start(client)
    assert lied.value.status_code == 502
    assert len(starts(sandbox, "statuses")) == 1


def test_the_headers_of_an_order_are_sent(sandbox: SandboxServer) -> None:
    sandbox.fault("status", "GET", "/users/me", status=503, headers={"Retry-After": "7"})
    answer = httpx.get(f"{sandbox.url}/v2/users/me", timeout=180)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "7")


async def test_truncate_cuts_the_body_in_the_middle(sandbox: SandboxServer, client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push", "rows": 500}, logger=None)
    assert run is not None
    sandbox.fault("truncate", "GET", "/items", times=1)
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        read_items(sandbox, run.default_dataset_id)
    assert (await client.dataset(run.default_dataset_id).list_items()).count == 500


async def test_delay_hang_after_and_times(sandbox: SandboxServer, client: ApifyClientAsync) -> None:
    sandbox.fault("delay", "GET", "/users/me$", seconds=0.3, after=1, times=1)
    took: list[float] = []
    for _ in range(3):
        began = time.monotonic()
        await client.user().get()
        took.append(time.monotonic() - began)
    assert took[1] >= 0.3 > max(took[0], took[2])

    sandbox.fault("hang", "GET", "/users/me$", times=1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.user().get(), 0.3)
    assert await client.user().get()


async def test_late_runs_show_in_lists_later(sandbox: SandboxServer, client: ApifyClientAsync) -> None:
    sandbox.fault("late_runs", seconds=1.0, times=1)
    run_id = await start(client)
    assert await client.run(run_id).get(), "by its id it shows at once, unless ordered otherwise"
    assert run_id not in [run.id for run in (await client.runs().list(desc=True)).items]
    await asyncio.sleep(1.05)
    assert run_id in [run.id for run in (await client.runs().list(desc=True)).items]

    sandbox.fault("late_runs", seconds=60, detail=True, times=1)
    assert await client.run(await start(client)).get() is None


async def test_the_user_agent_can_be_hidden_from_lists(sandbox: SandboxServer, client: ApifyClientAsync) -> None:
    run_id = await start(client)
    sandbox.fault("hide_list_user_agent")
    assert (await client.runs().list(desc=True, limit=1)).items[0].meta.user_agent is None
    run = await client.run(run_id).get()
    assert run is not None
    assert run.meta.user_agent is not None


async def test_the_item_count_can_lag_behind_the_items(sandbox: SandboxServer, client: ApifyClientAsync) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push"}, logger=None)
    assert run is not None
    sandbox.fault("late_item_count", seconds=60)
    dataset = await client.dataset(run.default_dataset_id).get()
    assert dataset is not None
    assert dataset.item_count == 0
    assert len((await client.dataset(run.default_dataset_id).list_items()).items) == 3


def test_an_order_that_makes_no_sense_is_refused(sandbox: SandboxServer) -> None:
    assert sandbox.control.post("/faults", json={"action": "explode"}).status_code == 400
    assert sandbox.control.post("/faults", json={"action": "hang", "match": {"path": "("}}).status_code == 400


def test_orders_are_withdrawn(sandbox: SandboxServer) -> None:
    sandbox.fault("status", "GET", "/users/me")
    assert sandbox.control.delete("/faults").json() == {"withdrawn": 1}
    assert sandbox.control.get("/faults").json() == {"faults": []}
