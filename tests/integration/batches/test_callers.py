"""Batches and their callers: who sees what, what rules and limits say, and where secrets are."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard
from temporalio.client import Client

from tests.support.calls.batches import begun, carried_out, ended, rows_of, sleepers
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

ANN, BOB = bearer("ann-key-0123456789ab"), bearer("bob-key-0123456789ab")
SECRET = "plantedSecretOfAnItem0123456789"


def reads(count: int) -> dict[str, Any]:
    """A batch of `count` quick items, of a tool that each process has."""
    return {"tool": "get-dataset-list", "items": [{"arguments": {"limit": 1}} for _ in range(count)]}


@pytest.fixture
async def shared(service: Service, sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An API of two callers, with small limits, that asks before some calls and denies others."""
    settings = api_settings(
        sandbox,
        api_keys="ann:ann-key-0123456789ab,bob:bob-key-0123456789ab",
        permissions="key:bob:get-dataset-list=deny,key:bob:call-actor=ask",
        limits={"batches": 1, "batch_items": 5},
        store_url=str(service.outputs),
        max_batch_bytes=2_000,
        audit_file=str(tmp_path / "audit.jsonl"),
    )
    async with serving_api(await connect(service.temporal_address), settings) as api:
        yield api


async def test_a_batch_is_its_callers_own(shared: httpx.AsyncClient, tmp_path: Path) -> None:
    batch = await carried_out(shared, reads(2), **ANN)
    for method, path in (
        ("GET", ""),
        ("GET", "/results"),
        ("POST", "/cancel"),
        ("POST", "/resume"),
        ("POST", "/retry"),
    ):
        answer = await shared.request(
            method, f"/v1/batches/{batch['id']}{path}", headers=BOB, json={} if method == "POST" else None
        )
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:outlast:problem:batch-not-found")
    assert (await shared.get("/v1/batches", headers=BOB)).json()["batches"] == []
    assert (await shared.get(f"/v1/outputs/{batch['results']}", headers=BOB)).status_code == 403
    # The same key of another caller is another batch; a task is none.
    key = {"Idempotency-Key": "mine"}
    first = await begun(shared, reads(1), **ANN, **key)
    await ended(shared, first, **ANN)
    other = await shared.post("/v1/batches", json=sleepers(1, 0), headers={**BOB, **key})
    assert other.status_code == 201
    assert other.json()["id"] != first
    task = (await shared.get("/v1/tasks", headers=ANN)).json()["tasks"][0]["id"]
    assert (await shared.get(f"/v1/batches/{task}", headers=ANN)).status_code == 404
    assert (await shared.get(f"/v1/tasks/{first}", headers=ANN)).status_code == 404
    await shared.post(f"/v1/batches/{other.json()['id']}/cancel", headers=BOB)
    await ended(shared, other.json()["id"], **BOB)
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    started = [one for one in records if one["event"] == "batch.started" and one["batch"] == batch["id"]]
    assert [(one["caller"], one["tool"], one["detail"]) for one in started] == [
        ("key:ann", "get-dataset-list", "2 items")
    ]


async def test_rules_hold_for_every_item(shared: httpx.AsyncClient, sandbox: Sandbox) -> None:
    denied = await carried_out(shared, reads(3), **BOB)
    assert denied["failed"] == 3
    before = sandbox.counters["startsAccepted"]
    batch_id = await begun(shared, sleepers(2, 0), **BOB)

    async def asked() -> list[dict[str, Any]]:
        tasks = (await shared.get("/v1/tasks", params={"batch_id": batch_id}, headers=BOB)).json()["tasks"]
        assert [task["status"] for task in tasks] == ["input_required"] * 2, tasks
        return tasks

    waiting: list[dict[str, Any]] = await eventually(asked)
    for task in waiting:
        [question] = task["input_requests"]
        answers = {"answers": {question: {"action": "accept", "content": {"decision": "yes"}}}}
        answered = await shared.post(f"/v1/tasks/{task['id']}/input", json=answers, headers=BOB)
        assert answered.status_code == 200, answered.text
    batch = await ended(shared, batch_id, **BOB)
    assert batch["completed"] == 2
    assert sandbox.counters["startsAccepted"] - before == 2


async def test_limits_of_the_policy_are_kept(shared: httpx.AsyncClient) -> None:
    many = await shared.post("/v1/batches", json=reads(6), headers=ANN)
    assert (many.status_code, many.json()["type"]) == (413, "urn:outlast:problem:batch-too-large")
    settings = {"Outlast-Batch": '{"tool": "get-dataset-list"}', "Content-Type": "application/x-ndjson"}
    large = await shared.post("/v1/batches/uploads", content=b"\n" * 2_001, headers={**ANN, **settings})
    assert (large.status_code, large.json()["type"]) == (413, "urn:outlast:problem:batch-too-large")
    first = await begun(shared, sleepers(1, 600), **ANN)

    async def is_listed() -> bool:
        return bool((await shared.get("/v1/batches", params={"only_open": True}, headers=ANN)).json()["batches"])

    await eventually(is_listed)
    second = await shared.post("/v1/batches", json=reads(1), headers=ANN)
    assert (second.status_code, second.json()["type"]) == (429, "urn:outlast:problem:too-many-requests")
    await shared.post(f"/v1/batches/{first}/cancel", headers=ANN)
    await ended(shared, first, **ANN)


async def test_secrets_of_items_are_sealed_in_the_store_and_in_histories(
    api: httpx.AsyncClient, service: Service, temporal: Client
) -> None:
    """`call-actor` for an Actor whose schema nobody knows: its whole input is secret."""
    body = {
        "tool": "call-actor",
        "arguments": {"actor": "nobody/knows-this-one"},
        "items": [{"key": "s", "arguments": {"input": {"password": SECRET}}}],
    }
    batch = await carried_out(api, body)
    [row] = await rows_of(api, batch["id"])
    assert row["error"]["category"] == "not_found"
    kept = [path for path in service.outputs.rglob("*") if path.is_file()]
    assert kept
    assert [path for path in kept if SECRET.encode() in opened(path)] == []
    for workflow_id in (batch["id"], row["task_id"]):
        history = await temporal.get_workflow_handle(workflow_id).fetch_history()
        assert SECRET not in history.to_json()


def opened(path: Path) -> bytes:
    """What is in an object of the store."""
    content = path.read_bytes()
    try:
        return content + zstandard.ZstdDecompressor().decompress(content, max_output_size=2**24)
    except zstandard.ZstdError:
        return content
