"""A session is its owner's: for another caller it does not exist, on whichever route it asks."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.calls.turns import new_session, sent
from tests.support.http.api_client import bearer
from tests.support.providers.script import by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.service import Service

ANN, BOB = bearer("ann-key-0123456789ab"), bearer("bob-key-0123456789ab")
BODIES = {"patch": {"title": "Mine"}, "post": {"message": "Hello?", "stream": False}}


@pytest.fixture
async def shared(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """An API with two callers."""
    settings = api_settings(
        service.sandbox, api_keys="ann:ann-key-0123456789ab,bob:bob-key-0123456789ab", data_dir=service.folder
    )
    async with serving_api(await connect(service.temporal_address), settings) as api:
        yield api


async def routes_of_one_session(api: httpx.AsyncClient) -> list[tuple[str, str]]:
    """Method and path of each route that names a session, as the API itself lists them."""
    document = (await api.get("/openapi.json", headers=ANN)).json()
    paths = {path: routes for path, routes in document["paths"].items() if path.startswith("/v1/sessions/{session_id}")}
    return [(method, path) for path, routes in paths.items() for method in routes]


async def test_no_route_reaches_the_session_of_another_caller(
    shared: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."), says("Two."))
    shared.headers.update(ANN)
    session = await new_session(shared, title="Ann's", maxSteps=3)
    turn = (await sent(shared, session, "First?"))["id"]
    before = (await shared.get(f"/v1/sessions/{session}")).json()
    routes = await routes_of_one_session(shared)
    assert len(routes) >= 10
    for method, path in routes:
        url = path.replace("{session_id}", session).replace("{turn_id}", turn)
        answer = await shared.request(method, url, json=BODIES.get(method), headers=BOB)
        assert answer.status_code == 404, (method, path, answer.text)
    listed = (await shared.get("/v1/sessions", headers=BOB)).json()["sessions"]
    assert session not in {one["id"] for one in listed}
    taken = {"sessionId": session, "providerId": "generic", "modelId": "m", "title": "Bob's", "update": True}
    assert (await shared.post("/v1/sessions", json=taken, headers=BOB)).status_code == 201, "Bob's own, of that name"
    assert (await shared.get(f"/v1/sessions/{session}/messages", headers=BOB)).json()["messages"] == []
    assert (await shared.get(f"/v1/sessions/{session}")).json() == before
    assert (await sent(shared, session, "Second?"))["text"] == "Two."
