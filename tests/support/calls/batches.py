"""Batches as tests make them, and what comes back."""

import json
from typing import Any

import httpx

from tests.support.eventually import eventually

Body = dict[str, Any]


def doubles(count: int, **more: Any) -> Body:
    """A batch of `count` quick items."""
    items = [{"key": f"n{number}", "arguments": {"number": number}} for number in range(count)]
    return {"tool": "double", "items": items, **more}


def sleepers(count: int, seconds: float = 0.1, **more: Any) -> Body:
    """A batch of `count` runs of the sleeper."""
    items = [{"key": f"s{number}", "arguments": {"input": {"message": f"item {number}"}}} for number in range(count)]
    common = {"actor": "outlast/sleeper", "input": {"seconds": seconds, "steps": 1}}
    return {"tool": "call-actor", "arguments": common, "items": items, **more}


async def begun(api: httpx.AsyncClient, body: Body, **headers: str) -> str:
    """The id of a batch just started."""
    response = await api.post("/v1/batches", json=body, headers=headers)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/v1/batches/{response.json()['id']}"
    return response.json()["id"]


async def seen(api: httpx.AsyncClient, batch_id: str, **headers: str) -> Body:
    """The batch as it is now."""
    response = await api.get(f"/v1/batches/{batch_id}", headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def ended(api: httpx.AsyncClient, batch_id: str, **headers: str) -> Body:
    """The batch, when it has ended."""

    async def over() -> Body | None:
        batch = await seen(api, batch_id, **headers)
        assert batch["status"] != "working", batch
        return batch

    return await eventually(over, interval_seconds=0.1)


async def carried_out(api: httpx.AsyncClient, body: Body, **headers: str) -> Body:
    """The batch of `body`, when it has ended."""
    return await ended(api, await begun(api, body, **headers), **headers)


async def rows_of(api: httpx.AsyncClient, batch_id: str, **parameters: Any) -> list[Body]:
    """Its results so far."""
    response = await api.get(f"/v1/batches/{batch_id}/results", params=parameters)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]
