"""What tools say to users: the conversation's events as a stream, and the operator's webhook."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.workflows.contracts.sessions import Posted, session_workflow_id
from outlast.workflows.session import SessionWorkflow
from tests.integration.shared_tools.conftest import caller_of
from tests.support.calls.tasks import Event, completed
from tests.support.eventually import eventually
from tests.support.http.webhooks import SECRET_PATH, WebhookReceiver
from tests.support.stacks.service import Service

SECRET = SECRET_PATH.rpartition("/")[2]


@pytest.fixture
def session() -> str:
    return f"chat-{secrets.token_hex(6)}"


def update(message: str, **call: Any) -> dict[str, Any]:
    return {"tool": "send_update", "arguments": {"message": message}, **call}


async def stream(api: httpx.AsyncClient, session: str, after: str | None = None) -> AsyncIterator[Event]:
    headers = {"Last-Event-ID": after} if after else {}
    async with api.stream("GET", f"/v1/sessions/{session}/events", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line == "" and "data" in fields:
                yield Event(fields["event"], fields.get("id"), json.loads(fields["data"])["data"])
            if line == "":
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value


async def first(count: int, api: httpx.AsyncClient, session: str, after: str | None = None) -> list[Event]:
    found: list[Event] = []
    async with aclosing(stream(api, session, after)) as events:  # type: ignore[type-var]
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_updates_and_reactions_are_events_of_the_conversation(plain: httpx.AsyncClient, session: str) -> None:
    said = await completed(plain, update("Reading.", session_id=session, message_id="m-1"))
    reaction = {"tool": "react_emoji", "arguments": {"emoji": ":eyes:"}, "session_id": session, "message_id": "m-1"}
    await completed(plain, reaction)
    events = await first(4, plain, session)
    assert [event.name for event in events] == ["update", "task_completed", "reaction", "task_completed"]
    assert events[0].data == {
        "message": "Reading.",
        "task_id": said["task"]["id"],
        "tool": "send_update",
        "message_id": "m-1",
    }
    assert (events[2].data["emoji"], events[2].data["message_id"]) == ("eyes", "m-1")
    assert said["result"]["meta"]["outlast/sentTo"] == ["session"]


async def test_a_stream_goes_on_where_it_was_left(plain: httpx.AsyncClient, session: str) -> None:
    for number in range(3):
        await completed(plain, update(f"Number {number}", session_id=session))
    whole = await first(6, plain, session)
    assert len({event.id for event in whole}) == 6
    for position, event in enumerate(whole[:-1]):
        assert await first(5 - position, plain, session, event.id) == whole[position + 1 :]


async def test_what_happens_while_somebody_follows_is_told_at_once(plain: httpx.AsyncClient, session: str) -> None:
    await completed(plain, update("Before", session_id=session))
    async with aclosing(stream(plain, session)) as events:  # type: ignore[type-var]
        seen = [(await anext(events)).name for _ in range(2)]
        await completed(plain, update("Meanwhile", session_id=session))
        later = await anext(events)
    assert (seen, later.data["message"]) == (["update", "task_completed"], "Meanwhile")


@pytest.mark.thorough
async def test_a_long_conversation_is_followed_from_run_to_run(
    plain: httpx.AsyncClient, plain_temporal: Client, session: str
) -> None:
    """The session continues as new every hundred events of its history; what it no longer keeps is counted."""
    await completed(plain, update("First", session_id=session))
    handle = plain_temporal.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id("local", session))
    before = (await handle.describe()).run_id
    (start,) = await first(1, plain, session)
    async with aclosing(stream(plain, session, start.id)) as events:  # type: ignore[type-var]
        assert (await anext(events)).name == "task_completed"
        for number in range(300):
            await handle.signal(
                SessionWorkflow.posted, Posted(kind="update", text=str(number), task_id="t", tool="send_update")
            )
            assert (await anext(events)).data["message"] == str(number)
            if number % 20 == 0:
                # Answered by a worker that has read all of the history: one that lags continues as new less often.
                await handle.query(SessionWorkflow.overview)
    assert (await handle.describe()).run_id != before
    again = await first(3, plain, session)
    assert again[0].name == "events_missed"
    assert again[0].id is None
    missed = again[0].data["count"]
    assert again[1].data["message"] == str(missed - 2)
    assert int((again[1].id or "").partition("-")[2]) == missed + 1
    last = (again[1].id or "").partition("-")[0] + "-301"
    assert [event.data["message"] for event in await first(1, plain, session, last)] == ["299"]


async def test_a_session_that_ended_is_told_to_its_end_and_not_again(
    plain: httpx.AsyncClient, plain_temporal: Client, session: str
) -> None:
    await completed(plain, update("Only", session_id=session))
    handle = plain_temporal.get_workflow_handle(session_workflow_id("local", session))
    await handle.terminate()
    events = [event async for event in stream(plain, session)]
    assert [event.name for event in events] == ["update", "task_completed"]
    path, headers = f"/v1/sessions/{session}/events", {"Last-Event-ID": events[-1].id or ""}
    assert (await plain.get(path, headers=headers)).status_code == 204
    await completed(plain, update("Anew", session_id=session))
    assert [event.data.get("message") for event in await first(1, plain, session, events[-1].id)] == ["Anew"]


async def test_a_conversation_is_its_callers_alone(
    full_service: Service, full: httpx.AsyncClient, session: str
) -> None:
    await completed(full, update("Mine", session_id=session))
    async with caller_of(full_service, "two") as other:
        for path in (session, f"key:one:{session}", "absent"):
            refused = await other.get(f"/v1/sessions/{path}/events")
            assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (404, "session-not-found")
        await completed(other, update("Theirs", session_id=session))
        assert [event.data["message"] for event in await first(1, other, session)] == ["Theirs"]


@pytest.mark.parametrize("bad", ["x", "1", "1.2", "0123abcd-", "0123abcd--1", "0123abcd-99999999999999999"])
async def test_a_bad_event_id_is_refused(plain: httpx.AsyncClient, session: str, bad: str) -> None:
    await completed(plain, update("Only", session_id=session))
    refused = await plain.get(f"/v1/sessions/{session}/events", headers={"Last-Event-ID": bad})
    assert refused.status_code == 400


async def test_without_session_and_webhook_the_error_says_what_to_do(plain: httpx.AsyncClient) -> None:
    answer = await completed(plain, update("Hello?"))
    error = answer["result"]["error"]
    assert (error["category"], error["retryable"]) == ("validation", False)
    assert "session_id" in error["hint"]
    assert "OUTLAST_RESPONDER_WEBHOOK_URL" in error["hint"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("react_emoji", {"emoji": "not an emoji"}),
        ("react_emoji", {"emoji": "<!channel>"}),
        ("react_emoji", {"emoji": "::"}),
        ("react_emoji", {"emoji": "日本"}),
        ("react_emoji", {}),
        ("send_update", {"message": "  "}),
        ("send_update", {"message": "x" * 4_001}),
    ],
)
async def test_arguments_that_say_nothing_are_refused(
    plain: httpx.AsyncClient, tool: str, arguments: dict[str, Any]
) -> None:
    refused = await plain.post("/v1/tasks", json={"tool": tool, "arguments": arguments})
    assert refused.status_code == 422


async def test_the_webhook_gets_messages_and_reactions(full: httpx.AsyncClient, receiver: WebhookReceiver) -> None:
    first = await completed(full, update("50 % <!channel> & more", session_id="a.b", message_id="m/1"))
    for emoji in ("+1", "👍🏽", "1️⃣"):
        await completed(full, {"tool": "react_emoji", "arguments": {"emoji": emoji}})
    assert receiver.texts() == ["50 % &lt;!channel&gt; &amp; more", ":+1:", "👍🏽", "1️⃣"]
    headers = receiver.received[0].headers
    assert {name: value for name, value in headers.items() if name.startswith("outlast-")} == {
        "outlast-kind": "update",
        "outlast-task": first["task"]["id"],
        "outlast-session": "a.b",
        "outlast-message": "m%2F1",
    }
    assert first["result"]["meta"]["outlast/sentTo"] == ["session", "webhook"]


async def test_a_delivery_is_repeated_under_one_key(full: httpx.AsyncClient, receiver: WebhookReceiver) -> None:
    receiver.answers[:] = [503, 0, 429]
    answer = await completed(full, update("Patience"))
    assert not answer["result"]["is_error"]
    assert len(receiver.received) == 4
    keys = {request.headers["idempotency-key"] for request in receiver.received}
    assert len(keys) == 1
    await completed(full, update("Patience"))
    assert receiver.received[-1].headers["idempotency-key"] not in keys


@pytest.mark.parametrize("status", [302, 307, 404, 410])
async def test_a_refusal_is_not_repeated_and_a_redirect_not_followed(
    full: httpx.AsyncClient, receiver: WebhookReceiver, session: str, status: int
) -> None:
    receiver.answers[:] = [status] * 2
    alone = await completed(full, update("Hello"))
    assert alone["result"]["error"]["message"] == f"The webhook answered {status}."
    in_session = await completed(full, update("Hello", session_id=session))
    assert not in_session["result"]["is_error"]
    assert f"The webhook did not take it: The webhook answered {status}." in in_session["result"]["content"][0]["text"]
    assert {request.path for request in receiver.received} == {SECRET_PATH}
    assert len(receiver.received) == 2


async def test_the_address_of_the_webhook_is_nowhere_to_be_read(
    full_service: Service, full: httpx.AsyncClient, full_temporal: Client, receiver: WebhookReceiver
) -> None:
    receiver.answers[:] = [500, 0, 404]
    failed = await completed(full, update("Hello"))
    assert failed["result"]["is_error"]
    history = await full_temporal.get_workflow_handle(failed["task"]["id"]).fetch_history()
    metrics = await eventually(lambda: httpx.get(full_service.worker_metrics_url, trust_env=False, timeout=180).text)
    logs = full_service.worker.log.read_text() + full_service.api.log.read_text()
    for text in (history.to_json(), json.dumps(failed), metrics, logs):
        assert SECRET not in text
