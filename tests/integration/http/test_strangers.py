"""What the server does for those without a credential: little, once, and never too much for one address."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.settings import ApiSettings
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, running_lone_api, serving_api
from tests.support.stacks.service import SEAL_KEYS

KEY = "bob-0123456789abcdef"
BOB = {"Authorization": f"Bearer {KEY}"}
DOCUMENTS = (
    "/openapi.json",
    "/docs",
    "/docs/swagger-ui-bundle.js",
    "/docs/swagger-ui.css",
    "/docs/start.js",
    "/mcp/server-card",
    "/.well-known/mcp/server-card.json",
    "/.well-known/mcp/catalog.json",
)
METADATA = ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource")
PROBES = ("/healthz", "/readyz", "/metrics")
READERS = 200
MAX_GROWTH_MB = 100


async def served(folder: Path, **settings: Any) -> Any:
    given = {"default_actors": "", "api_keys": SecretStr(f"bob:{KEY}"), "audit_file": folder / "audit", **settings}
    client = await connect(f"127.0.0.1:{free_port()}", lazy=True)
    return serving_api(client, ApiSettings(data_dir=folder, seal_keys=SecretStr(SEAL_KEYS), **given), whole=True)


@pytest.fixture
async def silent(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An API on which an address may send a request in a hundred seconds, after one."""
    async with await served(tmp_path, anonymous_requests_per_second=0.01) as http:
        assert (await http.get("/docs")).status_code == 200
        yield http


async def check_document(api: httpx.AsyncClient, path: str) -> None:
    whole = await api.get(path)
    tag = whole.headers["etag"]
    assert (whole.status_code, bool(whole.content)) == (200, True)
    assert re.fullmatch('"[0-9a-f]{32}"', tag)
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        unchanged = await api.get(path, headers={"If-None-Match": known})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
        assert unchanged.headers["cache-control"] == whole.headers["cache-control"]
    for unknown in ('"other"', tag[1:-1], tag.upper(), ""):
        again = await api.get(path, headers={"If-None-Match": unknown})
        assert (again.status_code, again.content) == (200, whole.content)
    head = await api.head(path)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(whole.content)))
    assert (await api.post(path, headers=BOB)).status_code == 405


async def test_documents_have_a_tag_and_are_not_sent_again_to_whom_knows_it(tmp_path: Path) -> None:
    oauth = {"oauth_issuer": "https://login.example", "oauth_audience": "http://localhost:8400/mcp"}
    async with await served(tmp_path, **oauth) as api:
        for path in (*DOCUMENTS, *METADATA):
            await check_document(api, path)


async def test_an_address_that_sends_too_many_is_refused_and_its_connection_closed(silent: httpx.AsyncClient) -> None:
    for path in (*DOCUMENTS, "/nothing", "/v1/tasks", "/mcp"):
        answer = await silent.get(path)
        assert (answer.status_code, answer.json()["type"]) == (429, "urn:outlast:problem:too-many-requests"), path
        assert int(answer.headers["retry-after"]) > 1
        assert answer.headers["connection"] == "close"
        assert answer.headers["cache-control"] == "no-store"
    assert (await silent.post("/v1/tasks", json={})).status_code == 429
    assert 'outlast_limited_total{limit="anonymous_requests"}' in (await silent.get("/metrics")).text


async def test_whoever_has_a_credential_is_not_held_back(silent: httpx.AsyncClient) -> None:
    for _ in range(20):
        answer = await silent.get("/v1/providers", headers=BOB)
        assert (answer.status_code, answer.headers.get("connection")) == (200, None)
    assert (await silent.get("/v1/providers")).status_code == 429


async def test_a_wrong_credential_does_not_get_around_the_limit(silent: httpx.AsyncClient) -> None:
    async def status(token: str) -> int:
        return (await silent.get("/v1/providers", headers={"Authorization": f"Bearer {token}"})).status_code

    assert await status("ol_nobody_0123456789") == 401
    assert {await status("ol_nobody_0123456789") for _ in range(100)} <= {401, 429}
    assert await status("ol_nobody_0123456789") == 429


async def test_probes_are_answered_whatever_else_their_address_sends(silent: httpx.AsyncClient) -> None:
    async def get(path: str) -> httpx.Response:
        return await silent.get(path)

    answers = await asyncio.gather(*(get(path) for path in 20 * PROBES), *(get("/nothing") for _ in range(60)))
    by_status = {(answer.request.url.path, answer.status_code) for answer in answers}
    assert by_status == {("/healthz", 200), ("/readyz", 503), ("/metrics", 200), ("/nothing", 429)}
    assert (await silent.post("/healthz")).status_code == 429


async def test_refusals_of_strangers_leave_few_records(silent: httpx.AsyncClient, tmp_path: Path) -> None:
    for _ in range(20):
        assert (await silent.get("/v1/tasks")).status_code == 429
    assert not (tmp_path / "audit").exists() or "credentials" not in (tmp_path / "audit").read_text()


async def test_a_stranger_that_does_not_read_takes_little_memory(tmp_path: Path) -> None:
    with running_lone_api(tmp_path, OUTLAST_ANONYMOUS_REQUESTS_PER_SECOND="10000") as api, ExitStack() as readers:
        url = httpx.URL(api.url)
        asked = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        async with httpx.AsyncClient(base_url=api.url, trust_env=False, timeout=180) as http:
            for path in DOCUMENTS:
                assert (await http.get(path)).status_code == 200
            before = api.memory_mb()
            for _ in range(READERS):
                reader = readers.enter_context(socket.socket())
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                reader.connect((url.host, url.port))
                reader.sendall(4 * asked)

            async def began() -> bool:
                """The first answer of each has begun, and most of it waits in the process."""
                series = 'outlast_http_requests_total{method="GET",route="/docs/swagger-ui-bundle.js",status="200"}'
                counted = re.search(rf"^{re.escape(series)} (\S+)$", (await http.get("/metrics")).text, re.MULTILINE)
                return counted is not None and float(counted[1]) >= READERS

            await eventually(began)
            assert api.memory_mb() < before + MAX_GROWTH_MB
