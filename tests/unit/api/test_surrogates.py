"""Half a character is refused however it is written, and a whole one is not."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from pydantic import JsonValue

from outlast.api.http.surrogates import ModelMessageRoute, WellFormedTextRoute

JSON = {"content-type": "application/json"}


def echo(body: dict[str, JsonValue]) -> list[str]:
    """The names of the fields that came in."""
    return [ascii(name) for name in body]


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    for path, route in (("/sound", WellFormedTextRoute), ("/model", ModelMessageRoute)):
        router = APIRouter(route_class=route)
        router.post(path)(echo)
        app.include_router(router)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sound", headers=JSON) as client:
        yield client


@pytest.mark.parametrize("path", ["/sound", "/model"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"a": "\\ud800"}',
        b'{"a": [{"\\uDFFF": 1}]}',
        b'{"a": "\xed\xa0\x80"}',
        '{"a": "\\ud800"}'.encode("utf-16"),
        '{"a": "\\ud800"}'.encode("utf-32"),
        b'{"message": "\\ud83d\\ude00", "a": "\\ude00\\ud83d"}',
    ],
)
async def test_half_a_character_is_refused(http: httpx.AsyncClient, path: str, body: bytes) -> None:
    refused = await http.post(path, content=body)
    assert refused.status_code == 422
    (flaw,) = refused.json()["detail"]
    assert flaw["type"] == "json_invalid"
    assert "half of a character" in flaw["ctx"]["error"]


@pytest.mark.parametrize("path", ["/sound", "/model"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"a": "\\ud83d\\ude00"}',
        b'{"a": "\\\\ud800"}',
        '{"a": "😀 한"}'.encode(),
        '{"a": "😀"}'.encode("utf-16"),
    ],
)
async def test_whole_characters_are_taken(http: httpx.AsyncClient, path: str, body: bytes) -> None:
    assert (await http.post(path, content=body)).json() == ["'a'"]


async def test_what_a_model_wrote_is_looked_at_by_whoever_reads_it(http: httpx.AsyncClient) -> None:
    body = b'{"message": {"a": "\\ud800"}, "b": 1}'
    assert (await http.post("/model", content=body)).json() == ["'message'", "'b'"]
    assert (await http.post("/sound", content=body)).status_code == 422
