"""Requests that arrive by halves are not held, and one address cannot take all connections."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.settings import ApiSettings
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

CONNECTIONS = 8
HEAD = b"POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    client = await connect(f"127.0.0.1:{free_port()}", lazy=True)
    settings = ApiSettings(
        data_dir=tmp_path,
        seal_keys=SecretStr(SEAL_KEYS),
        default_actors="",
        request_seconds=0.3,
        connections_per_address=CONNECTIONS,
    )
    async with serving_api(client, settings) as serving:
        yield serving


async def all_of(api: httpx.AsyncClient, *parts: bytes) -> bytes:
    """What the server answers to `parts`, until it closes the connection."""
    reader, writer = await asyncio.open_connection(api.base_url.host, api.base_url.port)
    for part in parts:
        writer.write(part)
        await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("sent", "part"), [(b"", "head"), (HEAD[:40], "head"), (HEAD + b"{", "body"), (WHOLE + HEAD[:40], "head")]
)
async def test_a_request_that_does_not_arrive_is_answered_and_closed(
    api: httpx.AsyncClient, sent: bytes, part: str
) -> None:
    answer = await all_of(api, sent)
    assert answer.count(b"HTTP/1.1 200") == sent.count(WHOLE)
    assert b"HTTP/1.1 408" in answer
    assert f"The {part} of the request".encode() in answer


async def test_silence_between_two_requests_is_no_slow_request(api: httpx.AsyncClient) -> None:
    reader, writer = await asyncio.open_connection(api.base_url.host, api.base_url.port)
    writer.write(WHOLE)
    assert await reader.readuntil(b"\r\n\r\nok")
    assert b"408" in await all_of(api, b"")  # so long has it been silent, and more
    writer.write(WHOLE)
    assert await reader.readuntil(b"\r\n\r\nok")
    writer.close()


async def test_an_address_has_so_many_connections(api: httpx.AsyncClient) -> None:
    port = api.base_url.port or 0
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(HEAD[:40])
        answer = await all_of(api)
        assert answer.startswith(b"HTTP/1.1 429")
        assert b"Retry-After" in answer
    assert (await api.get("/healthz")).status_code == 200
