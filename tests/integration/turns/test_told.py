"""What a model is told, and in which form, when its tools, its mask or its provider differ."""

import httpx
import pytest

from tests.support.calls.turns import new_session, sent
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import ProviderServer

ROWS = Call("call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 400}})


@pytest.mark.parametrize(("tools", "told"), [(["dev"], False), (["actors"], True)], ids=["no-actors", "actors"])
async def test_apify_is_named_only_where_actors_can_be_called(
    api: httpx.AsyncClient, provider: ProviderServer, tools: list[str], told: bool
) -> None:
    provider.script = by_position(says("Hello."))
    await sent(api, await new_session(api, tools=tools), "Hello?")
    (system,) = [one["content"] for one in provider.requests[-1].body["messages"] if one["role"] == "system"]
    assert ("Apify" in system) is told


@pytest.mark.parametrize(
    ("is_masked", "masks"),
    [
        (True, "session"),
        (False, "message"),
        pytest.param(True, "message", marks=pytest.mark.thorough),
        pytest.param(False, "session", marks=pytest.mark.thorough),
    ],
)
async def test_a_model_that_cannot_restore_is_not_told_how(
    api: httpx.AsyncClient, provider: ProviderServer, is_masked: bool, masks: str
) -> None:
    provider.script = by_position(says(ROWS), says("There are rows."))
    mask = {"toolMask": {"call-actor": True, "restore-tool-output": not is_masked}}
    session = await new_session(api, **(mask if masks == "session" else {}))
    await sent(api, session, "Run it.", **(mask if masks == "message" else {}))
    (system,) = [one["content"] for one in provider.requests[-1].body["messages"] if one["role"] == "system"]
    assert ("compressed: true" in system) is (masks == "message" or not is_masked)
    if is_masked:
        assert "restore-tool-output" not in system
    if masks == "session":
        assert "get-actor-log" not in system, "masked as well"
    (shown,) = provider.requests[-1].asked.results
    assert '"compressed":true' in shown
    assert ("restore-tool-output" in shown) is not is_masked
    assert "/v1/" not in shown


@pytest.mark.parametrize(
    "provider_id", ["anthropic", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("openai", "zai"))]
)
@pytest.mark.parametrize("call_id", ["functions.say:0", "call_" + "x" * 60, "same"], ids=["odd", "long", "repeated"])
async def test_a_conversation_may_change_its_provider_whatever_the_ids_of_its_calls(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str, call_id: str
) -> None:
    called = says(Call("say", {"text": "One."}, id=call_id), *([Call("say", {"text": "Two."}, id=call_id)]))
    provider.script = by_position(called, called, says("Said."), says("Twice."))
    session = await new_session(api)
    first = await sent(api, session, "Say it.")
    before = len(provider.requests)
    other = await sent(api, session, "What was said?", providerId=provider_id, modelId="m2")
    assert (first["text"], other["text"]) == ("Said.", "Twice."), other
    assert not [request.refused for request in provider.requests[before:] if request.refused]
