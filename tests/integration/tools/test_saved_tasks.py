"""Saved Actor tasks in the default mode and the UI mode: made, changed, run and removed."""

import asyncio
from typing import Any

import httpx
import pytest
from apify_client import ApifyClient

from tests.integration.tools.conftest import ToolCaller
from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox

SLEEPER = "outlast/sleeper"
SAVED = {"seconds": 0, "rows": 3, "message": "as it was saved"}
START = r"/actor-tasks/[^/]+/runs$"


def call_of(task_id: str, **more: Any) -> dict[str, Any]:
    return {"tool": "call-actor-task", "arguments": {"actorTaskId": task_id, **more}}


@pytest.fixture
def task_id(sandbox: Sandbox) -> str:
    """A task that has saved three rows, a memory and a time-out."""
    options = {"memoryMbytes": 256, "timeoutSecs": 120, "maxItems": 5}
    return sandbox.save_task(SLEEPER, input=SAVED, options=options)


async def test_a_task_is_saved_found_changed_run_and_removed(call: ToolCaller, platform: ApifyClient) -> None:
    made = await call(
        "create-actor-task",
        actor=SLEEPER,
        name="three-rows",
        title="Three rows",
        input=SAVED,
        callOptions={"memory": 256, "timeout": 60},
    )
    task_id = made.structured["actorTaskId"]
    assert "Run it with call-actor-task" in made.text
    assert made.structured["callOptions"] == {"memory": 256, "timeout": 60}
    assert "input" not in made.structured
    for reference in (task_id, "three-rows", f"'{task_id}'"):
        found = await call("get-actor-task", actorTaskId=reference)
        assert (found.structured["actorTaskId"], found.structured["input"]) == (task_id, SAVED)
    listed = await call("get-actor-task-list", limit=1)
    assert listed.structured["tasks"][0]["actorTaskId"] == task_id
    assert listed.structured["tasks"][0]["actorName"] == SLEEPER
    assert f"{task_id} (three-rows) “Three rows”: Actor {SLEEPER}, run 0 times" in listed.text

    ended = await call("call-actor-task", actorTaskId="three-rows")
    assert (ended.structured["status"], len(ended.structured["items"])) == ("SUCCEEDED", 3)
    assert ended.structured["actorName"] == SLEEPER
    run = platform.run(ended.structured["runId"]).get()
    assert run is not None
    assert (run.actor_task_id, run.options.memory_mbytes, run.options.timeout_secs) == (task_id, 256, 60)

    changed = await call("update-actor-task", actorTaskId=task_id, input={**SAVED, "rows": 1}, title="One row")
    assert (changed.structured["title"], changed.structured["callOptions"]["memory"]) == ("One row", 256)
    again = await call("call-actor-task", actorTaskId=task_id, input={"message": "for this run"})
    assert [row["message"] for row in again.structured["items"]] == ["for this run"]
    removed = await call("delete-actor-task", actorTaskId=task_id)
    assert removed.structured == {"actorTaskId": task_id, "name": "three-rows", "deleted": True}
    for tool in ("get-actor-task", "call-actor-task", "update-actor-task", "delete-actor-task"):
        gone = await call(tool, actorTaskId=task_id)
        assert gone.error is not None
        assert gone.error["category"] == "not_found", tool


async def test_its_page_is_published_and_taken_away(call: ToolCaller, task_id: str) -> None:
    page = {"seoTitle": "Rows", "inputSchemaFields": ["rows"]}
    changed = await call("update-actor-task", actorTaskId=task_id, publicConfig=page)
    assert (changed.structured["publicConfig"], changed.structured["isPublic"]) == (page, False)
    published = await call("publish-actor-task", actorTaskId=task_id)
    assert published.structured["isPublic"]
    hidden = await call("unpublish-actor-task", actorTaskId=task_id)
    assert (hidden.structured["publicConfig"], hidden.structured["isPublic"]) == (page, False)


async def test_tasks_are_listed_newest_first_in_pages(call: ToolCaller, sandbox: Sandbox) -> None:
    ids = [sandbox.save_task(SLEEPER) for _ in range(3)]
    page = await call("get-actor-task-list", limit=2)
    assert [task["actorTaskId"] for task in page.structured["tasks"]] == [ids[2], ids[1]]
    assert page.structured["nextOffset"] == 2
    oldest = await call("get-actor-task-list", limit=1, desc=False)
    assert oldest.structured["tasks"][0]["actorTaskId"] not in ids[1:]


async def test_what_does_not_fit_is_told_before_anything_is_saved(call: ToolCaller, sandbox: Sandbox) -> None:
    before = sandbox.saved_objects()
    found = await call.violations("create-actor-task", actor=SLEEPER, name="-", callOptions={"memory": 1, "odd": 1})
    assert set(found) == {"/name", "/callOptions/memory", "/callOptions/odd"}
    for tool, arguments in (
        ("create-actor-task", {"actor": "nobody/nothing"}),
        ("get-actor-task", {"actorTaskId": "x"}),
    ):
        refused = await call(tool, **arguments)
        assert refused.error is not None
        assert refused.error["category"] == "not_found"
    assert sandbox.saved_objects() == before


async def test_a_name_that_is_taken_is_a_conflict(call: ToolCaller) -> None:
    taken = {"actor": SLEEPER, "name": "taken-by-the-first"}
    assert (await call("create-actor-task", **taken)).error is None
    refused = await call("create-actor-task", **taken)
    assert refused.error is not None
    assert refused.error["category"] == "conflict"


