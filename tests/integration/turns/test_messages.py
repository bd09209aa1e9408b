"""What a message may be, and how its answer is asked for again."""

from typing import Any

import httpx
import pytest

from tests.support.calls.tasks import Event
from tests.support.calls.turns import new_session, sent, session_events, streamed
from tests.support.providers.script import Call, Hold, Refusal, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.service import Service

TEXT = {"type": "text", "text": "What is it?"}
PICTURE = {"type": "image", "media_type": "image/png"}
DATA, URL = {"data": "iVBORw0KGgo="}, {"url": "https://pictures.example/1.png"}


async def repeated(service: Service, session: str, message: str, message_id: str, after: str | None) -> list[Event]:
    """The events of a message that is sent again by a client which has those up to `after`."""
    headers = {"Last-Event-ID": after} if after else {}
    async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=120, headers=headers) as client:
        return [event async for event in streamed(client, session, message, messageId=message_id)]


async def test_a_repeated_message_goes_on_after_any_event(
    api: httpx.AsyncClient, service: Service, provider: ProviderServer
) -> None:
    provider.script = by_position(says("Wait. ", Call("hello_world", {"name": "Ann"})), says("Now ", "done."))
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Greet.", messageId="m-1")]
    assert seen[-1].name == "finish"
    for position, event in enumerate(seen):
        assert await repeated(service, session, "Greet.", "m-1", event.id) == seen[position + 1 :]


async def test_a_message_is_answered_with_events_unless_it_asks_for_the_turn(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("Hi."))
    session = await new_session(api)
    path = f"/v1/sessions/{session}/messages"
    streamed_answer = await api.post(path, json={"message": "Hello."})
    assert streamed_answer.headers["content-type"].startswith("text/event-stream")
    assert "event: finish" in streamed_answer.text
    whole_answer = await api.post(path, json={"message": "Hello again.", "stream": False})
    assert (whole_answer.headers["content-type"], whole_answer.json()["status"]) == ("application/json", "completed")


async def test_the_id_of_no_event_begins_no_turn(api: httpx.AsyncClient) -> None:
    session = await new_session(api)
    refused = await api.post(
        f"/v1/sessions/{session}/messages",
        json={"message": "Greet."},
        headers={"Last-Event-ID": "x"},
    )
    assert refused.status_code == 400, refused.text
    assert (await api.get(f"/v1/sessions/{session}")).json()["turns"] == []


@pytest.mark.parametrize(
    ("message", "path", "flaw"),
    [
        ("", "/message", "is blank"),
        (" \n\t", "/message", "is blank"),
        ([], "/message", "is blank"),
        ([{"type": "text", "text": " "}, {"type": "text", "text": ""}], "/message", "is blank"),
        ([TEXT, PICTURE], "/message/parts/1/image", "exactly one of data and url"),
        ([PICTURE | DATA | URL], "/message/parts/0/image", "exactly one of data and url"),
        ([PICTURE | {"data": ""}], "/message/parts/0/image/data", "at least 1 character"),
        ([PICTURE | {"url": ""}], "/message/parts/0/image/url", "at least 1 character"),
        (7, "/message/text", "valid string"),
    ],
)
async def test_what_no_provider_answers_is_refused_and_begins_no_turn(
    api: httpx.AsyncClient, message: Any, path: str, flaw: str
) -> None:
    session = await new_session(api)
    refused = await api.post(f"/v1/sessions/{session}/messages", json={"message": message})
    assert refused.status_code == 422, refused.text
    (violation,) = refused.json()["violations"]
    assert violation["path"] == path
    assert flaw in violation["message"]
    assert (await api.get(f"/v1/sessions/{session}")).json()["turns"] == []


async def test_a_picture_needs_no_words_and_a_retry_no_message(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("A dot."))
    session = await new_session(api)
    for picture in (PICTURE | DATA, PICTURE | URL):
        turn = await sent(api, session, [{"type": "text", "text": " "}, picture])
        assert turn["status"] == "completed"
    retried = await sent(api, session, None, retryOfAssistantMessageId=turn["id"])
    assert retried["messages"][0] == turn["messages"][0]


