"""Sessions and turns through both clients."""

import asyncio

import pytest

from outlast.client import AsyncClient, Client, NotFound
from tests.support.providers.script import Call, Hold, by_position, says
from tests.support.providers.server import ProviderServer


def test_a_conversation_is_held_and_read_again(client: Client, provider: ProviderServer) -> None:
    provider.script = by_position(says("Hello, I am here."), says("Good bye."))
    session = client.sessions.create(provider_id="generic", model_id="m", tools=["dev"])
    first = client.sessions.send(session.id, "Hello?")
    with client.sessions.turn_events(session.id, first.id) as events:
        seen = list(events)
    assert "".join(str(event.data["text"]) for event in seen if event.name == "text-delta") == "Hello, I am here."
    assert seen[-1].name == "finish"
    with client.sessions.turn_events(session.id, first.id, after=seen[-2].id) as events:
        assert [event.name for event in events] == ["finish"]
    second = client.sessions.send(session.id, "Bye.")
    assert client.sessions.wait(session.id, second.id).text == "Good bye."
    said = [(message.role, message.text) for message in client.sessions.conversation(session.id)]
    assert said == [
        ("user", "Hello?"), ("assistant", "Hello, I am here."), ("user", "Bye."), ("assistant", "Good bye."),
    ]  # fmt: skip


async def test_a_message_with_an_id_begins_one_turn(async_client: AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says("Once."))
    sessions = async_client.sessions
    session = await sessions.create(provider_id="generic", model_id="m", tools=["dev"])
    turns = [await sessions.send(session.id, "Hello?", message_id="m-1") for _ in range(3)]
    assert len({turn.id for turn in turns}) == 1
    await sessions.wait(session.id, turns[0].id)
    assert len((await sessions.get(session.id)).turns) == 1


async def test_a_turn_is_cancelled(async_client: AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says("This takes ", Hold("never")))
    sessions = async_client.sessions
    session = await sessions.create(provider_id="generic", model_id="m", tools=["dev"])
    turn = await sessions.send(session.id, "For long.")
    waiting = asyncio.create_task(sessions.wait(session.id, turn.id))
    await sessions.cancel(session.id, turn.id)
    assert (await waiting).status == "cancelled"


async def test_tasks_of_a_turn_show_in_the_sessions_events(async_client: AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": "Ann"})), says("Done."))
    sessions = async_client.sessions
    session = await sessions.create(provider_id="generic", model_id="m", tools=["dev"])
    turn = await sessions.send(session.id, "Greet Ann.")
    async with sessions.events(session.id) as events:
        async for event in events:
            if event.name == "task_completed":
                break
    assert (await sessions.wait(session.id, turn.id)).status == "completed"


def test_sessions_are_listed_renamed_exported_imported_and_deleted(client: Client, provider: ProviderServer) -> None:
    provider.script = by_position(says("Here."))
    session = client.sessions.create(provider_id="generic", model_id="m", tools=["dev"], title="Melons")
    client.sessions.wait(session.id, client.sessions.send(session.id, "Hello?").id)
    assert client.sessions.rename(session.id, "Pears").title == "Pears"
    with client.sessions.list() as entries:
        assert session.id in {entry.id for entry in entries}
    copy = client.sessions.import_(client.sessions.export(session.id))
    assert copy.title == "Pears"
    assert client.sessions.conversation(copy.id) == client.sessions.conversation(session.id)
    page = client.sessions.messages_page(copy.id, page_size=1)
    assert [message.text for message in page.messages] == ["Here."]
    client.sessions.delete(session.id)
    with pytest.raises(NotFound, match="was deleted"):
        client.sessions.get(session.id)
    assert client.sessions.get(copy.id).title == "Pears"
