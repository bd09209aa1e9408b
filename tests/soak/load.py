"""The load of a soak: calls of every kind, made again and again by clients that live through whatever happens."""

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from tests.support.calls.turns import new_session
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import KNOWS_TASKS, MODERN, Wire, WireError
from tests.support.stacks.chaos_client import Chaos

Json = dict[str, Any]
T = TypeVar("T")
BUDGET: Json = {"budget": {"max_total_charge_usd": "0.01"}}
LARGE_ROWS = 2_000
_OVER_SECONDS = 300
"""Whatever happens, an answer is there by then; else the call counts as lost."""


@dataclass
class Outcome:
    """What became of the calls of a soak."""

    ended: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    seconds: list[float] = field(default_factory=list[float])
    unanswered: int = 0
    """MCP calls that were repeated: MCP knows no idempotency key, so each may have made a task."""


class Load:
    """Clients that call one after the other. Which calls, and in which order, follows from the seed."""

    def __init__(self, chaos: Chaos, seed: int) -> None:
        self.outcome = Outcome()
        self._chaos = chaos
        self._seed = seed
        self._wire = Wire(chaos.http, MODERN, "?tools=call-actor,fetch-actor-details")
        self._kinds: dict[str, tuple[int, Callable[[random.Random], Awaitable[None]]]] = {
            "quick tool": (6, self._quick),
            "Actor call": (6, self._actor),
            "large output": (2, self._large),
            "hand-off": (2, self._handoff),
            "cancel": (2, self._cancel),
            "turn": (2, self._turn),
            "MCP task": (2, self._mcp),
        }

    async def client(self, number: int, end: float) -> None:
        """Call until the time `end` (monotonic) is over; the last call is still finished."""
        moments = random.Random(f"{self._seed}-{number}")
        names, weights = list(self._kinds), [weight for weight, _ in self._kinds.values()]
        while time.monotonic() < end:
            kind = moments.choices(names, weights)[0]
            began = time.monotonic()
            try:
                async with asyncio.timeout(_OVER_SECONDS):
                    await self._kinds[kind][1](moments)
            except (AssertionError, TimeoutError, httpx.HTTPError, WireError, KeyError) as error:
                self.outcome.wrong.append(f"{kind}: {error!r}"[:500])
            self.outcome.ended[kind] += 1
            self.outcome.seconds.append(time.monotonic() - began)

    async def _quick(self, moments: random.Random) -> None:
        await self._completed(
            await self._post({"tool": "fetch-actor-details", "arguments": {"actor": "outlast/sleeper"}})
        )

    async def _actor(self, moments: random.Random) -> None:
        body = self._chaos.body(
            seconds=moments.uniform(0, 4), mode=moments.choice(["default", "openai"]), options=BUDGET
        )
        await self._rows(await self._post(body), 3)

    async def _large(self, moments: random.Random) -> None:
        body = self._chaos.body(seconds=moments.uniform(0, 1), rows=LARGE_ROWS, options=BUDGET)
        await self._rows(await self._post(body), LARGE_ROWS)

    async def _handoff(self, moments: random.Random) -> None:
        task = await self._post({"tool": "order", "arguments": {"item": "tea"}})

        async def answered() -> bool:
            now = await self._task(task)
            if now.get("input_requests"):
                key = next(iter(now["input_requests"]))
                answers = {key: {"action": "accept", "content": {"confirmed": True}}}
                await self._send("POST", f"/v1/tasks/{task}/input", {"answers": answers})
            return bool(now.get("finished_at"))

        await eventually(answered, _OVER_SECONDS, 0.3)
        await self._completed(task)

    async def _cancel(self, moments: random.Random) -> None:
        task = await self._post(self._chaos.body(seconds=600, options=BUDGET))
        await asyncio.sleep(moments.uniform(0, 3))
        await self._send("POST", f"/v1/tasks/{task}/cancel")
        ended = await self._ended(task)
        assert ended["status"] == "cancelled", ended
        assert ended["run"] is None or ended["run"]["status"] == "ABORTED", ended

    async def _turn(self, moments: random.Random) -> None:
        session = await _repeated(lambda: new_session(self._chaos.http, tools=["actors"]))
        body = {"message": "Which Actor?", "stream": False, "messageId": uuid.uuid4().hex}
        turn = await self._send("POST", f"/v1/sessions/{session}/messages", body)
        assert turn["status"] == "completed", turn

    async def _mcp(self, moments: random.Random) -> None:
        arguments = self._chaos.body(seconds=moments.uniform(0, 2), maxTotalChargeUsd=0.01)["arguments"]
        self.outcome.unanswered -= 1

        async def call() -> Json:
            self.outcome.unanswered += 1
            call = {"name": "call-actor", "arguments": arguments}
            return await self._wire.request("tools/call", call, capabilities=KNOWS_TASKS)

        made = await _repeated(call)
        if made["resultType"] != "task":
            assert not made.get("isError"), made
            return
        await self._rows(made["taskId"], 3)

    async def _rows(self, task: str, rows: int) -> None:
        """The task has ended well, and its dataset holds every row once."""
        ended = await self._completed(task)
        dataset = ended["run"]["dataset_id"]
        headers = {"Authorization": f"Bearer {self._chaos.sandbox.token}"}
        url = f"{self._chaos.sandbox.url}/v2/datasets/{dataset}/items"
        async with httpx.AsyncClient(trust_env=False, timeout=30) as platform:
            items = (await _repeated(lambda: _succeeded(platform.get(url, headers=headers)))).json()
        assert [item["index"] for item in items] == list(range(rows)), f"{len(items)} rows of {rows}"

    async def _completed(self, task: str) -> Json:
        ended = await self._ended(task)
        assert ended["status"] == "completed", ended
        result = (await self._send("GET", f"/v1/tasks/{task}/result"))["result"]
        assert not result["is_error"], result
        return ended

    async def _ended(self, task: str) -> Json:
        async def over() -> Json | None:
            now = await self._task(task)
            return now if now.get("finished_at") else None

        return await eventually(over, _OVER_SECONDS, 0.3)

    async def _task(self, task: str) -> Json:
        return await self._send("GET", f"/v1/tasks/{task}")

    async def _post(self, body: Json) -> str:
        return (await self._send("POST", "/v1/tasks", body))["id"]

    async def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        """The answer, as a client gets it that repeats what was not answered, and what is to be repeated."""
        key = uuid.uuid4().hex
        return (await _repeated(lambda: self._request(method, path, body, key))).json()

    async def _request(self, method: str, path: str, body: Json | None, key: str) -> httpx.Response:
        headers = {"Idempotency-Key": key} if method == "POST" else {}
        answer = await self._chaos.http.request(method, path, json=body, headers=headers)
        if answer.status_code == httpx.codes.CONFLICT and path.endswith(("/input", "/cancel")):
            return answer  # it was taken before, although the answer was lost
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer


async def _succeeded(asked: Awaitable[httpx.Response]) -> httpx.Response:
    return (await asked).raise_for_status()


async def _repeated(ask: Callable[[], Awaitable[T]]) -> T:
    """The first answer that is one; until then whatever is away may come back."""

    async def answered() -> tuple[T]:
        try:
            return (await ask(),)
        except (httpx.HTTPError, WireError) as error:
            raise AssertionError(repr(error)) from error

    return (await eventually(answered, _OVER_SECONDS, 0.5))[0]