async def test_a_task_is_saved_once_when_the_answer_is_lost(call: ToolCaller, sandbox: Sandbox) -> None:
    before = sandbox.saved_objects()
    sandbox.order_fault("drop_after", path="/actor-tasks$", method="POST", times=1)
    try:
        made = await call("create-actor-task", actor=SLEEPER, input=SAVED)
        hits = [fault["hits"] for fault in sandbox.faults]
    finally:
        sandbox.restore()
    assert hits == [1]
    assert made.structured["actorId"]
    assert sandbox.saved_objects() == before + 1


@pytest.mark.parametrize("mode", ["default", "openai"])
async def test_a_call_is_paid_once_when_the_start_is_not_answered(
    http: httpx.AsyncClient, sandbox: Sandbox, task_id: str, mode: str
) -> None:
    before = sandbox.counters["startsAccepted"]
    sandbox.order_fault("drop_after", path=START, method="POST", times=1)
    try:
        answer = await completed(http, {**call_of(task_id), "mode": mode})
        hits = [fault["hits"] for fault in sandbox.faults]
    finally:
        sandbox.restore()
    assert hits == [1]
    assert not answer["result"]["is_error"]
    assert sandbox.counters["startsAccepted"] == before + 1
    assert sandbox.run(answer["result"]["structured"]["runId"])["actorTaskId"] == task_id


async def test_the_same_key_is_the_same_run(http: httpx.AsyncClient, sandbox: Sandbox, task_id: str) -> None:
    before = sandbox.counters["startsAccepted"]
    calls = [completed(http, call_of(task_id), **{"Idempotency-Key": f"of-{task_id}"}) for _ in range(3)]
    answers = await asyncio.gather(*calls)
    assert len({answer["task"]["id"] for answer in answers}) == 1
    assert sandbox.counters["startsAccepted"] == before + 1


@pytest.mark.parametrize("mode", ["default", "openai"])
async def test_a_call_that_is_cancelled_aborts_its_run(http: httpx.AsyncClient, sandbox: Sandbox, mode: str) -> None:
    task_id = sandbox.save_task(SLEEPER, input={"seconds": 300})
    call = await started(http, {**call_of(task_id), "mode": mode})

    async def begun() -> str | None:
        run = (await http.get(f"/v1/tasks/{call}")).json()["run"]
        return run and run["run_id"]

    run_id = await eventually(begun)
    await http.post(f"/v1/tasks/{call}/cancel")
    await result_of(http, call)
    await eventually(lambda: sandbox.run(run_id)["status"] == "ABORTED")


@pytest.mark.parametrize(
    ("saved", "given", "budget", "expected"),
    [
        ({"timeoutSecs": 50}, {}, {"max_run_seconds": 100}, {"timeoutSecs": 50}),
        ({"timeoutSecs": 50}, {}, {"max_run_seconds": 20}, {"timeoutSecs": 20}),
        ({"timeoutSecs": 50}, {"timeout": 70}, {}, {"timeoutSecs": 70}),
        ({"timeoutSecs": 50}, {"timeout": 70}, {"max_run_seconds": 60}, {"timeoutSecs": 60}),
        ({"timeoutSecs": 0}, {}, {"max_run_seconds": 60}, {"timeoutSecs": 60}),
        ({"maxTotalChargeUsd": 2}, {}, {"max_total_charge_usd": "5"}, {"maxTotalChargeUsd": 2}),
        ({"maxTotalChargeUsd": 2}, {}, {"max_total_charge_usd": "1.5"}, {"maxTotalChargeUsd": 1.5}),
        ({"maxItems": 5}, {"maxItems": 9}, {"max_items": 7}, {"maxItems": 7}),
        ({"memoryMbytes": 256}, {"memory": 512}, {}, {"memoryMbytes": 512}),
    ],
)
async def test_the_stricter_limit_counts(
    http: httpx.AsyncClient,
    sandbox: Sandbox,
    saved: dict[str, Any],
    given: dict[str, Any],
    budget: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    task_id = sandbox.save_task(SLEEPER, input=SAVED, options=saved)
    body = {**call_of(task_id, callOptions=given), "options": {"budget": budget}}
    answer = await completed(http, body)
    options = sandbox.run(answer["result"]["structured"]["runId"])["options"]
    assert {name: options[name] for name in expected} == expected


async def test_large_rows_are_stored_and_a_large_input_is_passed_on(
    http: httpx.AsyncClient, call: ToolCaller, sandbox: Sandbox
) -> None:
    many = sandbox.save_task("outlast/big-table", input={"rows": 400, "rowBytes": 1_000})
    stored = (await completed(http, call_of(many)))["result"]
    assert (stored["structured"]["compressed"], bool(stored["locator"])) == (True, True)
    more = "x" * 200_000
    task_id = sandbox.save_task(SLEEPER, input=SAVED)
    answer = await completed(http, call_of(task_id, input={"more": more, "rows": 0}))
    store = answer["result"]["structured"]["storages"]["keyValueStores"]["default"]["id"]
    record = ApifyClient(sandbox.token, api_url=sandbox.url).key_value_store(store).get_record("INPUT")
    assert record is not None
    assert (record["value"]["more"], record["value"]["message"]) == (more, SAVED["message"])


async def test_a_refused_start_is_told_and_leaves_nothing(http: httpx.AsyncClient, sandbox: Sandbox) -> None:
    wrong = sandbox.save_task(SLEEPER, input={"seconds": "many"})
    before = sandbox.counters["startsAccepted"]
    refused = (await completed(http, call_of(wrong)))["result"]
    assert (refused["is_error"], refused["error"]["category"]) == (True, "validation")
    assert sandbox.counters["startsAccepted"] == before
