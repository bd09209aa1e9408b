"""`until`: a run that has produced enough is stopped gracefully, and its task completes with what there is."""

from typing import Any

import httpx
import pytest

from tests.support.calls.tasks import all_rows, completed, events, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox

Json = dict[str, Any]


def call(until: Json, *, seconds: float = 120, steps: int = 480, mode: str | None = None, **run_input: Any) -> Json:
    """A run of the sleeper that takes two minutes and writes four rows a second, unless it is stopped."""
    body = sleeper_call(seconds, mode=mode, **{"steps": steps, "rows": steps, **run_input})
    return body | {"options": {"until": until}}


async def test_enough_rows_end_the_run_and_complete_the_task(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    before = sandbox.counters
    answer = await completed(api, call({"rows": 5}, rowBytes=10))
    task, result = answer["task"], answer["result"]
    assert (task["status"], task["run"]["status"]) == ("completed", "ABORTED")
    met = task["run"]["until_met"]
    assert met["condition"] == "rows"
    assert 5 <= met["rows"] < 100
    assert not result["is_error"]
    assert f"stopped by `until`: {met['rows']} rows were enough" in result["content"][0]["text"]
    assert result["meta"]["outlast/until"] == met
    rows, end = await all_rows(api, task["id"])
    assert len(rows) == result["structured"]["storages"]["datasets"]["default"]["itemCount"] >= met["rows"]
    assert [row.data["index"] for row in rows] == list(range(len(rows)))
    assert end["status"] == "completed"
    assert sandbox.record(task["run"]["key_value_store_id"], "OUTPUT")["aborted"] is True
    after = sandbox.counters
    assert after["startsAccepted"] - before["startsAccepted"] == 1
    assert after["abortsRequested"] - before["abortsRequested"] == 1
    names = [event.name async for event in events(api, task["id"])]
    assert names.count("run_finished") == 1


async def test_rows_that_match_an_expression_are_enough(api: httpx.AsyncClient) -> None:
    until = {"expression": "index >= `4` && message == 'yes'", "matches": 3}
    task = (await completed(api, call(until, message="yes")))["task"]
    met = task["run"]["until_met"]
    assert (met["condition"], met["matches"] >= 3) == ("expression", True)
    assert 7 <= met["rows"] < 100


async def test_rows_on_which_an_expression_fails_do_not_match(api: httpx.AsyncClient) -> None:
    """`length` of a number is an error in JMESPath; it is no reason to stop, nor to fail."""
    until = {"expression": "length(index) > `0`", "rows": 6}
    task = (await completed(api, call(until)))["task"]
    assert task["run"]["until_met"]["condition"] == "rows"


async def test_money_is_enough(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    task = await started(api, call({"usd": 0.25}))

    async def begun() -> str | None:
        run = (await api.get(f"/v1/tasks/{task}")).json().get("run")
        return run["run_id"] if run else None

    sandbox.add_usage(await eventually(begun), 0.3)
    answer = await result_of(api, task)
    met = answer["task"]["run"]["until_met"]
    assert (answer["task"]["status"], met["condition"]) == ("completed", "usd")
    assert 0.3 <= met["usd"] <= answer["task"]["cost_usd"]
    assert "it had cost 0.3" in answer["result"]["content"][0]["text"]


async def test_a_run_that_ends_by_itself_was_not_stopped(api: httpx.AsyncClient) -> None:
    answer = await completed(api, call({"rows": 2}, seconds=0.1, steps=2))
    assert answer["task"]["run"]["status"] == "SUCCEEDED"
    assert "until_met" not in answer["task"]["run"]
    assert "outlast/until" not in answer["result"]["meta"]


async def test_what_fails_before_there_is_enough_has_failed(api: httpx.AsyncClient) -> None:
    failing = call({"rows": 50}, seconds=0.1, steps=2, failWith={"exitCode": 3, "message": "out of luck"})
    answer = await completed(api, failing)
    assert (answer["task"]["status"], answer["task"]["run"]["status"]) == ("failed", "FAILED")


@pytest.mark.parametrize("until", [{"rows": 12}, {"expression": "index == `11`"}])
async def test_replicas_that_lag_only_delay_the_end(api: httpx.AsyncClient, sandbox: Sandbox, until: Json) -> None:
    sandbox.order_fault("late_items", path="/items", method="GET", rows=9, seconds=2, every=2)
    answer = await completed(api, call(until))
    assert answer["task"]["status"] == "completed"
    assert answer["task"]["run"]["until_met"]["rows"] >= 12


async def test_a_run_whose_start_is_the_answer_is_stopped_too(api: httpx.AsyncClient) -> None:
    """In the mode `openai` the task is completed at once; its run goes on, until there is enough."""
    task = await started(api, call({"rows": 5}, mode="openai"))
    seen = [event async for event in events(api, task)]
    finished = next(event for event in seen if event.name == "run_finished")
    assert finished.data["until_met"]["condition"] == "rows"
    assert (await api.get(f"/v1/tasks/{task}")).json()["status"] == "completed"


async def test_the_mode_apify_completes_with_what_there_is(api: httpx.AsyncClient) -> None:
    answer = await completed(api, call({"rows": 5}, mode="apify"))
    assert (answer["task"]["status"], answer["task"]["run"]["status"]) == ("completed", "ABORTED")
    assert answer["result"]["structured"]["status"] == "ABORTED"
    assert answer["result"]["meta"]["outlast/until"]["condition"] == "rows"


async def test_a_cancel_while_the_run_is_stopped_is_a_cancel(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    sandbox.order_fault("hang", path="/abort", method="POST", times=1)
    task = await started(api, call({"rows": 3}))
    await eventually(lambda: sum(fault["hits"] for fault in sandbox.faults))
    await api.post(f"/v1/tasks/{task}/cancel")

    async def ended() -> Json:
        found = (await api.get(f"/v1/tasks/{task}")).json()
        assert found.get("finished_at"), found
        return found

    assert (await eventually(ended))["status"] == "cancelled"
    assert sandbox.counters["runningNow"] == []


@pytest.mark.parametrize(
    ("until", "says"),
    [
        ({}, "set `rows`, `expression` or `usd`"),
        ({"rows": 0}, "greater than or equal to 1"),
        ({"usd": "-1"}, "greater than 0"),
        ({"matches": 5, "rows": 3}, "`matches` counts rows that match an `expression`"),
        ({"row": 3}, "did you mean 'rows'?"),
        ({"expression": "index >"}, "not valid JMESPath"),
        ({"expression": "lenght(@)"}, "There is no function 'lenght'"),
        ({"expression": "contains(@)"}, "contains() takes 2 arguments, and has 1"),
        ({"expression": "[" * 40 + "]" * 40}, "levels of nesting"),
        ({"expression": "!" * 900 + "a"}, "nested too deeply"),
        ({"expression": "a" * 1001}, "at most 1000 characters"),
    ],
)
async def test_what_cannot_be_judged_is_refused_before_anything_starts(
    api: httpx.AsyncClient, sandbox: Sandbox, until: Json, says: str
) -> None:
    before = sandbox.counters["startsAccepted"]
    refused = await api.post("/v1/tasks", json=call(until))
    assert refused.status_code == 422, refused.text
    assert says in refused.text
    assert sandbox.counters["startsAccepted"] == before


@pytest.mark.parametrize(
    "body",
    [
        {"tool": "get-actor-run-list", "arguments": {}},
        {"tool": "call-actor", "arguments": {"actor": "outlast/sleeper:tool", "input": {}}},
    ],
)
async def test_calls_without_a_run_have_nothing_to_stop(api: httpx.AsyncClient, body: Json) -> None:
    refused = await api.post("/v1/tasks", json=body | {"options": {"until": {"rows": 1}}})
    assert refused.status_code in (404, 422), refused.text


async def test_an_expression_that_takes_too_much_fails_the_task_and_aborts_the_run(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    """Each step of the pipe doubles the text: a gigabyte, after so many."""
    doubling = " | ".join(["message", *(["join('', [@, @])"] * 32), "length(@)"])
    task = await started(api, call({"expression": doubling}, message="x" * 100))
    answer = await result_of(api, task)
    assert answer["task"]["status"] == "failed"
    assert "options.until.expression" in answer["result"]["error"]["message"]
    assert answer["task"]["run"]["run_id"] not in sandbox.counters["runningNow"]


async def test_calls_that_differ_in_until_do_not_answer_each_other(api: httpx.AsyncClient) -> None:
    ids: set[str] = set()
    for until in (None, {"rows": 500}, {"rows": 501}):
        options = {"reuse": {"max_age": "1h"}, **({"until": until} if until else {})}
        answer = await completed(api, sleeper_call(0, message="until and reuse") | {"options": options})
        ids.add(answer["task"]["id"])
    assert len(ids) == 3
