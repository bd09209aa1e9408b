"""Every provider, masks and compression on and off, with a hook that rewrites definitions and without one."""

import asyncio
import itertools
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from docs.examples import hello_tools
from outlast.activities.llm.providers.requests import Definition
from outlast.workflows.tools import extensions
from tests.support.calls.turns import named, new_session, streamed, text_of
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.service import Service

PROVIDERS = ("openai", "anthropic", "zai", "generic")
HOOKED = "Rewritten by a hook."


def rewritten(definition: Definition) -> Definition:
    """As a plug-in would."""
    return Definition("another name", HOOKED, definition.input_schema)


@pytest.fixture
async def client(service: Service) -> Client:
    return await connect(service.temporal_address)


def cells() -> list[Any]:
    """Every combination. A usual run takes four, in which every two switches meet in both positions of each.

    That every provider meets every switch is left to the matrix of models (tests/integration/models/test_matrix.py).
    """
    names = (("no-masking", "masking"), ("whole", "compressed"), ("plain", "hooked"))
    found: list[Any] = []
    for number, provider_id in enumerate(PROVIDERS):
        for switches in itertools.product((True, False), repeat=3):
            masking, compression, hook = switches
            usual = (masking, compression, hook) == (number % 2 == 0, number > 1, (number % 2 == 0) ^ (number > 1))
            name = "-".join((provider_id, *(pair[on] for pair, on in zip(names, switches, strict=True))))
            marks = () if usual else pytest.mark.thorough
            found.append(pytest.param(provider_id, *switches, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("provider_id", "masking", "compression", "hook"), cells())
async def test_a_turn_holds_its_invariants(
    service: Service,
    client: Client,
    provider: ProviderServer,
    monkeypatch: pytest.MonkeyPatch,
    provider_id: str,
    masking: bool,
    compression: bool,
    hook: bool,
) -> None:
    if hook:
        monkeypatch.setattr(hello_tools, "DEFINITION_HOOKS", [rewritten], raising=False)
        monkeypatch.setitem(extensions._LOADED, "docs.examples.hello_tools", hello_tools)  # pyright: ignore[reportPrivateUsage]
    rows: dict[str, Any] = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 200}}
    provider.script = by_position(says("Look. ", Call("call-actor", rows), Call("abort-actor-run", {})), says("Done."))
    settings = api_settings(service.sandbox, tool_masking=masking, compression=compression, data_dir=service.folder)
    before = len(provider.requests)
    async with serving_api(client, settings) as api:
        seen, again = await asyncio.gather(_turn(api, provider_id), _turn(api, provider_id))
    assert _finished(seen) == _finished(again)
    active = [step["active_tools"] for step in named(seen, "step-finish")]
    everything = len(active[0]) > 1
    assert everything is not masking
    assert all(isinstance(count, int) for step in named(seen, "step-finish") for count in step["usage"].values())
    assert text_of(seen).endswith("Done.")
    assert named(seen, "finish")[0]["status"] == "completed"
    requests = provider.requests[before:]
    assert len(requests) == 4
    assert {seen.refused for seen in requests} == {None}
    assert len({str(seen.body["tools"]) for seen in requests}) == 1
    assert (HOOKED in str(requests[0].body["tools"])) is (hook and not masking)
    results = {result["tool"]: result for result in named(seen, "tool-result")}
    assert not results["call-actor"]["is_error"]
    assert ("compressed" in results["call-actor"]) is compression


async def test_the_kill_switch_wins_over_both_flags(service: Service, client: Client, provider: ProviderServer) -> None:
    rows: dict[str, Any] = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 200}}
    provider.script = by_position(
        says(Call("call-actor", rows), Call("get-actor-run", {"runId": "none"})), says("Done.")
    )
    for kill_switch in (True, False):
        settings = api_settings(
            service.sandbox, tool_masking=True, compression=True, kill_switch=kill_switch, data_dir=service.folder
        )
        async with serving_api(client, settings) as api:
            seen = await _turn(api, "generic")
        results = {result["tool"]: result for result in named(seen, "tool-result")}
        assert (results["get-actor-run"]["error"]["category"] == "permission") is not kill_switch
        assert ("compressed" in results["call-actor"]) is not kill_switch


def _finished(seen: list[Any]) -> list[dict[str, Any]]:
    """How the steps have ended, but for times, and for tokens: ids of runs differ, and are told to the model."""
    timed = {"seconds", "usage", "total_usage"}
    return [{name: told for name, told in step.items() if name not in timed} for step in named(seen, "step-finish")]


async def _turn(api: httpx.AsyncClient, provider_id: str) -> list[Any]:
    session = await new_session(api, providerId=provider_id, tools=["actors"])
    mask = {"call-actor": True}
    return [event async for event in streamed(api, session, "Run it.", toolMask=mask)]
