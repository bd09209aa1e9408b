"""Batches that tests start over HTTP, also through an API that is killed in between."""

import json
import random
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos

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


@dataclass(frozen=True)
class OutlivingBatch:
    """A batch that goes on whatever is killed; its client repeats what is not answered."""

    chaos: Chaos
    id: str

    @classmethod
    async def begun(cls, chaos: Chaos, body: Body) -> "OutlivingBatch":
        """Start a batch."""
        headers = {"Idempotency-Key": str(random.random())}
        answer = await _answered(chaos, "POST", "/v1/batches", json=body, headers=headers)
        return cls(chaos, answer.json()["id"])

    async def seen(self) -> Body:
        """The batch as it is now."""
        return (await _answered(self.chaos, "GET", f"/v1/batches/{self.id}")).json()

    async def ended(self, timeout_seconds: float = 300) -> Body:
        """The batch, when it has ended."""

        async def over() -> Body:
            batch = await self.seen()
            assert batch["status"] != "working", batch
            return batch

        return await eventually(over, timeout_seconds, 0.3)

    async def until_ended(self, items: int, timeout_seconds: float = 180) -> Body:
        """The batch, when so many items have ended, or all of it."""

        async def so_many() -> Body:
            batch = await self.seen()
            assert batch["completed"] + batch["failed"] + batch["cancelled"] >= items or batch["status"] != "working"
            return batch

        return await eventually(so_many, timeout_seconds, 0.1)

    async def rows(self) -> list[Body]:
        """Its results so far."""
        answer = await _answered(self.chaos, "GET", f"/v1/batches/{self.id}/results")
        return [json.loads(line) for line in answer.text.splitlines()]

    async def post(self, verb: str, body: Body) -> None:
        """Cancel it, or resume it. What an answer that was lost has done already is done."""
        path = f"/v1/batches/{self.id}/{verb}"
        await _answered(self.chaos, "POST", path, json=body, done=(httpx.codes.ACCEPTED, httpx.codes.CONFLICT))


async def _answered(
    chaos: Chaos, method: str, path: str, *, done: tuple[int, ...] = (200, 201), **request: object
) -> httpx.Response:
    async def answered() -> httpx.Response:
        try:
            answer = await chaos.http.request(method, path, **request)  # pyright: ignore[reportArgumentType]
        except httpx.HTTPError as error:
            raise AssertionError(repr(error)) from error
        assert answer.status_code in done, answer.text
        return answer

    return await eventually(answered, interval_seconds=0.2)
