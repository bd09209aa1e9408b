"""What a caller may ask for at once, at every front door; what is refused, and that others do not notice."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.access.policy.contracts import Limits
from outlast.api.settings import ApiSettings
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

ANN, BOB = ({"Authorization": f"Bearer {name}-0123456789abcdef"} for name in ("ann", "bob"))
BURST = 12
TOO_FEW = 0.01
"""Requests per second: none comes back while a test runs."""


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
async def api(tmp_path: Path, silent: str) -> AsyncIterator[httpx.AsyncClient]:
    limits = Limits(
        requests_per_second=TOO_FEW,
        request_burst=BURST,
        open_streams=1,
        waiting_requests=1,
        actors_per_connection=2,
    )
    settings = ApiSettings(
        data_dir=tmp_path,
        seal_keys=SecretStr(SEAL_KEYS),
        api_keys=SecretStr("ann:ann-0123456789abcdef,bob:bob-0123456789abcdef"),
        limits=limits,
        default_actors="",
    )
    async with serving_api(await connect(silent, lazy=True), settings, whole=True) as serving:
        yield serving


def refused(response: httpx.Response) -> bool:
    if response.status_code != 429:
        return False
    assert response.json()["type"] == "urn:outlast:problem:too-many-requests"
    assert int(response.headers["retry-after"]) > 0
    assert response.headers["ratelimit-policy"] == f'"requests";q={BURST};w=1200'
    return True


async def test_requests_beyond_the_rate_are_refused_at_every_front_door(api: httpx.AsyncClient) -> None:
    first = await api.get("/v1/providers", headers=ANN)
    assert (first.status_code, first.headers["ratelimit"]) == (200, f'"requests";r={BURST - 1};t=100')
    for _ in range(BURST - 1):
        assert (await api.get("/v1/providers", headers=ANN)).status_code == 200

    for method, path in (
        ("GET", "/v1/tasks"),
        ("POST", "/v1/tasks"),
        ("POST", "/mcp"),
        ("POST", "/v1/adapters/openai"),
    ):
        response = await api.request(method, path, headers=ANN)
        assert refused(response), response.text
        assert response.headers["ratelimit"].startswith('"requests";r=0;')
    assert (await api.get("/v1/providers", headers=BOB)).status_code == 200
    metrics = (await api.get("/metrics")).text
    assert 'outlast_limited_total{limit="requests_per_second"}' in metrics
    assert 'outlast_limit_used_ratio{limit="requests_per_second"} 0.9' in metrics


@contextmanager
def unfinished(api: httpx.AsyncClient, head: str) -> Iterator[None]:
    """A request of Ann's that the server holds until the block ends."""
    with socket.create_connection((api.base_url.host, api.base_url.port or 0)) as connection:
        connection.sendall(f"{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {ANN['Authorization']}\r\n".encode())
        connection.sendall(b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n")
        yield


@pytest.mark.parametrize(
    ("held", "same_kind", "other_kind"),
    [
        ("POST /v1/tasks", "/v1/providers", None),
        ("GET /v1/tasks/t/events", "/mcp", "/v1/providers"),
        ("GET /v1/tasks/t/rows", "/mcp", "/v1/providers"),
    ],
)
async def test_what_waits_is_counted_until_it_ends(
    api: httpx.AsyncClient, held: str, same_kind: str, other_kind: str | None
) -> None:
    async def is_refused() -> bool:
        return refused(await api.get(same_kind, headers=ANN))

    with unfinished(api, held):
        await eventually(is_refused)
        assert (await api.get("/v1/providers", headers=BOB)).status_code == 200
        if other_kind is not None:
            assert (await api.get(other_kind, headers=ANN)).status_code == 200
    if other_kind is None:
        assert await eventually(lambda: _answered(api, same_kind))


async def _answered(api: httpx.AsyncClient, path: str) -> bool:
    return (await api.get(path, headers=ANN)).status_code == 200


async def test_a_url_with_too_many_names_is_refused(api: httpx.AsyncClient) -> None:
    response = await api.post("/mcp?actors=a/b,a/c&tools=docs", headers=ANN, json={})
    assert (response.status_code, response.json()["type"]) == (400, "urn:outlast:problem:bad-request")
    assert "actors_per_connection" in response.json()["detail"]


async def test_sessions_of_mcp_are_limited_and_those_that_end_make_room(tmp_path: Path, silent: str) -> None:
    settings = ApiSettings(
        data_dir=tmp_path,
        seal_keys=SecretStr(SEAL_KEYS),
        api_keys=SecretStr("ann:ann-0123456789abcdef,bob:bob-0123456789abcdef"),
        limits=Limits(mcp_sessions=2),
        default_actors="",
    )
    async with serving_api(await connect(silent, lazy=True), settings, whole=True) as http:
        http.headers["Accept"] = "application/json, text/event-stream"
        opened = [await opens_session(http, ANN) for _ in range(3)]
        assert [answer.status_code for answer in opened] == [200, 200, 429]
        assert "`mcp_sessions`" in opened[-1].json()["detail"]
        assert (await opens_session(http, BOB)).status_code == 200
        ended = {**ANN, "Mcp-Session-Id": opened[0].headers["mcp-session-id"]}
        assert (await http.delete("/mcp", headers=ended)).is_success
        assert (await opens_session(http, ANN)).status_code == 200
        wire = Wire(http, MODERN)
        http.headers.update(ANN)
        assert (await wire.request("tools/list"))["tools"], "a revision without sessions goes on"


async def opens_session(http: httpx.AsyncClient, caller: dict[str, str]) -> httpx.Response:
    client = {"name": "x", "version": "1"}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    return await http.post("/mcp", json=body, headers=caller)


async def test_the_refusal_is_in_the_openapi_document(api: httpx.AsyncClient) -> None:
    paths = (await api.get("/openapi.json")).json()["paths"]
    told = {path for path, operations in paths.items() if all("429" in one["responses"] for one in operations.values())}
    assert told == {path for path in paths if path.startswith("/v1/")}
