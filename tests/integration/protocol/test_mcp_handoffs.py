"""Hand-offs and approvals in both protocol revisions of MCP: elicitation, and input requests answered in calls."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.calls.questions import asks, call, result, said, taken
from tests.support.calls.tasks import completed
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN, Wire, WireError, text_of

CAN_BE_ASKED = {"elicitation": {}}
ORDER = {"name": "order", "arguments": {"item": "tea", "amount": 2}}
DEPLOY = {"name": "deploy", "arguments": {"item": "site"}}


@pytest.fixture
async def older(api: httpx.AsyncClient) -> Wire:
    wire = Wire(api, LEGACY)
    await wire.initialize(CAN_BE_ASKED)
    return wire


@pytest.fixture
def newer(api: httpx.AsyncClient) -> Wire:
    return Wire(api, MODERN)


async def conversation(wire: Wire, call: dict[str, Any], *answers: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """The messages of a call (2025-11-25) whose questions get these answers, one after the other."""
    left = list(answers)
    # A slow machine may take longer to ask than a call waits by default.
    patient = {**call, "_meta": {"outlast/wait-secs": 110, **call.get("_meta", {})}}
    async for message in wire.messages("tools/call", patient):
        if message.get("method") == "elicitation/create":
            await wire.reply(message, left.pop(0))
        yield message


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def test_the_older_revision_is_asked_by_elicitation_with_what_is_handed_over(older: Wire) -> None:
    told = [message async for message in conversation(older, ORDER, accept(confirmed=True))]
    asked = next(message["params"] for message in told if message.get("method") == "elicitation/create")
    assert asked["message"] == "Order for 6?"
    assert asked["requestedSchema"]["properties"]["confirmed"]["type"] == "boolean"
    assert asked["requestedSchema"]["properties"]["comment"]["type"] == "string"
    handed = asked["_meta"]["outlast/handoffs"]["confirm"]
    assert handed.items() >= {"tool": "order", "phase": "confirm", "parameters": {"item": "tea", "total": 6}}.items()
    assert set(handed["answerSchema"]["properties"]) == {"confirmed", "comment"}
    assert handed["deadline"]
    assert text_of(told[-1]["result"]).startswith("Ordered 2 tea")


async def test_a_wrong_answer_is_asked_for_again_with_what_was_wrong(older: Wire) -> None:
    wrong, right = accept(confirmed="perhaps"), accept(confirmed=True)
    told = [message async for message in conversation(older, ORDER, wrong, right)]
    asked = [message["params"]["message"] for message in told if message.get("method") == "elicitation/create"]
    assert asked[0] == "Order for 6?"
    assert asked[1].startswith("Order for 6? (Your last answer was invalid: ")
    assert text_of(told[-1]["result"]).startswith("Ordered 2 tea")


async def test_an_approval_is_a_form_of_yes_and_no(older: Wire) -> None:
    told = [message async for message in conversation(older, DEPLOY, accept(decision="yes", note="go"))]
    asked = next(message["params"] for message in told if message.get("method") == "elicitation/create")
    assert set(asked["requestedSchema"]["properties"]) == {"decision", "note", "arguments"}
    assert asked["requestedSchema"]["properties"]["arguments"]["type"] == "string"
    assert "arguments" in asked["_meta"]["outlast/handoffs"]["approval"]["answerSchema"]["properties"]
    done = told[-1]["result"]
    assert text_of(done) == "Deployed 1 site"
    assert done["_meta"]["outlast/approval"]["by"] == "key:ann"


WITH_CRAWLER = "?tools=actors,runs,dev&actors=outlast/site-crawler"
CRAWL = {"name": "outlast--site-crawler", "arguments": {"startUrls": [{"url": "http://site.test/"}]}}
BUDGET = {"_meta": {"outlast/options": {"budget": {"max_total_charge_usd": "0.25", "max_items": 40}}}}
APPROVED = (
    "Tool: outlast--site-crawler",
    "Actor: outlast/site-crawler",
    "http://site.test/",
    "May cost at most: $0.25, 40 items",
)


async def test_an_approval_by_elicitation_shows_what_is_approved(api: httpx.AsyncClient) -> None:
    older = Wire(api, LEGACY, WITH_CRAWLER)
    await older.initialize(CAN_BE_ASKED)
    messages = [message async for message in conversation(older, {**CRAWL, **BUDGET}, accept(decision="no"))]
    asked = next(message["params"] for message in messages if message.get("method") == "elicitation/create")
    assert [part for part in APPROVED if part not in asked["message"]] == []


async def test_an_approval_shows_what_is_approved_wherever_a_task_is_shown(api: httpx.AsyncClient) -> None:
    newer = Wire(api, MODERN, WITH_CRAWLER)
    asked = await newer.request("tools/call", {**CRAWL, **BUDGET}, capabilities=CAN_BE_ASKED)
    left = await newer.request("tools/call", {**CRAWL, **BUDGET})
    task_id = left["_meta"]["outlast/taskId"]
    state = await newer.request("tasks/get", {"taskId": task_id}, capabilities=KNOWS_TASKS)
    looked_up = await newer.request("tools/call", {"name": "get-task", "arguments": {"taskId": task_id}})
    arguments = {"taskId": task_id, "key": "approval", "content": {"decision": "yes"}}
    refused = await newer.request("tools/call", {"name": "answer-task", "arguments": arguments})
    places = {
        "input request of the call": asked["inputRequests"]["approval"]["params"]["message"],
        "result of a call that waits": text_of(left),
        "status message": state["statusMessage"],
        "input request of the task": state["inputRequests"]["approval"]["params"]["message"],
        "get-task": text_of(looked_up),
        "answer-task": text_of(refused),
    }
    assert {place: part for place, text in places.items() for part in APPROVED if part not in text} == {}
    await taken(api, await asks(api, task_id), {"decision": "no"})


async def test_the_newer_revision_answers_in_the_call(newer: Wire) -> None:
    asked = await newer.request("tools/call", DEPLOY, capabilities=CAN_BE_ASKED)
    assert asked["resultType"] == "input_required"
    request = asked["inputRequests"]["approval"]
    assert request["method"] == "elicitation/create"
    assert asked["_meta"]["outlast/handoffs"]["approval"]["kind"] == "approval"
    answer = {"approval": accept(decision="yes", arguments='{"item": "shop", "amount": 3}')}
    again = {**DEPLOY, "inputResponses": answer, "requestState": asked["requestState"]}
    done = await newer.request("tools/call", again, capabilities=CAN_BE_ASKED)
    assert text_of(done) == "Deployed 3 shop"


async def test_the_newer_revision_answers_a_task(newer: Wire) -> None:
    task = await newer.request("tools/call", {**ORDER, "_meta": {}}, capabilities=KNOWS_TASKS)
    task_id = task["taskId"]
    state = await newer.request("tasks/get", {"taskId": task_id}, capabilities=KNOWS_TASKS)
    assert (state["status"], list(state["inputRequests"])) == ("input_required", ["confirm"])
    handed = state["_meta"]["outlast/handoffs"]["confirm"]
    assert handed.items() >= {"tool": "order", "phase": "confirm", "parameters": {"item": "tea", "total": 6}}.items()
    assert handed["deadline"]
    with pytest.raises(WireError) as refused:
        wrong = {"taskId": task_id, "inputResponses": {"confirm": accept(confirmed="perhaps")}}
        await newer.request("tasks/update", wrong, capabilities=KNOWS_TASKS)
    assert refused.value.code == -32602
    assert refused.value.data is not None
    assert refused.value.data["error"]["violations"][0]["path"] == "/confirm/confirmed"
    right = {"taskId": task_id, "inputResponses": {"confirm": accept(confirmed=True)}}
    await newer.request("tasks/update", right, capabilities=KNOWS_TASKS)

    ended = await newer.request("tools/call", _get_task(task_id))
    assert text_of(ended).startswith("Ordered 2 tea")


async def test_a_model_cannot_approve_its_own_call(newer: Wire, api: httpx.AsyncClient) -> None:
    left = await newer.request("tools/call", DEPLOY)
    task_id = left["_meta"]["outlast/taskId"]
    assert "A person has to approve it" in text_of(left)
    arguments = {"taskId": task_id, "key": "approval", "content": {"decision": "yes"}}
    refused = await newer.request("tools/call", {"name": "answer-task", "arguments": arguments})
    assert refused["_meta"]["outlast/error"]["category"] == "permission"
    await taken(api, await asks(api, task_id), {"decision": "yes"})
    assert said(await result(api, task_id)) == "Deployed 1 site"


async def test_a_model_may_answer_a_client_phase(newer: Wire) -> None:
    left = await newer.request("tools/call", ORDER)
    arguments = {"taskId": left["_meta"]["outlast/taskId"], "key": "confirm", "content": {"confirmed": True}}
    await newer.request("tools/call", {"name": "answer-task", "arguments": arguments})
    ended = await newer.request("tools/call", _get_task(arguments["taskId"]))
    assert text_of(ended).startswith("Ordered 2 tea")


async def test_rules_count_for_tools_that_the_front_door_answers(newer: Wire, bob: httpx.AsyncClient) -> None:
    listed = {"name": "list-tasks", "arguments": {}}
    assert not (await newer.request("tools/call", listed))["isError"]
    refused = await Wire(bob, MODERN).request("tools/call", listed)
    assert refused["_meta"]["outlast/error"]["category"] == "permission"


async def test_rest_and_mcp_see_one_task(api: httpx.AsyncClient, newer: Wire) -> None:
    done = await completed(api, call("hello_world"))
    state = await newer.request("tasks/get", {"taskId": done["task"]["id"]}, capabilities=KNOWS_TASKS)
    assert text_of(state["result"]) == "Hello, world!"


def _get_task(task_id: str) -> dict[str, Any]:
    return {"name": "get-task", "arguments": {"taskId": task_id, "waitSecs": 30}}
