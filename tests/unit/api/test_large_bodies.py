"""Slots of large bodies: one of each caller at a time, with a rest while others are served."""

import asyncio
from dataclasses import dataclass

import pytest
from starlette.types import Message, Receive, Scope, Send

from outlast.activities.contracts import Caller
from outlast.api.access.limits.caller_limits import BodySlot, CallerSlots, ServedCallers, leave_body_slot
from outlast.api.access.principal import Principal
from outlast.api.http.dependencies import PRINCIPAL_STATE
from outlast.api.http.exchange import Exchange
from outlast.api.http.request_body import BodyChecks, JsonLimits

LARGE = b'{"text": "' + b"x" * 70_000 + b'"}'


@dataclass
class Clock:
    """The time of an event loop, which can be put forward."""

    loop: asyncio.AbstractEventLoop
    ahead: float = 0.0

    def __post_init__(self) -> None:
        self._real = self.loop.time

    def time(self) -> float:
        return self._real() + self.ahead


async def settled() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("others", [True, False])
async def test_a_slot_is_followed_by_a_rest_if_others_are_served(others: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(asyncio.get_running_loop())
    monkeypatch.setattr(clock.loop, "time", clock.time)
    served = ServedCallers()
    slots = CallerSlots(served)
    first, second, third = (BodySlot(slots, "busy") for _ in range(3))
    await first.begin()
    waiting = [asyncio.create_task(one.begin()) for one in (second, third)]
    await settled()
    assert not waiting[0].done()
    clock.ahead += 0.5
    served.note("busy")
    if others:
        served.note("another")
        served.note("busy")
    first.end()
    await settled()
    assert waiting[0].done() is not others
    clock.ahead += 0.9
    await settled()
    assert waiting[0].done() is not others
    clock.ahead += 0.2
    await waiting[0]
    await settled()
    assert not waiting[1].done()
    # Whoever gives up while it waits keeps nobody waiting; it is long ago that another one was served.
    clock.ahead += 2
    second.end()
    await waiting[1]
    third.end()


async def test_a_callers_large_bodies_reach_the_server_one_by_one_until_they_are_dealt_with() -> None:
    arrived, go_on, leave = list[str](), asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        arrived.append(scope["path"])
        await go_on.wait()
        if scope["path"] == "/1":
            leave_body_slot()
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await leave.wait()

    checks = BodyChecks(1_000_000, JsonLimits(max_values=10, max_depth=10), CallerSlots())

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, {})
        async with checks.checked(exchange, scope[PRINCIPAL_STATE].caller.id) as refusal:
            await exchange.answer(refusal or app)

    def request(caller_id: str, path: str, body: bytes = LARGE) -> asyncio.Task[None]:
        principal = Principal(Caller(id=caller_id))
        scope = {"type": "http", "method": "POST", "path": path, "headers": [], PRINCIPAL_STATE: principal}

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            assert message["type"] == "http.response.start"

        return asyncio.create_task(limited(scope, receive, send))

    async def arrivals(count: int) -> list[str]:
        async with asyncio.timeout(60):
            while len(arrived) < count:
                await asyncio.sleep(0)
        await settled()
        return sorted(arrived)

    first = request("key:busy", "/1")
    await arrivals(1)
    others = [request("key:other", "/3"), request("key:busy", "/4", b"{}")]
    requests = [first, request("key:busy", "/2"), request("key:busy", "/5"), *others]
    assert await arrivals(3) == ["/1", "/3", "/4"]
    go_on.set()
    # The first one has dealt with its body and waits for something else; the second one is being answered.
    assert await arrivals(5) == ["/1", "/2", "/3", "/4", "/5"]
    assert not first.done()
    leave.set()
    await asyncio.gather(*requests)
