"""Turns that end while something else ends them, and places that more than one message asks for."""

import secrets

import httpx
from temporalio.client import Client, WorkflowHandle

from outlast.activities.conversations.contracts import ConversationRef
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import (
    BeginTurn,
    Budgets,
    SessionProfile,
    SessionState,
    Spent,
    TurnEnded,
    session_workflow_id,
)
from outlast.workflows.session import SessionWorkflow
from tests.support.calls.turns import named, new_session, sent, streamed
from tests.support.eventually import eventually
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import connect
from tests.support.stacks.service import Service

LONG = {"actor": "outlast/sleeper", "input": {"seconds": 600}}


async def test_a_turn_that_is_cancelled_while_its_time_is_over_still_ends_its_tools_first(
    api: httpx.AsyncClient, provider: ProviderServer, service: Service
) -> None:
    provider.script = by_position(says(Call("call-actor", LONG)), says("Go on."))
    session = await new_session(api)
    service.sandbox.order_fault("delay", method="POST", path="/abort$", seconds=3, times=1)
    task_id, turn = "", ""
    async for event in streamed(api, session, "Run for long.", budgets={"minutes": 0.1}):
        if event.name == "tool-call":
            task_id = event.data["task_id"]
            turn = (await api.get(f"/v1/sessions/{session}")).json()["running"]
            await eventually(lambda: service.sandbox.faults[0]["hits"])
            assert (await api.post(f"/v1/sessions/{session}/turns/{turn}/cancel")).status_code == 202
    service.sandbox.clear_faults()
    ended = (await api.get(f"/v1/sessions/{session}/turns/{turn}")).json()
    assert (ended["status"], ended["reason"]) == ("stopped", "budget")
    assert [part["type"] for message in ended["messages"] for part in message["parts"]][-1] == "tool_result"
    assert (await api.get(f"/v1/tasks/{task_id}")).json()["status"] == "cancelled"
    assert (await sent(api, session, "And now?"))["text"] == "Go on."


async def test_failures_side_by_side_are_reminded_of_in_the_next_turn(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    """In one step the model could not read the first before the second."""
    wrong = Call("hello_world", {"name": 7})
    provider.script = lambda asked: says("I see.") if asked.results else says(wrong, wrong)
    session = await new_session(api)
    turns = [[event async for event in streamed(api, session, text)] for text in ("Try.", "Again.", "Once more.")]
    assert [len(named(turn, "reminder")) for turn in turns] == [0, 1, 0]


async def test_the_same_message_may_be_retried_under_its_own_id(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."))
    session = await new_session(api)
    first = await sent(api, session, "First?", messageId="m-1")
    provider.script = by_position(says("Another."))
    again = {"messageId": "m-1", "retryOfAssistantMessageId": first["assistant_message_id"]}
    retried = await sent(api, session, None, **again)
    assert (retried["text"], retried["message_id"]) == ("Another.", "m-1")
    assert (await sent(api, session, None, **again))["id"] == retried["id"]


async def opened(client: Client, profile: SessionProfile) -> "WorkflowHandle[SessionWorkflow, None]":
    session = f"places-{secrets.token_hex(4)}"
    state = SessionState(caller_id="local", session_id=session)
    workflow_id = session_workflow_id("local", session)
    handle = await client.start_workflow(SessionWorkflow.run, state, id=workflow_id, task_queue=TOOLS_TASK_QUEUE)
    await handle.execute_update(SessionWorkflow.open, profile)
    return handle


def asks(name: str, *, over: str | None = None) -> BeginTurn:
    return BeginTurn(turn_id=f"t-{name}", message_id=f"m-{name}", over=over)


async def test_a_place_that_was_taken_over_is_not_given_back_while_another_turn_runs(service: Service) -> None:
    handle = await opened(await connect(service.temporal_address), SessionProfile())
    first = await handle.execute_update(SessionWorkflow.begin_turn, asks("1"))
    assert first.turn is not None
    busy = await handle.execute_update(SessionWorkflow.begin_turn, asks("2"))
    assert busy.busy == first.turn
    second = await handle.execute_update(SessionWorkflow.begin_turn, asks("2", over="t-1"))
    assert second.turn is not None
    late = await handle.execute_update(SessionWorkflow.begin_turn, asks("1"))
    assert (late.turn, late.busy) == (None, second.turn)
    said = ConversationRef(head="0" * 64, messages=2)
    await handle.signal(SessionWorkflow.turn_ended, TurnEnded(turn_id="t-2", counts=True, conversation=said))
    late = await handle.execute_update(SessionWorkflow.begin_turn, asks("1"))
    assert late.turn is not None
    assert late.turn.parent == "t-2"


async def test_a_budget_that_is_used_up_meanwhile_gives_no_place(service: Service) -> None:
    handle = await opened(await connect(service.temporal_address), SessionProfile(budgets=Budgets(usd=1)))
    await handle.execute_update(SessionWorkflow.begin_turn, asks("1"))
    await handle.signal(SessionWorkflow.turn_ended, TurnEnded(turn_id="t-1", counts=True, spent=Spent(usd=2)))
    refused = await handle.execute_update(SessionWorkflow.begin_turn, asks("2"))
    assert refused.turn is None
    assert "US dollars" in (refused.over or "")
    assert (await handle.query(SessionWorkflow.overview)).running is None
