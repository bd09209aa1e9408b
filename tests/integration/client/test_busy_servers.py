"""A server, or a proxy before it, that answers 429 and says when to come back."""

import time
from collections.abc import Iterator

import httpx
import pytest

from outlast.client import AsyncClient, Client, RateLimited, RetryPolicy
from outlast.client.retries import Waiting, api_error
from tests.integration.client.conftest import QUICK
from tests.support.http.fake_api import Answer, FakeApi, Stream, problem, running_fake_api, sse

TOOLS = {"tools": [{"name": "hello_world"}]}


@pytest.fixture
def server() -> Iterator[FakeApi]:
    with running_fake_api() as server:
        yield server


def busy(retry_after: int | str) -> Answer:
    return problem(429, "Too many requests", "You asked too often.", retry_after=retry_after)


def test_the_client_comes_back_when_retry_after_is_over_and_not_before(server: FakeApi) -> None:
    server.on("GET", "/v1/tools", busy(1), Answer(TOOLS))
    told: list[Waiting | None] = []
    began = time.monotonic()
    with Client(server.url, retries=QUICK, on_waiting=told.append) as client:
        assert [tool.name for tool in client.tools()] == ["hello_world"]
    assert time.monotonic() - began >= 1
    assert len(server.requests("GET", "/v1/tools")) == 2
    assert [waiting and waiting.reason for waiting in told] == ["You asked too often.", None]


async def test_the_asynchronous_client_does_the_same(server: FakeApi) -> None:
    server.on("GET", "/v1/tools", busy(1), Answer(TOOLS))
    began = time.monotonic()
    async with AsyncClient(server.url, retries=QUICK) as client:
        assert [tool.name for tool in await client.tools()] == ["hello_world"]
    assert time.monotonic() - began >= 1


def test_a_retry_after_beyond_the_limit_is_raised_at_once(server: FakeApi) -> None:
    server.on("GET", "/v1/tools", busy(3600))
    with Client(server.url, retries=RetryPolicy(request_seconds=30)) as client, pytest.raises(RateLimited) as caught:
        client.tools()
    assert (caught.value.status, caught.value.retry_after_seconds) == (429, 3600)
    assert len(server.requests("GET", "/v1/tools")) == 1


def test_a_retry_after_may_be_a_time_which_the_servers_own_clock_measures(server: FakeApi) -> None:
    refusal = busy("Thu, 01 Jan 2026 01:00:00 GMT")
    dated = {**refusal.headers, "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    server.on("GET", "/v1/tools", Answer(refusal.body, refusal.status, dated))
    with Client(server.url, retries=RetryPolicy(request_seconds=30)) as client, pytest.raises(RateLimited) as caught:
        client.tools()
    assert caught.value.retry_after_seconds == 3600


@pytest.mark.parametrize(("header", "seconds"), [("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("²", None), ("soon", None)])
def test_a_time_that_is_over_asks_for_no_pause_and_nonsense_for_none(header: str, seconds: float | None) -> None:
    assert api_error(httpx.Response(429, headers=[(b"retry-after", header.encode())])).retry_after_seconds == seconds


def test_a_call_that_is_refused_for_now_is_repeated_with_the_same_idempotency_key(server: FakeApi) -> None:
    task = {"id": "t-1", "tool": "hello_world", "status": "working", "created_at": "2026-01-01T00:00:00Z"}
    server.on("POST", "/v1/tasks", busy(0), Answer(task, 201))
    with Client(server.url, retries=QUICK) as client:
        assert client.start("hello_world").id == "t-1"
    keys = [seen.headers["idempotency-key"] for seen in server.requests("POST", "/v1/tasks")]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_events_begin_when_the_server_takes_the_request(server: FakeApi) -> None:
    ended = {"id": "t-1", "tool": "hello_world", "status": "completed", "created_at": "2026-01-01T00:00:00Z"}
    server.on("GET", "/v1/tasks/t-1/events", busy(0), Stream((sse("created", {}, id="1-0"),)))
    server.on("GET", "/v1/tasks/t-1", Answer({**ended, "finished_at": "2026-01-01T00:00:01Z"}))
    with Client(server.url, retries=QUICK) as client, client.events("t-1") as events:
        assert [event.name for event in events] == ["created"]
