"""The stream of a turn ends with the key that opened it. The turn continues."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
from temporalio.client import Client

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry
from outlast.api.access.policy.policy_file import add_key, remove_key
from tests.support.calls.tasks import Event
from tests.support.calls.turns import named, new_session, streamed, turn_events
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.providers.script import Hold, in_order, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.fixtures import temporal_fixture
from tests.support.stacks.service import Service

temporal = temporal_fixture()

WITHIN_SECONDS = 15
"""The promise is a second; this machine may be busy."""


async def test_streams_of_a_turn_end_with_their_key(
    service: Service, temporal: Client, provider: ProviderServer, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    headers: dict[str, dict[str, str]] = {}
    for name in ("good", "stolen"):
        key, hashed = new_key(name)
        add_key(policy, KeyEntry(id=name, caller="key:ann", hash=str(hashed)))
        headers[name] = bearer(key.get_secret_value())
    provider.script = in_order(says("Wait", Hold("key"), "ing."))
    settings = api_settings(service.sandbox, policy_file=policy, data_dir=service.folder)
    async with serving_api(temporal, settings, whole=True) as api:
        own = {"base_url": api.base_url, "timeout": 120}
        async with (
            httpx.AsyncClient(**own, headers=headers["stolen"]) as stolen,
            httpx.AsyncClient(**own, headers=headers["good"]) as good,
        ):
            session = await new_session(good)
            answer, again, kept = list[Event](), list[Event](), list[Event]()
            asking = asyncio.create_task(collected(streamed(stolen, session, "Hello?"), answer))
            await eventually(lambda: named(answer, "text-delta"))
            turn = (await good.get(f"/v1/sessions/{session}")).json()["running"]
            following = asyncio.create_task(collected(turn_events(stolen, session, turn), again))
            keeping = asyncio.create_task(collected(turn_events(good, session, turn), kept))
            await eventually(lambda: again and kept)
            remove_key(policy, "stolen")
            async with asyncio.timeout(WITHIN_SECONDS):
                await asyncio.gather(asking, following)
            for seen in (answer, again):
                assert (seen[-1].name, seen[-1].data["message"]) == ("error", "The API key stolen was revoked.")
            assert not keeping.done()
            provider.gate("key").open()
            await keeping
            assert named(kept, "finish")[0]["status"] == "completed"


async def collected(events: AsyncIterator[Event], into: list[Event]) -> None:
    """Add the events to `into` as they come."""
    async for event in events:
        into += [event]
