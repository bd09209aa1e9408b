"""Schedules: what they start, when they are due, and what is told of it."""

from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.activities.schedules.contracts import Due
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.schedules.contracts import FiringInput, Spending, Timing
from outlast.workflows.schedules.firing import ScheduleFiringWorkflow
from tests.support.calls.schedules import fired, firings, scheduled, seen, triggered
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox

DOUBLE = {"tool": "double", "arguments": {"number": 21}}
WEBHOOK = {"url": "https://example.com/hooks", "secret": "whsec_" + "cmVjb3Jk" * 4}


def sleeper(seconds: float = 0) -> dict[str, Any]:
    return {"tool": "outlast--sleeper", "arguments": {"seconds": seconds}}


async def test_a_schedule_starts_a_task_that_lists_find(api: httpx.AsyncClient) -> None:
    made = await scheduled(api, "doubles", call=DOUBLE, note="for the test")
    assert (made["tool"], made["call"], made["paused"]) == ("double", DOUBLE, False)
    assert (made["recent"], made["fired"]) == ([], 0)
    firing = await fired(api, "doubles")
    assert (firing["status"], firing["cost_usd"]) == ("completed", 0.0)
    result = (await api.get(f"/v1/tasks/{firing['task_id']}/result")).json()
    assert (result["result"]["structured"], result["task"]["schedule_id"]) == ({"doubled": 42}, "doubles")
    second = await fired(api, "doubles")
    assert second["task_id"] != firing["task_id"]

    async def listed() -> list:
        tasks = (await api.get("/v1/tasks", params={"schedule_id": "doubles"})).json()["tasks"]
        assert {task["id"] for task in tasks} == {firing["task_id"], second["task_id"]}
        return tasks

    await eventually(listed)
    schedule = await seen(api, "doubles")
    assert [one["task_id"] for one in schedule["recent"]] == [second["task_id"], firing["task_id"]]
    assert (schedule["fired"], schedule["spent_usd"]) == (2, 0.0)
    assert (await api.delete("/v1/schedules/doubles")).status_code == 204
    assert (await api.get("/v1/schedules/doubles")).status_code == 404
    assert (await api.get(f"/v1/tasks/{firing['task_id']}")).status_code == 200


async def test_a_schedule_starts_batches_whose_items_lists_find(api: httpx.AsyncClient) -> None:
    items = [{"key": key, "arguments": {"number": number}} for number, key in enumerate(("a", "b", "c"))]
    await scheduled(api, "batches", batch={"tool": "double", "items": items, "concurrency": 2})
    firing = await fired(api, "batches")
    assert firing["status"] == "completed", firing
    batch = (await api.get(f"/v1/batches/{firing['batch_id']}")).json()
    assert (batch["completed"], batch["schedule_id"]) == (3, "batches")

    async def found() -> bool:
        batches = (await api.get("/v1/batches", params={"schedule_id": "batches"})).json()["batches"]
        tasks = (await api.get("/v1/tasks", params={"schedule_id": "batches"})).json()["tasks"]
        assert [one["id"] for one in batches] == [batch["id"]]
        assert {(one["batch_id"], one["tool"]) for one in tasks} == {(batch["id"], "double")}
        assert len(tasks) == 3
        return True

    await eventually(found)


async def test_a_schedule_is_due_by_its_times(api: httpx.AsyncClient) -> None:
    """An interval of a minute, of which the next one begins shortly."""
    now = await _server_seconds(api)
    await scheduled(api, "minutely", call=DOUBLE, every=[{"seconds": 60, "offset_seconds": (now + 4) % 60}])
    (firing,) = await firings(api, "minutely", 1)
    assert firing["status"] == "completed"
    assert (await api.delete("/v1/schedules/minutely")).status_code == 204


async def _server_seconds(api: httpx.AsyncClient) -> int:
    return int(parsedate_to_datetime((await api.get("/healthz")).headers["date"]).timestamp())


BERLIN = {"cron": ["30 2 * * *"], "time_zone": "Europe/Berlin"}
"""A time that the clocks skip on the last Sunday of March, and have twice on that of October."""


