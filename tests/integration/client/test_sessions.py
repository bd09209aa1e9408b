"""Sessions and turns through both clients."""

import asyncio

from outlast.client import AsyncClient, Client
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
