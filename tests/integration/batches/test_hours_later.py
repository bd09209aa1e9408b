"""A batch that stood still for hours goes on, though its results have expired meanwhile and the store was swept."""

import httpx
from temporalio.client import Client

from tests.support.calls.batches import carried_out, ended, rows_of, sleepers
from tests.support.stacks.retention import hours_pass
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

SHORT_LIVED = {"output": {"ttl_seconds": 3_600}}


async def test_a_batch_is_resumed_hours_after_its_results_have_expired(
    api: httpx.AsyncClient, service: Service, temporal: Client, sandbox: Sandbox
) -> None:
    before = sandbox.counters["startsAccepted"]
    body = sleepers(9, 0, concurrency=1, options=SHORT_LIVED, stop={"completed": 3})
    batch = await carried_out(api, body)
    assert (batch["status"], batch["completed"]) == ("stopped", 3)
    await hours_pass(service.outputs, temporal, 2)
    gone = await api.get(f"/v1/batches/{batch['id']}/results")
    assert (gone.status_code, gone.json()["type"]) == (410, "urn:outlast:problem:output-expired")

    resumed = await api.post(f"/v1/batches/{batch['id']}/resume", json={"stop": {}})
    assert resumed.status_code == 202, resumed.text
    done = await ended(api, batch["id"])
    assert (done["status"], done["completed"]) == ("completed", 9), done
    rows = await rows_of(api, batch["id"])
    assert sorted(row["index"] for row in rows) == list(range(9))
    assert sandbox.counters["startsAccepted"] - before == 9


async def test_a_batch_whose_results_were_deleted_is_not_resumed(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, sleepers(4, 0, concurrency=1, stop={"completed": 1}))
    assert (await api.delete(f"/v1/outputs/{batch['results']}")).is_success
    refused = await api.post(f"/v1/batches/{batch['id']}/resume", json={})
    assert (refused.status_code, refused.json()["type"]) == (410, "urn:outlast:problem:output-deleted")
    assert (await api.get(f"/v1/batches/{batch['id']}")).json()["status"] == "stopped"
