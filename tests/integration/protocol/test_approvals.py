"""Approval: yes, no, yes with other arguments; who said it; and what the operator's rules let run."""

from typing import Any

import httpx
import pytest

from tests.support.calls.questions import answered, call, result, result_of_call, said, taken, waiting
from tests.support.calls.tasks import events, sleeper_call, started
from tests.support.stacks.service import Service

DEPLOY = call("deploy", item="site", amount=2)


async def test_yes_runs_the_call_and_records_who_said_it(api: httpx.AsyncClient) -> None:
    task = await waiting(api, DEPLOY)
    asked = task["input_requests"]["approval"]
    assert (asked["message"], asked["handoff"]["kind"]) == ("Deploy?", "approval")
    assert asked["handoff"]["parameters"] == {"arguments": {"item": "site", "amount": 2}}
    await taken(api, task, {"decision": "yes", "note": "go"})
    done = await result(api, task["id"])
    assert said(done) == "Deployed 2 site"
    record = done["meta"]["outlast/approval"]
    assert record.items() >= {"decision": "yes", "by": "key:ann", "note": "go"}.items()
    told = [event.data async for event in events(api, task["id"]) if event.name == "input_answered"]
    assert told[0].items() >= {"answered_by": "key:ann", "decision": "yes", "note": "go", "kind": "approval"}.items()


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_no_is_a_permission_error_with_the_note(api: httpx.AsyncClient, action: str) -> None:
    task = await waiting(api, DEPLOY)
    content = {"decision": "no", "note": "Not on a Friday."} if action == "accept" else {}
    await taken(api, task, content, action=action)
    refused = await result(api, task["id"])
    assert (refused["error"]["category"], refused["error"]["retryable"]) == ("permission", False)
    assert ("Not on a Friday." in refused["error"]["message"]) == (action == "accept")
    assert refused["meta"]["outlast/approval"].items() >= {"decision": "no", "by": "key:ann"}.items()


async def test_edited_arguments_are_checked_and_used(api: httpx.AsyncClient) -> None:
    task = await waiting(api, DEPLOY)
    for wrong in ({"item": "site", "amount": 100}, {"item": "site", "colour": "red"}, {}):
        refused = await answered(api, task, {"decision": "yes", "arguments": wrong})
        assert refused.status_code == 422, refused.text
        assert refused.json()["error"]["violations"][0]["path"].startswith("/approval/arguments")
    await taken(api, task, {"decision": "yes", "arguments": {"item": "shop"}})
    done = await result(api, task["id"])
    assert said(done) == "Deployed 1 shop"
    assert done["meta"]["outlast/approval"]["decision"] == "edited"


async def test_an_answer_that_says_neither_yes_nor_no_is_refused(api: httpx.AsyncClient) -> None:
    task = await waiting(api, DEPLOY)
    for wrong in ({}, {"decision": "perhaps"}, {"decision": "yes", "approved_by": "key:root"}):
        assert (await answered(api, task, wrong)).status_code == 422
    await taken(api, task, {"decision": "no"})


async def test_only_calls_that_need_it_ask(api: httpx.AsyncClient) -> None:
    quiet = await result_of_call(api, call("say_message", text="hey"))
    assert quiet["structured"] == {"said": "hey", "letters": 3}
    task = await waiting(api, call("say_message", text="hey", tone="loud"))
    assert task["input_requests"]["approval"]["message"] == "Shout 'hey'?"
    await taken(api, task, {"decision": "yes"})
    assert (await result(api, task["id"]))["structured"]["said"] == "HEY"


async def test_nobody_approves_in_time(api: httpx.AsyncClient) -> None:
    failed = await result(api, await started(api, call("hasty_deploy", item="site")))
    assert failed["error"]["category"] == "timeout"


async def test_rules_of_the_operator_deny_by_caller(api: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    assert said(await result_of_call(api, call("hello_world"))) == "Hello, world!"
    denied = await result_of_call(bob, call("hello_world"))
    assert denied["error"]["category"] == "permission"
    assert "key:bob:hello_world=deny" in denied["error"]["message"]


async def test_rules_of_the_operator_ask(api: httpx.AsyncClient, tmp_path: Any) -> None:
    task = await waiting(api, call("shaky", folder=str(tmp_path)))
    assert task["input_requests"]["approval"]["message"] == "Allow shaky, called by key:ann?"
    assert not list(tmp_path.iterdir())
    await taken(api, task, {"decision": "yes"})
    assert said(await result(api, task["id"])) == "Worked at try 3"


async def test_whoever_answers_second_is_told_who_was_first(api: httpx.AsyncClient, tmp_path: Any) -> None:
    """The tool needs three attempts, seconds apart: the task is still there to say it."""
    task = await waiting(api, call("shaky", folder=str(tmp_path)))
    await taken(api, task, {"decision": "yes"})
    second = await answered(api, task, {"decision": "no"})
    assert second.status_code == 409
    assert second.json()["type"] == "urn:outlast:problem:answer-not-taken"
    assert "it was already answered by key:ann" in second.json()["detail"]
    done = await result(api, task["id"])
    assert done["meta"]["outlast/approval"]["decision"] == "yes"


async def test_a_rule_about_an_actor_counts_however_the_actor_is_called(
    api: httpx.AsyncClient, service: Service
) -> None:
    starts = service.sandbox.counters["startsAccepted"]
    actor_id = service.sandbox.actor_id("outlast/big-table")
    calls = [call("outlast--big-table", rows=1)] + [
        {**call("call-actor", actor=actor, input={}), "mode": mode}
        for actor in ("outlast/big-table", "outlast~big-table", actor_id, " 'outlast/big-table'", f'"{actor_id}"')
        for mode in ("default", "apify")
    ]
    for body in calls:
        denied = await result_of_call(api, body)
        assert denied["error"]["category"] == "permission", body
    for body in (
        call("outlast--site-crawler", startUrls=[{"url": "http://127.0.0.1:1/"}]),
        call("call-actor", actor="outlast/site-crawler", input={"startUrls": [{"url": "http://127.0.0.1:1/"}]}),
    ):
        task = await waiting(api, body)
        await taken(api, task, {"decision": "no"})
        assert (await result(api, task["id"]))["error"]["category"] == "permission"
    assert service.sandbox.counters["startsAccepted"] == starts


async def test_editing_does_not_get_around_a_rule(api: httpx.AsyncClient) -> None:
    body = call("call-actor", actor="outlast/site-crawler", input={"startUrls": [{"url": "http://127.0.0.1:1/"}]})
    task = await waiting(api, body)
    edited = {"decision": "yes", "arguments": {"actor": "outlast/big-table", "input": {}}}
    refused = await answered(api, task, edited)
    assert (refused.status_code, refused.json()["error"]["category"]) == (422, "permission")
    await taken(api, task, {"decision": "yes", "arguments": sleeper_call(0)["arguments"]})
    done = await result(api, task["id"])
    assert done["structured"]["status"] == "SUCCEEDED"
    assert (await asks_nothing(api, task["id"]))["actor"] == "outlast/site-crawler"


async def asks_nothing(api: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    return (await api.get(f"/v1/tasks/{task_id}")).json()
