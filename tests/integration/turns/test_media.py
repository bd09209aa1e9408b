"""Media that are not what they are called, and media that a provider refuses: no session ends because of them."""

import json
from typing import Any

import httpx
import pytest

from tests.support import pictures as p
from tests.support.calls.turns import named, new_session, sent, streamed
from tests.support.providers.model_requests import ONE_PROVIDER
from tests.support.providers.script import Asked, Call, Refusal, Reply, Script, Step, Thought, by_position, says
from tests.support.providers.server import ProviderServer

SEEING = [
    pytest.param(("anthropic", "m"), id="anthropic"),
    pytest.param(("openai", "m"), id="openai"),
    pytest.param(("zai", "glm-4.6v"), id="zai"),
    pytest.param(("generic", "own-eyes"), id="generic"),
]


def media(*shown: tuple[str, str, str]) -> Call:
    parts = [{"kind": kind, "media_type": media_type, "data": data} for kind, media_type, data in shown]
    return Call("show-media", {"media": parts})


@pytest.mark.parametrize("model", SEEING)
async def test_a_tools_media_reach_the_model_with_their_real_type_or_in_words(
    api: httpx.AsyncClient, provider: ProviderServer, model: tuple[str, str]
) -> None:
    shown = media(
        ("image", "image/png", p.JPEG),
        ("image", "image/png", f"data:image/gif;base64,{p.GIF}"),
        ("image", "image/png", ""),
        ("image", "image/png", "no base64!"),
        ("image", "image/jpeg", p.HTML),
        ("image", "image/heic", p.HEIC),
        ("image", "image/svg+xml", p.SVG),
        ("audio", "audio/wav", p.MP3),
        ("file", "application/pdf", p.HTML),
        ("file", "application/octet-stream", p.WEBP),
    )
    provider.script = by_position(says(shown), says("I see."), says("Still here."))
    before = len(provider.requests)
    session = await new_session(api, providerId=model[0], modelId=model[1])
    turn = await sent(api, session, "Look.")
    assert (turn["status"], turn["text"]) == ("completed", "I see."), turn
    body = json.dumps(provider.requests[-1].body)
    for media_type, data in (("image/jpeg", p.JPEG), ("image/gif", p.GIF), ("image/webp", p.WEBP)):
        assert data in body
        assert media_type in body
    for word in ("empty", "not base64", "image/heic", "image/svg+xml", "audio/mpeg"):
        assert word in body
    assert body.count("cannot be shown here") == 7
    assert (await sent(api, session, "And now?"))["text"] == "Still here."
    assert not [request.refused for request in provider.requests[before:] if request.refused]


@pytest.mark.parametrize("model", SEEING)
async def test_a_users_pictures_reach_the_model_with_their_real_type_or_in_words(
    api: httpx.AsyncClient, provider: ProviderServer, model: tuple[str, str]
) -> None:
    provider.script = by_position(says("I see."))
    before = len(provider.requests)
    session = await new_session(api, providerId=model[0], modelId=model[1])
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "media_type": "image/png", "data": p.JPEG},
        {"type": "image", "media_type": "image/png", "url": f"data:image/png;base64,{p.GIF}"},
        {"type": "image", "media_type": "image/png", "data": "no base64!"},
        {"type": "image", "media_type": "image/png", "data": p.HEIC},
    ]
    turn = await sent(api, session, parts)
    assert turn["status"] == "completed", turn
    body = json.dumps(provider.requests[-1].body)
    assert (p.JPEG in body, "image/jpeg" in body, p.GIF in body, "image/gif" in body) == (True,) * 4
    assert (p.HEIC in body, body.count("which cannot be shown")) == (False, 2)
    assert not [request.refused for request in provider.requests[before:] if request.refused]


def is_shown(body: Any, data: str) -> bool:
    """Whether the model is shown the picture; a call that names it has it among its arguments, too."""
    forms = (f"base64,{data}", f"'type': 'base64', 'media_type': 'image/png', 'data': '{data}'")
    return any(form in str(body) for form in forms)


def refusing(*refused: str, then: Script, message: str = "Could not process image") -> Script:
    """A provider that cannot read these pictures, however well-formed they are."""

    def script(asked: Asked) -> Step:
        if any(is_shown(asked.body, data) for data in refused):
            return Refusal(400, "invalid_request_error", message)
        return then(asked)

    return script


@pytest.mark.parametrize("model", SEEING)
async def test_a_picture_that_the_provider_refuses_is_told_and_the_others_are_shown(
    api: httpx.AsyncClient, provider: ProviderServer, model: tuple[str, str]
) -> None:
    bad = p.png("refused")
    then = by_position(says(media(("image", "image/png", bad), ("image", "image/jpeg", p.JPEG))), says("I see."))
    provider.script = refusing(bad, then=then)
    session = await new_session(api, providerId=model[0], modelId=model[1])
    seen = [event async for event in streamed(api, session, "Look.")]
    assert named(seen, "finish")[0]["status"] == "completed", seen
    body = provider.requests[-1].body
    assert (is_shown(body, bad), "Could not process image" in str(body)) == (False, True)
    assert p.JPEG in str(body["messages"][-1] if "messages" in body else body["input"][-1])
    (warning,) = named(seen, "step-finish")[-1]["warnings"][-1:]
    assert "refused a picture" in warning
    before = len(provider.requests)
    assert (await sent(api, session, "And now?"))["status"] == "completed"
    assert [request.refused for request in provider.requests[before:]] == [None], "it is known by now"


@pytest.mark.parametrize("provider_id", ONE_PROVIDER)
async def test_pictures_of_an_old_history_that_another_provider_refuses_are_told(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str
) -> None:
    bad, worse = p.png("old"), p.png("older")
    provider.script = by_position(
        says("One."), says(media(("image", "image/png", worse))), says("Two."), says("Three.")
    )
    session = await new_session(api, providerId="openai", modelId="m")
    picture = {"type": "image", "media_type": "image/png", "data": bad}
    await sent(api, session, [{"type": "text", "text": "Look:"}, picture])
    await sent(api, session, "And another.")
    model = "own-eyes" if provider_id == "generic" else "glm-4.6v" if provider_id == "zai" else "m"
    provider.script = refusing(bad, worse, then=by_position(says("Three.")), message="Bad request")
    turn = await sent(api, session, "And now?", providerId=provider_id, modelId=model)
    assert (turn["status"], turn["text"]) == ("completed", "Three."), turn
    assert "the provider refused it" in json.dumps(provider.requests[-1].body)


async def test_a_refusal_for_another_reason_is_an_error_after_few_requests(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    def script(asked: Asked) -> Reply | Refusal:
        return says(media(("image", "image/png", p.PNG))) if not asked.results else Refusal(400, "x", "No such option")

    provider.script = script
    before = len(provider.requests)
    turn = await sent(api, await new_session(api, providerId="openai"), "Look.")
    assert turn["status"] == "failed"
    assert "No such option" in turn["error"]["message"]
    assert len(provider.requests) == before + 3


async def test_reasoning_that_the_provider_no_longer_recognises_is_left_out(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    def script(asked: Asked) -> Step:
        if any(item.get("type") == "reasoning" for item in asked.body["input"]):
            return Refusal(400, "invalid_request_error", "The encrypted content could not be verified.")
        return says(Thought("Hm."), "Hello.")

    provider.script = script
    session = await new_session(api, providerId="openai", controls={"effort": "low"})
    assert (await sent(api, session, "Hello."))["text"] == "Hello."
    assert (await sent(api, session, "And now?"))["text"] == "Hello."
