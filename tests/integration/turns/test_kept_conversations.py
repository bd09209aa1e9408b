"""A conversation outlives the turns that wrote it: Temporal may remove them, the worker's memory may be lost."""

import asyncio
import secrets
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.conversations.blocks import ConversationBlocks, ConversationSweep, conversation_prefix
from outlast.activities.conversations.contracts import ConversationOwner
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.sweep import TemporalTasks
from outlast.activities.secrets import SecretSealer
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import SessionState, session_workflow_id, turn_workflow_id
from outlast.workflows.session import SessionWorkflow
from tests.support.calls.histories import whole_history
from tests.support.calls.turns import Json, new_session, sent
from tests.support.eventually import eventually
from tests.support.providers.script import Asked, Call, Hold, Reply, Script, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import connect
from tests.support.stacks.retention import removed
from tests.support.stacks.service import SEAL_KEYS, Service


@pytest.fixture
async def temporal(service: Service) -> Client:
    return await connect(service.temporal_address, namespace=service.namespace)


async def without_its_turns(api: httpx.AsyncClient, temporal: Client, session: str) -> Json:
    """The session, when Temporal has removed all its turns."""
    view = (await api.get(f"/v1/sessions/{session}")).json()
    ids = [turn_workflow_id("local", session, turn["id"]) for turn in view["turns"]]
    await asyncio.gather(*(removed(temporal, workflow_id) for workflow_id in ids))
    return view


def asked_of_the_model(provider: ProviderServer) -> list[str]:
    return [message["content"] for message in provider.requests[-1].body["messages"] if message["role"] != "system"]


