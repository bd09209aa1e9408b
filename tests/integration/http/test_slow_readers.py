"""Clients that read slowly, or not at all: their connections, and the requests of their callers."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from outlast.api.access.policy.contracts import Limits
from outlast.api.settings import ApiSettings
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

ANN, BOB = "ann-0123456789abcdef", "bob-0123456789abcdef"
LARGE = "/docs/swagger-ui-bundle.js"
"""A megabyte and a half, for everybody."""
TOOLS = "/v1/tools"
"""A hundred kilobytes, for callers."""
READERS = 20


@asynccontextmanager
async def serving(tmp_path: Path, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    made = ApiSettings.model_validate(
        {
            "data_dir": tmp_path,
            "seal_keys": SecretStr(SEAL_KEYS),
            "api_keys": SecretStr(f"ann:{ANN},bob:{BOB}"),
            "default_actors": "",
            "default_tools": "actors,docs",  # also if another test has loaded tools of its own
            **settings,
        }
    )
    async with serving_api(await connect(f"127.0.0.1:{free_port()}", lazy=True), made) as api:
        yield api


@contextmanager
def unread(api: httpx.AsyncClient, path: str, *, count: int = 1, token: str = ANN) -> Iterator[list[socket.socket]]:
    """Connections that have requested `path` and have read nothing."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    with ExitStack() as opened:
        readers: list[socket.socket] = []
        for _ in range(count):
            reader = opened.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            reader.connect((api.base_url.host, api.base_url.port or 0))
            reader.sendall(request)
            reader.setblocking(False)
            readers.append(reader)
        yield readers


async def ended_unread(api: httpx.AsyncClient) -> float:
    """Responses that were ended because nobody read them, counted in the whole test process."""
    found = re.search(
        r'^outlast_responses_ended_total\{reason="unread"\} (\S+)$', (await api.get("/metrics")).text, re.MULTILINE
    )
    return float(found[1]) if found else 0.0


async def test_a_connection_that_takes_nothing_is_closed_and_one_that_reads_slowly_is_not(tmp_path: Path) -> None:
    async with serving(tmp_path, unread_seconds=4) as api:
        before = await ended_unread(api)
        loop = asyncio.get_running_loop()
        with unread(api, LARGE, count=2) as (silent, slow):
            taken = 0

            async def silent_one_is_closed() -> bool:
                nonlocal taken
                taken += len(await loop.sock_recv(slow, 2_048))
                return await ended_unread(api) == before + 1

            await eventually(silent_one_is_closed)
            size = len((await api.get(LARGE)).content)
            while taken < size:
                piece = await loop.sock_recv(slow, 1_000_000)
                assert piece, "the slow one was cut off"
                taken += len(piece)
            received = 0
            with suppress(ConnectionResetError):
                while piece := await loop.sock_recv(silent, 1_000_000):
                    received += len(piece)
            assert received < size
        assert await ended_unread(api) == before + 1


async def test_a_caller_with_too_many_unread_responses_is_refused_until_they_are_gone(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=Limits(unread_bytes=1024 * 1024)) as api:
        size = await size_of_tools(api)
        count = 2 * 1024 * 1024 // size

        async def is_refused() -> bool:
            answer = await api.get("/v1/providers", headers=bearer(ANN))
            if answer.status_code != 429:
                return False
            assert "`unread_bytes`" in answer.json()["detail"]
            assert int(answer.headers["retry-after"]) > 0
            return True

        with unread(api, TOOLS, count=count):
            await eventually(is_refused)
            assert (await api.get("/v1/providers", headers=bearer(BOB))).status_code == 200
            assert 'outlast_limited_total{limit="unread_bytes"}' in (await api.get("/metrics")).text
        assert await eventually(lambda: _is_served(api))


async def _is_served(api: httpx.AsyncClient) -> bool:
    return (await api.get("/v1/providers", headers=bearer(ANN))).status_code == 200


async def size_of_tools(api: httpx.AsyncClient) -> int:
    answer = await api.get(TOOLS, headers=bearer(ANN))
    assert answer.status_code == 200, answer.text
    assert len(answer.content) > 64 * 1024
    return len(answer.content)


async def test_clients_that_read_are_never_refused(tmp_path: Path) -> None:
    """Together they have far more in the memory at once than may stay unread."""
    async with serving(tmp_path, limits=Limits(unread_bytes=1024 * 1024)) as api:
        await size_of_tools(api)
        answers = await asyncio.gather(*(api.get(TOOLS, headers=bearer(ANN)) for _ in range(READERS)))
        assert {answer.status_code for answer in answers} == {200}
