"""What a model gets to see of its calls' answers: failed ones too, pictures and files."""

import json
from typing import Any

import httpx
import pytest

from tests.support.calls.turns import new_session, sent
from tests.support.providers.model_requests import ONE_PROVIDER
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.tools.conformance_tools import PNG

SEEING = ("openai", "anthropic")
NOT_TOLD = "it cannot be shown here"


def sent_result(provider: ProviderServer) -> Any:
    """The content of the latest request's last result, as the provider was sent it."""
    seen = provider.requests[-1]
    match seen.protocol:
        case "messages":
            return seen.body["messages"][-1]["content"][0]["content"]
        case "responses":
            return seen.body["input"][-1]["output"]
        case "chat":
            return seen.body["messages"][-1]["content"]


@pytest.mark.parametrize("provider_id", ONE_PROVIDER)
async def test_a_failed_call_shows_its_output_before_its_error(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str
) -> None:
    provider.script = by_position(says(Call("fail-showing")), says("I see."))
    turn = await sent(api, await new_session(api, providerId=provider_id), "Try.")
    assert turn["status"] == "completed", turn
    first, second, facts = provider.requests[-1].asked.results[0].split("\n")[:3]
    assert (first, second) == ("first line", "second line")
    assert json.loads(facts)["error"]["message"] == "It ended with exit code 2."


async def test_a_failed_run_shows_its_rows_and_its_dataset(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    run = {"actor": "outlast/sleeper", "input": {"seconds": 0, "rows": 2, "failWith": {"exitCode": 3}}}
    provider.script = by_position(says(Call("call-actor", run)), says("I see."))
    await sent(api, await new_session(api), "Run it.")
    (shown,) = provider.requests[-1].asked.results
    assert "FAILED" in shown
    assert shown.count('\n{"') == 3, "two rows and the error"
    assert "dataset" in shown


@pytest.mark.parametrize("provider_id", SEEING)
@pytest.mark.parametrize("tool", ["show", "fail-showing"])
async def test_pictures_and_files_reach_models_that_can_see(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str, tool: str
) -> None:
    provider.script = by_position(says(Call(tool)), says("A dot."))
    turn = await sent(api, await new_session(api, providerId=provider_id), "Look.")
    assert turn["status"] == "completed", turn
    content = sent_result(provider)
    assert PNG in json.dumps(content)
    kinds = {"text", "image", "document"} if provider_id == "anthropic" else {"input_text", "input_image", "input_file"}
    assert {part["type"] for part in content} == kinds - ({"document", "input_file"} if tool != "show" else set())
    told = " ".join(part.get("text", "") for part in content)
    assert ("audio/wav" in told) is (tool == "show")
    assert "image/png" not in told


@pytest.mark.parametrize("provider_id", ["zai", "generic"])
async def test_models_that_cannot_see_are_told_what_they_are_not_shown(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str
) -> None:
    provider.script = by_position(says(Call("show")), says("I see."))
    await sent(api, await new_session(api, providerId=provider_id), "Look.")
    lines = sent_result(provider).split("\n")
    assert lines[0] == "Look:"
    assert [line.split(", ")[1] for line in lines if NOT_TOLD in line] == ["image/png", "audio/wav", "application/pdf"]


@pytest.mark.parametrize(
    "model", [("zai", "glm-4.6v"), ("generic", "Qwen/Qwen3-VL-8B-Instruct"), ("generic", "own-eyes")], ids=str
)
async def test_chat_models_that_see_get_pictures_after_the_results(
    api: httpx.AsyncClient, provider: ProviderServer, model: tuple[str, str]
) -> None:
    provider.script = by_position(says(Call("show"), Call("hello_world", {"name": "Ann"})), says("A dot."))
    turn = await sent(api, await new_session(api, providerId=model[0], modelId=model[1]), "Look.")
    assert turn["status"] == "completed", turn
    *_, shown, greeted, pictures = provider.requests[-1].body["messages"]
    assert [one["role"] for one in (shown, greeted, pictures)] == ["tool", "tool", "user"]
    assert [line.split(", ")[1] for line in shown["content"].split("\n") if NOT_TOLD in line] == [
        "audio/wav",
        "application/pdf",
    ]
    label, picture = pictures["content"]
    assert shown["tool_call_id"] in label["text"]
    assert picture == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}


@pytest.mark.parametrize(
    ("model", "sees"), [(("zai", "glm-4.6"), False), (("zai", "glm-4.6v"), True), (("generic", "blind"), False)]
)
async def test_a_users_picture_is_told_to_a_model_that_is_known_not_to_see(
    api: httpx.AsyncClient, provider: ProviderServer, model: tuple[str, str], sees: bool
) -> None:
    provider.script = by_position(says("I see."))
    picture = {"type": "image", "media_type": "image/png", "data": PNG}
    session = await new_session(api, providerId=model[0], modelId=model[1])
    await sent(api, session, [{"type": "text", "text": "Look:"}, picture])
    _, shown = provider.requests[-1].body["messages"][-1]["content"]
    assert (shown["type"], PNG in json.dumps(shown), "cannot see" in json.dumps(shown)) == (
        "image_url" if sees else "text",
        sees,
        not sees,
    )


async def test_a_conversation_with_pictures_goes_on_with_a_model_that_cannot_see(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("show")), says("A dot."), says("I am told."))
    session = await new_session(api, providerId="anthropic")
    await sent(api, session, "Look.")
    turn = await sent(api, session, "And you?", providerId="generic")
    assert turn["text"] == "I am told."
    (told,) = [one["content"] for one in provider.requests[-1].body["messages"] if one["role"] == "tool"]
    assert "image/png" in told
    assert PNG not in told
