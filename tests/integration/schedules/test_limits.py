"""Limits on what a caller may have hold when all requests come at once; what has ended or is deleted makes room."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from temporalio.client import Client

from outlast.api.access.policy.contracts import Limits
from tests.support.calls.schedules import NEVER
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, Wire
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

MOST, AT_ONCE = 3, 12
READ = {"tool": "get-dataset-list", "arguments": {"limit": 1}}
Send = Callable[[int], Awaitable[httpx.Response]]


@pytest.fixture
async def few(service: Service, temporal: Client, sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    """Another API of the same stack, whose callers may have three of everything."""
    most = dict.fromkeys(("schedules", "saved_calls", "webhooks", "batches", "sessions", "mcp_sessions"), MOST)
    settings = api_settings(
        sandbox,
        data_dir=service.folder,
        api_keys=SecretStr("few:few-0123456789abcdef"),
        limits=Limits.model_validate(most),
        allow_private_addresses=True,
    )
    async with serving_api(temporal, settings, whole=True) as api:
        api.headers["Authorization"] = "Bearer few-0123456789abcdef"
        yield api


async def sent(send: Send) -> list[httpx.Response]:
    return await asyncio.gather(*map(send, range(AT_ONCE)))


def check(answers: list[httpx.Response], made: int, refused: int = 429) -> None:
    assert Counter(answer.status_code for answer in answers) == {made: MOST, refused: AT_ONCE - MOST}
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["retry-after"]) > 0
            assert "operator's policy" in answer.json()["detail"]


async def test_no_more_schedules_than_allowed_are_made_at_once(few: httpx.AsyncClient) -> None:
    def body(number: int) -> dict[str, Any]:
        return {"id": f"at-once-{number}", **NEVER, "call": READ}

    answers = await sent(lambda number: few.post("/v1/schedules", json=body(number)))
    check(answers, made=201)
    made = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    # The same request again is no further one.
    assert (await few.post("/v1/schedules", json=body(int(made[0].rpartition("-")[2])))).status_code == 201
    for schedule_id in made:
        await few.delete(f"/v1/schedules/{schedule_id}")
    # What is deleted makes room at once, although lists may still show it.
    numbers = itertools.count(100)

    async def has_room() -> bool:
        answer = await few.post("/v1/schedules", json=body(next(numbers)))
        assert answer.status_code == 201, answer.text
        return True

    for _ in range(MOST):
        await eventually(has_room)
    assert (await few.post("/v1/schedules", json=body(next(numbers)))).status_code == 429


async def listed(few: httpx.AsyncClient, path: str, name: str, count: int) -> bool:
    found = (await few.get(path)).json()[name]
    assert len(found) == count, found
    return True


async def test_no_more_saved_calls_than_allowed_are_made_at_once(few: httpx.AsyncClient) -> None:
    answers = await sent(lambda number: few.put(f"/v1/saved-calls/at-once-{number}", json=READ))
    check(answers, made=200)
    assert await listed(few, "/v1/saved-calls", "saved_calls", MOST)


async def test_no_more_webhooks_than_allowed_are_made_at_once(few: httpx.AsyncClient) -> None:
    answers = await sent(lambda _: few.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/hook"}))
    check(answers, made=201, refused=409)
    assert await listed(few, "/v1/webhooks", "webhooks", MOST)


async def test_no_more_batches_than_allowed_are_at_work_at_once(few: httpx.AsyncClient) -> None:
    long = {"tool": "outlast--sleeper", "arguments": {"seconds": 60}, "items": [{}]}
    answers = await sent(lambda _: few.post("/v1/batches", json=long))
    check(answers, made=201)
    for answer in answers:
        if answer.status_code == 201:
            assert (await few.post(f"/v1/batches/{answer.json()['id']}/cancel")).status_code == 202

    async def has_room() -> bool:
        answer = await few.post("/v1/batches", json={**READ, "items": [{}]})
        assert answer.status_code == 201, answer.text
        return True

    # One after the other: each has ended when the next one comes, although no list has shown it yet.
    for _ in range(2 * MOST):
        await eventually(has_room)


async def test_no_more_sessions_than_allowed_are_begun_at_once(few: httpx.AsyncClient) -> None:
    answers = await sent(lambda number: few.post("/v1/tasks", json={**READ, "session_id": f"at-once-{number}"}))
    check(answers, made=201)


async def test_no_more_sessions_of_mcp_than_allowed_are_opened_at_once(few: httpx.AsyncClient) -> None:
    async def opened(_: int) -> bool:
        wire = Wire(few, LEGACY)
        try:
            await wire.initialize()
        except (AssertionError, KeyError):
            return False
        return wire.session is not None

    assert sum(await asyncio.gather(*map(opened, range(AT_ONCE)))) == MOST