async def test_a_conversation_goes_on_when_temporal_has_removed_its_turns(
    api: httpx.AsyncClient, temporal: Client, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."), says("Two."), says("Three."))
    session = await new_session(api)
    for text in ("First?", "Second?"):
        await sent(api, session, text)
    await without_its_turns(api, temporal, session)
    assert (await sent(api, session, "Third?"))["text"] == "Three."
    assert asked_of_the_model(provider) == ["First?", "One.", "Second?", "Two.", "Third?"]


@pytest.mark.thorough
async def test_a_removed_turn_is_read_repeated_and_retried_as_before(
    api: httpx.AsyncClient, temporal: Client, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": "Ann"})), says("Greeted."), says("Two."))
    session = await new_session(api)
    first = await sent(api, session, "Greet.", messageId="m-1")
    await sent(api, session, "More?")
    path = f"/v1/sessions/{session}/turns/{first['id']}"
    before = (await api.get(path)).json()
    await without_its_turns(api, temporal, session)
    assert (await api.get(path)).json() == before
    assert await sent(api, session, "Greet.", messageId="m-1") == first
    events = await api.get(f"{path}/events")
    assert (events.status_code, events.json()["type"].rpartition(":")[2]) == (410, "conversation-lost")
    provider.script = by_position(says("Again."))
    retried = await sent(api, session, None, retryOfAssistantMessageId=first["id"])
    assert (retried["text"], retried["messages"][0]) == ("Again.", first["messages"][0])
    assert asked_of_the_model(provider) == ["Greet."]


async def test_a_turn_writes_what_is_new_and_refers_to_the_rest(
    api: httpx.AsyncClient, temporal: Client, provider: ProviderServer
) -> None:
    """Over more blocks than one of them names: all are sent, none is repeated in a history."""
    provider.script = by_position(*(says(f"Answer {number}.") for number in range(20)))
    session = await new_session(api)
    turns = [await sent(api, session, f"Question {number}? {'x' * 2_000}") for number in range(19)]
    said = asked_of_the_model(provider)
    assert [text.split()[1] for text in said[::2]] == [f"{number}?" for number in range(19)]
    ids = [turn_workflow_id("local", session, turn["id"]) for turn in (turns[2], turns[18])]
    early, late = [await temporal.get_workflow_handle(one).fetch_history() for one in ids]
    assert "Question 0?" not in late.to_json()
    assert len(late.to_json()) < 1.1 * len(early.to_json())


def greeting(steps: int, *, hold_in: int | None = None) -> Script:
    """A model that says something and greets somebody else in every step but the last."""

    def script(asked: Asked) -> Reply:
        number = asked.position
        if number == steps - 1:
            return says("All greeted.")
        held = [Hold(f"step {number}")] if number == hold_in else []
        return says(f"Step {number}. {'x' * 2_000}", *held, Call("hello_world", {"name": f"Ann {number}"}))

    return script


STEPS = 12
"""More than the blocks that one of them names."""
SAID_IN_STEPS = [
    said for number in range(STEPS - 1) for said in (f"assistant Step {number}.", f"tool Hello, Ann {number}!")
]


def beginnings(messages: list[Json]) -> list[str]:
    """Role and first words of messages as the provider, or as a reader, gets them."""
    texts = [(one["role"], one.get("content") or one["parts"][0].get("text", "")) for one in messages]
    return [f"{role} {text.partition(' xx')[0]}".strip() for role, text in texts if role != "system"]


async def test_a_step_writes_what_is_new_and_refers_to_the_rest(
    api: httpx.AsyncClient, temporal: Client, provider: ProviderServer
) -> None:
    provider.script = greeting(STEPS)
    session = await new_session(api, tools=["hello_world"])
    turn = await sent(api, session, "Greet them.")
    assert beginnings(provider.requests[-1].body["messages"]) == ["user Greet them.", *SAID_IN_STEPS]
    whole = ["user Greet them.", *SAID_IN_STEPS, "assistant All greeted."]
    assert beginnings(turn["messages"]) == whole
    listed = (await api.get(f"/v1/sessions/{session}/messages", params={"page_size": 100})).json()["messages"]
    assert beginnings(listed) == whole
    assert {message["turn_id"] for message in listed} == {turn["id"]}
    (exported,) = (await api.get(f"/v1/sessions/{session}/export")).json()["turns"]
    assert beginnings(exported["messages"]) == whole
    orders = [
        event.activity_task_scheduled_event_attributes.input.payloads[0].data
        for event in await whole_history(temporal, turn_workflow_id("local", session, turn["id"]))
        if event.activity_task_scheduled_event_attributes.activity_type.name in ("call_model", "keep_messages")
    ]
    assert len(orders) == STEPS + 1
    assert not [order for order in orders[2:] if b"Step 0." in order]
    assert not [order for order in orders if b"input_schema" in order], "the tools are in the store, too"
    assert len(orders[STEPS - 1]) < 1.1 * len(orders[2])


async def test_a_store_that_takes_no_messages_for_a_while_costs_a_turn_nothing(
    api: httpx.AsyncClient, service: Service, provider: ProviderServer
) -> None:
    """What could not be stored stays in the histories of session and turn, and is stored with what follows."""
    provider.script = greeting(6, hold_in=3)
    folder = blocks_of(service, "s-without-store")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("no folder")
    session = await new_session(api, sessionId="s-without-store", tools=["hello_world"])
    turn = asyncio.create_task(sent(api, session, "Greet them."))
    await eventually(provider.gate("step 3").reached.is_set)
    # The messages are written while the model answers: this attempt has failed, too. Turns count their steps from one.
    await eventually(lambda: "Step 4 of turn" in service.worker.log.read_text())
    folder.unlink()
    provider.gate("step 3").open()
    whole = ["user Greet them.", *SAID_IN_STEPS[:10], "assistant All greeted."]
    assert beginnings((await turn)["messages"]) == whole
    assert beginnings(provider.requests[-1].body["messages"]) == whole[:-1]
    assert "hello_world" in str(provider.requests[-1].body["tools"])
    # Steps 4 to 6; one that is written for longer than an answer waits for is stored with the next one.
    assert 1 <= len(list(folder.iterdir())) <= 3


async def test_what_was_said_is_sealed_in_the_store(
    api: httpx.AsyncClient, service: Service, provider: ProviderServer
) -> None:
    provider.script = by_position(says("The melon is ripe."))
    session = await new_session(api)
    await sent(api, session, "Where is the melon?")
    objects = [path.read_bytes() for path in blocks_of(service, session).iterdir()]
    assert objects
    assert not any(b"melon" in content for content in objects)
    assert all(session.encode() in content for content in objects)


async def test_messages_that_the_store_has_lost_are_told_at_once_and_every_time(
    api: httpx.AsyncClient, service: Service, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."))
    session, fresh = await new_session(api), await new_session(api)
    await sent(api, session, "First?")
    for path in [*blocks_of(service, session).iterdir(), *blocks_of(service, fresh).iterdir()]:
        path.unlink()
    for one in (session, session, fresh):
        refused = await api.post(f"/v1/sessions/{one}/messages", json={"message": "Second?"})
        assert refused.status_code == 410, refused.text
    views = [(await api.get(f"/v1/sessions/{one}")).json() for one in (session, fresh)]
    assert [(len(view["turns"]), view.get("running")) for view in views] == [(1, None), (0, None)]


async def test_a_session_ends_after_its_idle_time_and_says_so_when_it_is_swept_too(
    api: httpx.AsyncClient, service: Service, temporal: Client, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."))
    lasting = await new_session(api)
    await sent(api, lasting, "First?")
    session = f"short-{secrets.token_hex(4)}"
    state = SessionState(caller_id="local", session_id=session, idle_seconds=3)
    workflow_id = session_workflow_id("local", session)
    handle = await temporal.start_workflow(
        SessionWorkflow.run,
        state,
        id=workflow_id,
        task_queue=TOOLS_TASK_QUEUE,
        search_attributes=search_attributes.of_session("local", session),
    )
    await new_session(api, sessionId=session)
    await sent(api, session, "First?")
    await handle.result()
    for _ in range(2):
        await is_over(api, session)
    objects = OutputObjects.open(str(service.outputs))
    blocks = ConversationBlocks(objects, SecretSealer.from_text(SEAL_KEYS), namespace=temporal.namespace)
    sweep = ConversationSweep(objects, blocks, TemporalTasks(temporal), grace=timedelta(0))
    assert list(blocks_of(service, session).iterdir())
    cursor = ""
    while cursor is not None:
        _, cursor = await sweep.page(cursor, 1)
    assert not blocks_of(service, session).exists() or not list(blocks_of(service, session).iterdir())
    await removed(temporal, workflow_id)
    await is_over(api, session)
    assert (await sent(api, lasting, "Second?"))["status"] == "completed"
    assert asked_of_the_model(provider)[0] == "First?"


async def is_over(api: httpx.AsyncClient, session: str) -> None:
    answers = [
        await api.post(f"/v1/sessions/{session}/messages", json={"message": "Hello?"}),
        await api.get(f"/v1/sessions/{session}"),
    ]
    assert [answer.status_code for answer in answers] == [410, 410], [answer.text for answer in answers]
    assert "has expired" in answers[0].json()["detail"]


def blocks_of(service: Service, session: str) -> Path:
    owner = ConversationOwner(caller_id="local", session_id=session)
    return service.outputs / conversation_prefix(service.namespace, owner)