async def test_a_backfill_over_both_changes_of_the_clock_has_the_right_instants(api: httpx.AsyncClient) -> None:
    await scheduled(api, "berlin", call=DOUBLE, **BERLIN)
    spring = {"start": "2026-03-28T00:00:00Z", "end": "2026-03-31T00:00:00Z"}
    autumn = {"start": "2026-10-24T00:00:00Z", "end": "2026-10-27T00:00:00Z"}
    # There is no 02:30 on 29 March; 25 October has it twice, and it is due once.
    in_spring = ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]
    in_autumn = ["2026-10-24T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]
    preview = await api.get("/v1/schedules/berlin/times", params=spring)
    assert preview.json()["times"] == in_spring, preview.text
    for period, instants, all_fired in ((spring, in_spring, 2), (autumn, in_autumn, 5)):
        answer = await api.post("/v1/schedules/berlin/backfill", json=period)
        assert (answer.status_code, answer.json()) == (202, {"times": instants})
        done = (await firings(api, "berlin", all_fired))[-len(instants) :]
        assert [one["scheduled_at"] for one in done] == instants
        assert {one["status"] for one in done} == {"completed"}
        assert [one["id"].rpartition("Z")[0][-19:] + "Z" for one in done] == instants
    assert (await seen(api, "berlin"))["fired"] == 5
    # An hour later than usual by the clock of the world, at the same hour by that of the wall.
    await api.patch("/v1/schedules/berlin", json={"cron": ["30 8 * * *"]})
    times = (await api.get("/v1/schedules/berlin/times", params=spring)).json()["times"]
    assert times == ["2026-03-28T07:30:00Z", "2026-03-29T06:30:00Z", "2026-03-30T06:30:00Z"]


async def test_a_backfill_that_is_too_long_starts_nothing(api: httpx.AsyncClient) -> None:
    await scheduled(api, "often", call=DOUBLE, every=[{"seconds": 60}], paused=True)
    for end in ("2026-01-01T09:00:00Z", "2030-01-01T00:00:00Z"):
        answer = await api.post("/v1/schedules/often/backfill", json={"start": "2026-01-01T00:00:00Z", "end": end})
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:outlast:problem:schedule-refused")
    assert (await seen(api, "often"))["fired"] == 0


async def test_firings_that_are_made_up_for_come_one_after_the_other(api: httpx.AsyncClient) -> None:
    """With a budget in any case: each may cost what those before have left."""
    await scheduled(api, "made-up", call=DOUBLE, every=[{"seconds": 3600}], paused=True, budget_usd=1)
    period = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T02:00:00Z"}
    answer = await api.post("/v1/schedules/made-up/backfill", json={**period, "overlap": "allow_all"})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:outlast:problem:schedule-refused"), answer.text
    assert (await seen(api, "made-up"))["fired"] == 0
    assert (await api.post("/v1/schedules/made-up/backfill", json=period)).status_code == 202
    done = await firings(api, "made-up", 3)
    tasks = [(await api.get(f"/v1/tasks/{one['task_id']}")).json() for one in done]
    for earlier, later in pairwise(tasks):
        assert datetime.fromisoformat(later["created_at"]) >= datetime.fromisoformat(earlier["finished_at"])


@pytest.mark.parametrize(
    ("overlap", "ends"),
    [
        ("skip", ["completed"]),
        ("buffer_one", ["completed", "completed"]),
        ("cancel_other", ["cancelled", "completed"]),
        ("allow_all", ["completed", "completed"]),
    ],
)
async def test_what_becomes_of_a_firing_during_another(api: httpx.AsyncClient, overlap: str, ends: list[str]) -> None:
    name = f"overlap-{overlap}"
    # A run that is to be cancelled must not end before that on a busy machine.
    await scheduled(api, name, call=sleeper(20 if overlap == "cancel_other" else 3), overlap=overlap)
    await triggered(api, name)

    async def at_work() -> bool:
        (firing,) = (await seen(api, name))["recent"]
        return firing["status"] == "working"

    await eventually(at_work)
    await triggered(api, name)
    done = await firings(api, name, len(ends))
    assert [one["status"] for one in done] == ends
    schedule = await seen(api, name)
    assert schedule["fired"] == len(ends)
    assert schedule["skipped"] == (1 if overlap == "skip" else 0)
    tasks = [(await api.get(f"/v1/tasks/{one['task_id']}")).json() for one in done]
    assert [task["status"] for task in tasks] == ends
    assert [task["run"]["status"] for task in tasks] == [
        "ABORTED" if end == "cancelled" else "SUCCEEDED" for end in ends
    ]
    if overlap == "buffer_one":
        assert tasks[1]["created_at"] > tasks[0]["finished_at"]


async def test_a_budget_of_the_schedule_caps_each_run_and_pauses_it_when_it_is_used_up(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    """Of a cent, a run takes a part; when nothing is left, nothing is started."""
    await scheduled(api, "cheap", call=sleeper(0), budget_usd="0.01")
    first = await fired(api, "cheap")
    task = (await api.get(f"/v1/tasks/{first['task_id']}")).json()
    assert first["cost_usd"] == task["cost_usd"] > 0
    assert sandbox.run(task["run"]["run_id"])["options"]["maxTotalChargeUsd"] == pytest.approx(0.01)
    cost = first["cost_usd"]
    schedule = await seen(api, "cheap")
    assert (schedule["spent_usd"], schedule["paused"]) == (cost, False)
    # Of what is left, the next run gets no more.
    second = await fired(api, "cheap")
    task = (await api.get(f"/v1/tasks/{second['task_id']}")).json()
    assert sandbox.run(task["run"]["run_id"])["options"]["maxTotalChargeUsd"] == pytest.approx(0.01 - cost)

    # Spent to the last fraction of a cent: it would start with a limit of nothing.
    spent = cost + second["cost_usd"]
    exactly = str((await seen(api, "cheap"))["spent_usd"])
    assert float(exactly) == pytest.approx(spent)
    await api.patch("/v1/schedules/cheap", json={"budget_usd": exactly})
    third = await fired(api, "cheap")
    assert (third["status"], third["error"]["category"]) == ("refused", "payment")
    assert third["task_id"] is None
    schedule = await seen(api, "cheap")
    assert schedule["paused"], schedule
    assert "is used up" in schedule["paused_because"]
    assert schedule["spent_usd"] == pytest.approx(spent)

    await api.patch("/v1/schedules/cheap", json={"budget_usd": None})
    assert not (await api.post("/v1/schedules/cheap/resume")).json()["paused"]
    fourth = await fired(api, "cheap")
    assert fourth["status"] == "completed"
    assert (await seen(api, "cheap"))["spent_usd"] == pytest.approx(spent + fourth["cost_usd"])


async def test_a_schedule_is_paused_by_hand_and_triggered_all_the_same(api: httpx.AsyncClient) -> None:
    await scheduled(api, "by-hand", call=DOUBLE)
    paused = (await api.post("/v1/schedules/by-hand/pause", json={"reason": "holidays"})).json()
    assert (paused["paused"], paused["paused_because"]) == (True, "holidays")
    assert (await fired(api, "by-hand"))["status"] == "completed"
    resumed = (await api.post("/v1/schedules/by-hand/resume")).json()
    assert not resumed["paused"]
    assert "paused_because" not in resumed or resumed["paused_because"] is None


async def test_nothing_is_next_while_a_schedule_is_paused(api: httpx.AsyncClient) -> None:
    made = await scheduled(api, "no-next", call=DOUBLE)
    assert made["next"]
    paused = (await api.post("/v1/schedules/no-next/pause", json={})).json()
    assert (paused["paused"], paused["next"]) == (True, [])
    assert (await seen(api, "no-next"))["next"] == []
    (listed,) = [one for one in (await api.get("/v1/schedules")).json()["schedules"] if one["id"] == "no-next"]
    assert listed["next"] == []
    assert (await api.post("/v1/schedules/no-next/resume", json={})).json()["next"]


async def test_a_failure_that_would_come_again_pauses_it_and_another_does_not(api: httpx.AsyncClient) -> None:
    failing = {"tool": "double", "arguments": {"number": 1, "fails_with": "payment"}}
    await scheduled(api, "unpaid", call=failing)
    assert (await fired(api, "unpaid"))["error"]["category"] == "payment"
    schedule = await seen(api, "unpaid")
    assert (schedule["paused"], schedule["paused_because"]) == (True, "Paused after a failure (payment): 1 fails.")
    # A run that failed has cost something, too.
    failing = sleeper(0) | {"arguments": {"seconds": 0, "failWith": {"exitCode": 3, "message": "out of luck"}}}
    await scheduled(api, "unlucky", call=failing, budget_usd=1)
    firing = await fired(api, "unlucky")
    assert (firing["status"], firing["cost_usd"] > 0) == ("failed", True)
    schedule = await seen(api, "unlucky")
    assert (schedule["paused"], schedule["spent_usd"]) == (False, firing["cost_usd"])


async def test_a_cancelled_firing_cancels_its_task(api: httpx.AsyncClient, temporal: Client) -> None:
    await scheduled(api, "cancelled", call=sleeper(60))
    await triggered(api, "cancelled")

    async def at_work() -> dict[str, Any]:
        (firing,) = (await seen(api, "cancelled"))["recent"]
        assert firing["status"] == "working"
        return firing

    firing = await eventually(at_work)
    await temporal.get_workflow_handle(firing["id"]).cancel()
    (ended,) = await firings(api, "cancelled", 1)
    assert ended["status"] == "cancelled"
    task = (await api.get(f"/v1/tasks/{firing['task_id']}")).json()
    assert (task["status"], task["run"]["status"]) == ("cancelled", "ABORTED")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cron": ["61 * * * *"]}, "Minute is not in range"),
        ({"time_zone": "Mars/Olympus"}, "unknown time zone"),
        ({"cron": ["* * * * * *"]}, "five fields"),
        ({"cron": ["@every 1s"]}, "is none of"),
        ({"cron": [], "every": []}, "never due"),
        ({"cron": [], "every": [{"seconds": 5}]}, "60"),
        ({"every": [{"seconds": 60, "offset_seconds": 60}]}, "offset_seconds"),
        ({"overlap": "terminate_other"}, "overlap"),
        ({"overlap": "allow_all", "budget_usd": 1}, "allow_all"),
        ({"call": {"tool": "double", "arguments": {"number": "x"}}}, "number"),
        ({"call": {"tool": "no-such-tool"}}, "no-such-tool"),
        ({"call": {**DOUBLE, "options": {"reuse": {"max_age": "1h"}}}}, "reuse"),
        ({"call": {**DOUBLE, "options": {"webhooks": [WEBHOOK]}}}, "POST /v1/webhooks"),
        ({"call": None, "batch": {"tool": "double", "items": [{}], "webhooks": [WEBHOOK]}}, "POST /v1/webhooks"),
        ({"call": {"tool": "get-task", "arguments": {"taskId": "x"}}}, "get-task"),
        ({"batch": {"tool": "double", "items": [{"arguments": {"number": 1}}]}}, "one of"),
        ({"saved": {"name": "nothing"}, "call": None}, "no saved call"),
        ({"call": None, "batch": {"tool": "double", "items": [{"arguments": {"number": "x"}}]}}, "Line 1"),
        ({"call": {"tool": "double", "arguments": {"number": 1, "label": "x" * 140_000}}}, "131072 bytes"),
        ({"id": "../x"}, "id"),
        ({"start_at": "2026-01-02T00:00:00Z", "end_at": "2026-01-01T00:00:00Z"}, "end_at"),
        ({"start_at": "2026-01-02T00:00:00"}, "start_at"),
        ({"spell": 1}, "spell"),
    ],
)
async def test_what_cannot_be_scheduled_is_refused(api: httpx.AsyncClient, changes: dict[str, Any], words: str) -> None:
    body = {"id": "refused", "call": DOUBLE, "cron": ["0 0 * * *"], **changes}
    answer = await api.post("/v1/schedules", json={name: value for name, value in body.items() if value is not None})
    assert answer.status_code in (404, 413, 422), answer.text
    assert words in answer.text
    assert (await api.get("/v1/schedules/refused")).status_code == 404


