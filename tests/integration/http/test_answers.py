"""What every answer carries, and how answers that go wrong are counted."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import httpx
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.api.http.exchange import Exchange
from outlast.api.rest import session_routes
from outlast.api.settings import ApiSettings
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

PUBLIC = ("/openapi.json", "/docs")
"""Documents that are the same for everybody: browsers may keep them, and ask each time whether they have changed."""


async def counted(api: httpx.AsyncClient, series: str) -> float:
    found = re.search(rf"^{re.escape(series)} (\S+)$", (await api.get("/metrics")).text, re.MULTILINE)
    return float(found.group(1)) if found else 0


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/healthz", {}, 200),
        ("/openapi.json", {}, 200),
        ("/docs", {}, 200),
        ("/nothing", {}, 404),
        ("/v1/providers", {"Authorization": "Bearer a-wrong-key-of-nobody"}, 401),
        ("/healthz", {"Host": "evil.example"}, 400),
    ],
)
async def test_every_answer_has_the_security_headers(
    api: httpx.AsyncClient, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await api.get(path, headers=headers)
    assert answer.status_code in (status, 503)
    check_headers(answer, cache="no-cache" if path in PUBLIC else "no-store")


def check_headers(answer: httpx.Response, *, cache: str = "no-store") -> None:
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == cache
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers.get_list("content-security-policy") == [answer.headers["content-security-policy"]]
    assert "strict-transport-security" not in answer.headers


async def test_https_is_asked_for_on_every_answer_when_the_operator_says_so(tmp_path: Path) -> None:
    client = await connect(f"127.0.0.1:{free_port()}", lazy=True)
    settings = ApiSettings(
        data_dir=tmp_path, seal_keys=SecretStr(SEAL_KEYS), default_actors="", hsts_seconds=31_536_000
    )
    async with serving_api(client, settings) as http:
        for answer in (await http.get("/healthz"), await http.get("/nothing"), await http.post("/v1/tasks")):
            assert answer.headers["strict-transport-security"].startswith("max-age=31536000")


async def test_a_defect_is_an_answer_with_the_headers_and_is_counted(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise ZeroDivisionError

    series = 'outlast_http_requests_total{method="GET",route="/v1/providers",status="500"}'
    before = await counted(api, series)
    monkeypatch.setattr(session_routes, "provider_list", fail)
    answer = await api.get("/v1/providers")
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:outlast:problem:internal")
    check_headers(answer)
    assert await counted(api, series) == before + 1


async def test_the_connection_outlives_a_defect(api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was closed after the answer: the next request that a client sent over it failed."""

    def fail(*_: object) -> NoReturn:
        raise ZeroDivisionError

    monkeypatch.setattr(session_routes, "provider_list", fail)
    reader, writer = await asyncio.open_connection(api.base_url.host, api.base_url.port)
    for path, status in (("/v1/providers", 500), ("/healthz", 200), ("/v1/providers", 500), ("/healthz", 200)):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith(f"http/1.1 {status} "), head
        assert "connection: close" not in head
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
    writer.close()


async def test_an_answer_that_breaks_off_is_counted_with_its_cause(api: httpx.AsyncClient) -> None:
    async def broken(request: Request) -> StreamingResponse:
        async def pieces() -> AsyncIterator[str]:
            yield "first"
            if request.path_params["cause"] == "error":
                raise ZeroDivisionError
            await asyncio.Event().wait()

        return StreamingResponse(pieces())

    app = Starlette(routes=[Route("/{cause}", broken)], middleware=[Middleware(Exchanges)])
    series = 'outlast_http_answers_broken_total{cause="%s",method="GET",route="/{cause}"}'
    before = {cause: await counted(api, series % cause) for cause in ("error", "disconnected")}

    with pytest.raises(ZeroDivisionError):
        await httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test").get("/error")
    await ask_and_leave(app)

    assert {cause: await counted(api, series % cause) - before[cause] for cause in before} == {
        "error": 1, "disconnected": 1,
    }  # fmt: skip


async def test_a_client_that_leaves_while_it_sends_its_body_is_no_server_error(
    api: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    series = 'outlast_http_answers_broken_total{cause="disconnected",method="POST",route="(none)"}'
    before = await counted(api, series)
    _, writer = await asyncio.open_connection(api.base_url.host, api.base_url.port)
    writer.write(b"POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhalf a body")
    await writer.drain()
    writer.close()

    async def is_counted() -> bool:
        return await counted(api, series) > before

    await eventually(is_counted)
    assert "failed" not in caplog.text


class Exchanges:
    """What `Entry` does with an exchange, without its checks."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, {})
        try:
            await exchange.answer(self.app)
        except ZeroDivisionError as error:
            if not await exchange.fail(error):
                raise
        finally:
            exchange.finish()


async def ask_and_leave(app: Starlette) -> None:
    """Ask for an answer that does not end, and disconnect when it has begun."""
    begun = asyncio.Event()
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, object]:
        if (message := next(messages, None)) is not None:
            return message
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        begun.set()

    scope = {"type": "http", "method": "GET", "path": "/forever", "headers": [], "query_string": b""}
    await app(scope, receive, send)  # pyright: ignore[reportArgumentType]  # the smallest scope that Starlette takes