async def test_a_message_whose_answer_failed_is_dropped_from_the_conversation(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."), Refusal(400, "invalid_request_error", "No."))
    session = await new_session(api)
    first = await sent(api, session, "First?")
    failed = await sent(api, session, "Lost?")
    provider.script = by_position(says("One."), says("Two."))
    turn = await sent(api, session, "Second?")
    assert (failed["status"], turn["text"]) == ("failed", "Two.")
    assert said_to_the_model(provider) == ["First?", "One.", "Second?"]
    turns = (await api.get(f"/v1/sessions/{session}")).json()["turns"]
    assert [one.get("parent") for one in turns] == [None, first["id"], first["id"]]
    retried = await sent(api, session, None, retryOfAssistantMessageId=failed["id"])
    assert retried["messages"][0] == failed["messages"][0]


async def test_a_cancelled_turn_keeps_the_message_and_the_words_said_so_far(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."), says("And then ", Hold("dropped")))
    session, running = await new_session(api), ""
    await sent(api, session, "First?")
    async for event in streamed(api, session, "Stopped?"):
        if event.name == "text-delta":
            running = (await api.get(f"/v1/sessions/{session}")).json()["running"]
            assert (await api.post(f"/v1/sessions/{session}/turns/{running}/cancel")).status_code == 202
    cancelled = (await api.get(f"/v1/sessions/{session}/turns/{running}")).json()
    assert (cancelled["status"], cancelled["text"]) == ("cancelled", "And then ")
    provider.script = lambda _: says("Two.")
    await sent(api, session, "Second?")
    assert said_to_the_model(provider) == ["First?", "One.", "Stopped?", "And then ", "Second?"]


async def test_a_turn_that_is_cancelled_before_any_word_keeps_the_message(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Hold("silent")))
    session = await new_session(api)
    begun = await api.post(
        f"/v1/sessions/{session}/messages", params={"wait": 0}, json={"message": "Stopped?", "stream": False}
    )
    turn = begun.json()["id"]
    assert (await api.post(f"/v1/sessions/{session}/turns/{turn}/cancel")).status_code == 202
    ended = (await api.get(f"/v1/sessions/{session}/turns/{turn}", params={"wait": 60})).json()
    assert ended["status"] == "cancelled"
    provider.script = lambda _: says("Two.")
    await sent(api, session, "Second?")
    assert said_to_the_model(provider) == ["Stopped?", "Second?"]


def said_to_the_model(provider: ProviderServer) -> list[str]:
    messages = provider.requests[-1].body["messages"]
    return [message["content"] for message in messages if message["role"] in ("user", "assistant")]


@pytest.mark.parametrize("budgets", [{"tokens": 1}, {"minutes": 0.02}])
async def test_a_session_whose_budget_is_used_up_takes_no_message(
    api: httpx.AsyncClient, provider: ProviderServer, budgets: dict[str, float]
) -> None:
    (budget,) = budgets
    pieces = (Hold("for-ever"),) if budget == "minutes" else (Call("hello_world", {"name": "Ann"}),)
    provider.script = by_position(says(*pieces))
    session = await new_session(api, budgets=budgets)
    turn = await sent(api, session, "Greet.")
    assert (turn["status"], turn["reason"]) == ("stopped", "budget")
    refused = await api.post(f"/v1/sessions/{session}/messages", json={"message": "More."})
    assert refused.status_code == 402, refused.text
    assert f"{budget} are used" in refused.json()["detail"]


async def test_a_reaction_carries_the_id_of_the_users_message(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says(Call("react_emoji", {"emoji": "👍"})), says("Done."))
    session = await new_session(api, tools=["react_emoji"])
    await sent(api, session, "Well done!", messageId="m-7")
    (reaction,) = [event for event in await session_events(api, session, 2) if event.name == "reaction"]
    assert reaction.data["message_id"] == "m-7"
