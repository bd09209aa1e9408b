"""Client phases: handed over, waited for, checked; the server has the last word."""

import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from temporalio.client import Client

from outlast.api.tasks import client as task_client
from outlast.api.temporal import errors
from outlast.api.temporal.visibility import near_deadline_query
from tests.integration.protocol.conftest import ANN
from tests.support.calls.questions import answered, asks, call, result, result_of_call, said, taken, waiting
from tests.support.calls.tasks import events, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.service import Service

ORDER = call("order", item="tea", amount=2)


async def test_server_client_server(api: httpx.AsyncClient) -> None:
    task = await waiting(api, ORDER)
    asked = task["input_requests"]["confirm"]
    assert asked["message"] == "Order for 6?"
    assert asked["handoff"].items() >= {"tool": "order", "phase": "confirm", "kind": "client"}.items()
    assert asked["handoff"]["parameters"] == {"item": "tea", "total": 6}
    await taken(api, task, {"confirmed": True})
    done = await result(api, task["id"])
    assert said(done) == "Ordered 2 tea for 6, said key:ann"
    assert done["meta"]["outlast/client"] == {"phase": "confirm", "answeredBy": "key:ann"}


async def test_little_time_left_is_found_among_all_tasks_until_the_answer_comes(
    api: httpx.AsyncClient, temporal: Client
) -> None:
    task = await waiting(api, ORDER)

    async def near(after: timedelta) -> bool:
        query = f"{near_deadline_query(datetime.now(UTC) + after)} AND WorkflowId = '{task['id']}'"
        return (await temporal.count_workflows(query)).count == 1

    week = timedelta(days=7)  # the deadline of a client phase that names none
    await eventually(lambda: near(0.81 * week))
    assert not await near(0.79 * week)
    await taken(api, task, {"confirmed": True})
    await result(api, task["id"])

    async def over() -> bool:
        return not await near(week)

    await eventually(over)


async def test_the_same_with_plain_functions(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("plain_order", item="tea", amount=2))
    await taken(api, task, {"confirmed": False, "comment": "later"})
    done = await result(api, task["id"])
    assert done["structured"] == {"item": "tea", "total": 6, "confirmed": False}


@pytest.mark.parametrize("tool", ["order", "plain_order"])
async def test_what_comes_before_may_answer_at_once(api: httpx.AsyncClient, tool: str) -> None:
    assert said(await result_of_call(api, call(tool, item="nothing"))) == "There is nothing to order."


async def test_a_plain_function_that_comes_before_may_answer_with_a_result(api: httpx.AsyncClient) -> None:
    assert said(await result_of_call(api, call("plain_order", item="gone"))) == "It is sold out."


async def test_client_first_and_the_server_validates(api: httpx.AsyncClient) -> None:
    body = call("pick_colour", colours=["red", "blue"])
    for colour, verdict in (("red", "The user likes red."), ("pink", "The user wants none of these.")):
        task = await waiting(api, body)
        assert task["input_requests"]["pick"]["handoff"]["parameters"] == {"colours": ["red", "blue"]}
        await taken(api, task, {"colour": colour})
        assert said(await result(api, task["id"])) == verdict


async def test_a_pass_through_server_phase_gives_the_answer_and_its_author(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("passed_through", item="tea"))
    assert task["input_requests"]["ask"]["handoff"]["parameters"] == {"item": "tea", "amount": 1}
    await taken(api, task, {"confirmed": True})
    done = await result(api, task["id"])
    assert done["structured"] == {"confirmed": True, "comment": None}
    assert done["meta"]["outlast/client"]["answeredBy"] == "key:ann"


async def test_what_the_server_decided_is_shown_and_the_answer_added(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("shown", item="tea"))
    assert task["input_requests"]["show"]["handoff"]["parameters"] == {"item": "tea"}
    await taken(api, task, {"confirmed": True})
    done = await result(api, task["id"])
    assert said(done).startswith("Done\nThe client answered: ")
    assert done["structured"] == {"item": "tea"}


@pytest.mark.parametrize(
    "content",
    [{"confirmed": True, "comment": "x" * 4_300_000}, {"confirmed": True, "more": [{}] * 60_000}],
    ids=["bytes", "values"],
)
async def test_an_answer_that_a_workflow_cannot_decode_is_refused_and_the_task_still_waits(
    api: httpx.AsyncClient, content: dict[str, Any]
) -> None:
    task = await waiting(api, ORDER)
    refused = await answered(api, task, content)
    assert refused.status_code == 413
    assert len(refused.content) < 1_000
    await taken(api, task, {"confirmed": True})
    assert said(await result(api, task["id"])).startswith("Ordered 2 tea")


@pytest.mark.parametrize(
    ("content", "path"),
    [({}, "/confirm/confirmed"), ({"confirmed": "perhaps"}, "/confirm/confirmed")],
)
async def test_a_wrong_answer_is_refused_and_the_task_still_waits(
    api: httpx.AsyncClient, content: dict[str, Any], path: str
) -> None:
    task = await waiting(api, ORDER)
    refused = await answered(api, task, content)
    assert refused.status_code == 422
    assert [violation["path"] for violation in refused.json()["error"]["violations"]] == [path]
    assert (await asks(api, task["id"]))["input_requests"].keys() == {"confirm"}
    await taken(api, task, {"confirmed": True})
    assert not (await result(api, task["id"]))["is_error"]


async def test_an_answer_to_a_json_schema_is_checked_too(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("by_schema"))
    assert (await answered(api, task, {"n": 0})).status_code == 422
    await taken(api, task, {"n": 7})
    assert (await result(api, task["id"]))["structured"] == {"n": 7}


