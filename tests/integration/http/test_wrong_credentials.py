"""Guesses of tokens: what they cost the platform, and that they keep nobody out."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.settings import ApiSettings
from tests.support.http.api_client import api_client
from tests.support.http.fake_api import Answer, FakeApi, running_fake_api
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, running_lone_api, serving_api
from tests.support.stacks.service import SEAL_KEYS

ME = "/v2/users/me"
TRIES = 5
GUESSERS = 20
MAX_GROWTH_MB = 50


@pytest.fixture
def platform() -> Iterator[FakeApi]:
    """A platform that knows the first token it is asked about, and no other."""
    with running_fake_api() as platform:
        platform.on("GET", ME, Answer({"data": {"id": "u1", "username": "ann"}}), Answer({}, 401))
        yield platform


@pytest.fixture
async def api(tmp_path: Path, platform: FakeApi) -> AsyncIterator[httpx.AsyncClient]:
    settings = ApiSettings(
        data_dir=tmp_path,
        seal_keys=SecretStr(SEAL_KEYS),
        api_keys=SecretStr("bob:bob-0123456789abcdef"),
        apify_api_base_url=platform.url,
        failed_credentials_per_minute=TRIES,
        default_actors="",
    )
    async with serving_api(await connect(f"127.0.0.1:{free_port()}", lazy=True), settings) as serving:
        yield serving


async def test_guesses_cost_few_look_ups_and_keep_no_caller_of_the_same_address_out(
    api: httpx.AsyncClient, platform: FakeApi
) -> None:
    async def status(token: str, method: str = "GET", path: str = "/v1/providers") -> int:
        return (await api.request(method, path, headers={"Authorization": f"Bearer {token}"})).status_code

    # Many requests with a token that nobody has seen yet are one look-up, and no guess.
    assert set(await asyncio.gather(*(status("of-ann") for _ in range(4 * TRIES)))) == {200}
    assert len(platform.requests("GET", ME)) == 1

    for _ in range(3):
        assert await status("wrong") == 401
    assert len(platform.requests("GET", ME)) == 2

    answers = [await status(f"guess-{n}", *front_door) for n, front_door in enumerate(4 * [(), ("POST", "/mcp")])]
    assert answers == (TRIES - 1) * [401] + (len(answers) - TRIES + 1) * [429]
    assert len(platform.requests("GET", ME)) == 1 + TRIES
    assert (await status("of-ann"), await status("bob-0123456789abcdef")) == (200, 200)


@pytest.mark.parametrize("tokens", [500, pytest.param(5_000, marks=pytest.mark.thorough)])
async def test_wrong_tokens_take_no_memory(tmp_path: Path, platform: FakeApi, tokens: int) -> None:
    with running_lone_api(
        tmp_path, APIFY_API_BASE_URL=platform.url, OUTLAST_FAILED_CREDENTIALS_PER_MINUTE="1000000"
    ) as api:
        async with api_client(api.url) as http:

            async def status(name: str) -> int:
                return (await http.get("/v1/providers", headers={"Authorization": f"Bearer {name}"})).status_code

            async def guess(name: str) -> None:
                for number in range(tokens // GUESSERS):
                    assert await status(f"{name}-{number}") == 401

            assert [await status(name) for name in ("of-ann", "wrong")] == [200, 401]
            before = api.memory_mb()
            await asyncio.gather(*(guess(f"guess-{name}") for name in range(GUESSERS)))
            assert len(platform.requests("GET", ME)) == 2 + tokens
            assert api.memory_mb() < before + MAX_GROWTH_MB
            assert await status("of-ann") == 200