async def test_the_same_request_again_changes_nothing_and_another_is_a_conflict(api: httpx.AsyncClient) -> None:
    made = await scheduled(api, "once", call=DOUBLE)
    again = await scheduled(api, "once", call=DOUBLE)
    assert again["created_at"] == made["created_at"]
    other = await api.post("/v1/schedules", json={"id": "once", "call": DOUBLE, "cron": ["0 0 * * *"]})
    assert (other.status_code, other.json()["type"]) == (409, "urn:outlast:problem:schedule-exists")


async def test_a_budget_that_is_no_amount_ends_the_firing_and_starts_nothing(temporal: Client) -> None:
    firing = FiringInput(
        schedule_id="old",
        temporal_id="old",
        caller=Caller(id="local"),
        due=Due(call=DOUBLE),
        tool="double",
        timing=Timing(),
        spending=Spending(budget_usd=Decimal("1e400")),
        created_at=datetime.now(UTC),
        fingerprint="",
    )
    handle = await temporal.start_workflow(
        ScheduleFiringWorkflow.run, firing, id=f"firing-{uuid4()}", task_queue=TOOLS_TASK_QUEUE
    )
    outcome = await handle.result()
    assert (outcome.status, outcome.started) == ("refused", None)
    assert outcome.error is not None
    assert "`budget_usd` is 1E+400" in outcome.error.message