async def test_answers_at_the_wrong_time_or_of_the_wrong_caller_say_so(
    api: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    task = await waiting(api, ORDER)
    foreign = await answered(bob, task, {"confirmed": True})
    assert foreign.status_code == 404
    unknown = await answered(api, task, {"confirmed": True}, key="other")
    assert (unknown.status_code, "no question with this key" in unknown.json()["detail"]) == (409, True)
    await taken(api, task, {"confirmed": True})
    again = await answered(api, task, {"confirmed": False})
    assert again.status_code == 409
    done = await result(api, task["id"])
    assert said(done).startswith("Ordered")


async def test_the_second_of_two_answers_hears_who_was_first(api: httpx.AsyncClient) -> None:
    """After its approval the task asks for a confirmation, so it is still open when the second answer comes."""
    task = await waiting(api, call("reviewed_order", item="tea"))
    await taken(api, task, {"decision": "yes"})

    async def asks_the_next() -> bool:
        return (await asks(api, task["id"]))["input_requests"].keys() == {"confirm"}

    await eventually(asks_the_next)
    for decision in ("yes", "no"):
        second = await answered(api, task, {"decision": decision})
        assert (second.status_code, second.json()["type"]) == (409, "urn:outlast:problem:answer-not-taken")
        assert "it was already answered by key:ann, at " in second.json()["detail"]
    await taken(api, await asks(api, task["id"]), {"confirmed": True})
    assert said(await result(api, task["id"])).startswith("Ordered 1 tea")


async def test_after_cancel_nothing_is_asked_any_more(api: httpx.AsyncClient) -> None:
    task = await waiting(api, ORDER)
    assert (await api.post(f"/v1/tasks/{task['id']}/cancel")).status_code == 202
    await api.get(f"/v1/tasks/{task['id']}/result", params={"wait": 30})
    late = await answered(api, task, {"confirmed": True})
    assert late.status_code == 409
    assert (await api.get(f"/v1/tasks/{task['id']}")).json()["status"] == "cancelled"


async def test_at_the_deadline_a_default_stands_in_or_the_call_fails(api: httpx.AsyncClient) -> None:
    done = await result_of_call(api, call("defaulted"))
    assert done["structured"] == {"colour": "grey"}
    assert done["meta"]["outlast/client"] == {"phase": "ask", "answeredBy": None, "isDefault": True}
    task_id = await started(api, call("impatient"))
    failed = await result(api, task_id)
    assert (failed["is_error"], failed["error"]["category"]) == (True, "timeout")
    late = await answered(api, {"id": task_id}, {"colour": "red"}, key="ask")
    assert late.status_code == 409


async def test_a_client_may_decline(api: httpx.AsyncClient) -> None:
    task = await waiting(api, ORDER)
    await taken(api, task, action="decline")
    failed = await result(api, task["id"])
    assert (failed["error"]["category"], failed["error"]["retryable"]) == ("permission", False)


async def test_the_event_stream_tells_the_hand_off_once_and_who_answered(api: httpx.AsyncClient) -> None:
    task_id = await started(api, ORDER)
    told = []
    async for event in events(api, task_id):
        told.append(event)
        if event.name == "isomorphic_handoff":
            await taken(api, await asks(api, task_id), {"confirmed": True})
    names = [event.name for event in told if event.id]
    assert names == [
        "created",
        "input_required",
        "isomorphic_handoff",
        "input_answered",
        "handler_returned",
        "task_completed",
    ]
    by_name = {event.name: event for event in told}
    handed = by_name["isomorphic_handoff"].data
    assert handed.items() >= {"tool": "order", "phase": "confirm", "key": "confirm", "message": "Order for 6?"}.items()
    assert handed["parameters"] == {"item": "tea", "total": 6}
    assert set(handed["answer_schema"]["properties"]) == {"confirmed", "comment"}
    assert handed["deadline"]
    assert by_name["input_answered"].data.items() >= {"answered_by": "key:ann", "phase": "confirm"}.items()
    again = [event.name async for event in events(api, task_id, after=by_name["isomorphic_handoff"].id) if event.id]
    assert again == names[3:]


async def test_without_a_worker_an_answer_and_a_session_are_answered_503_and_taken_later(
    api: httpx.AsyncClient, service: Service, temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK replaces the cancellation that ends the waiting: it was answered 500."""
    task = await waiting(api, ORDER)
    monkeypatch.setattr(errors, "WORKER_SECONDS", 0.5)
    # The process of this API, which has not loaded the service's tools, would say that the tool was removed.
    monkeypatch.setattr(task_client, "change_of_tool", lambda *_: None)
    settings = api_settings(service.sandbox, api_keys=SecretStr(f"ann:{ANN}"))
    answer = {"action": "accept", "content": {"confirmed": True}}
    async with serving_api(temporal, settings) as impatient:
        impatient.headers.update(bearer(ANN))
        service.worker.process.send_signal(signal.SIGSTOP)
        try:
            refused = [
                await impatient.post(f"/v1/tasks/{task['id']}/input", json={"answers": {"confirm": answer}}),
                await impatient.post("/v1/sessions", json={}),
            ]
        finally:
            service.worker.process.send_signal(signal.SIGCONT)
    problems = [(response.status_code, response.json()["type"]) for response in refused]
    assert problems == [(503, "urn:outlast:problem:temporal-unavailable")] * 2
    assert said(await result(api, task["id"])).startswith("Ordered 2 tea for 6")
