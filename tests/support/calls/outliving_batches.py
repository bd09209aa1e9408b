"""Batches through an API that may be away: it is killed meanwhile."""

import json
import random
from dataclasses import dataclass

import httpx

from tests.support.calls.batches import Body
from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos


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
