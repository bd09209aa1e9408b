"""Spending caps: what a call may cost is reserved before its run starts, and settled when the run has ended."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import httpx
import pytest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Replayer

from outlast.activities.contracts import Caller
from outlast.activities.spending.contracts import (
    LedgerOverview,
    ReserveInput,
    Settlement,
    Spend,
    SpendingCaps,
    exact_usd,
    ledger_id,
)
from outlast.activities.spending.ledger import Ledgers
from outlast.worker.connection import OutlastPlugin
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.spending.ledger import KEEP_AT, SpendLedgerWorkflow
from tests.histories.stale_times import with_stale_times
from tests.support.calls.batches import begun, ended, sleepers
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

RACER, SAVER = bearer("racer-key-0123456789"), bearer("saver-key-0123456789")
PAYER = bearer("payer-key-0123456789")
KEYS = ",".join(f"{name}:{name}-key-0123456789" for name in ("racer", "saver", "payer", "fresh", "late", "agent"))


@pytest.fixture
async def capped_api(temporal: Client, service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """An API whose callers may spend 5 cents a day, and 4 on one task."""
    settings = api_settings(
        service.sandbox,
        api_keys=KEYS,
        spending={"per_day_usd": 0.05, "per_task_usd": 0.04},
        store_url=str(service.outputs),
    )
    async with serving_api(temporal, settings) as api:
        yield api


async def overview(temporal: Client, caller_id: str) -> LedgerOverview:
    return await temporal.get_workflow_handle(ledger_id(caller_id)).query("overview", result_type=LedgerOverview)


@pytest.mark.parametrize(("mode", "actor"), [("apify", "actorId"), ("default", "actor")])
async def test_a_schedule_is_not_made_for_a_caller_with_caps(
    capped_api: httpx.AsyncClient, service: Service, mode: str, actor: str
) -> None:
    """What it starts would be in no ledger. What starts nothing may be changed."""
    before = service.sandbox.saved_objects()
    actions = [{actor: "outlast/sleeper"}]
    for tool, arguments in (
        ("create-schedule", {"cronExpression": "@yearly", "actions": actions}),
        ("update-schedule", {"scheduleId": "nothingHere12345x", "isEnabled": True}),
        ("update-schedule", {"scheduleId": "nothingHere12345x", "actions": actions}),
        ("update-schedule", {"scheduleId": "nothingHere12345x", "cronExpression": "* * * * *"}),
    ):
        refused = await completed(capped_api, {"tool": tool, "mode": mode, "arguments": arguments}, **RACER)
        assert refused["result"]["error"]["category"] == "payment", refused
    harmless = {"scheduleId": "nothingHere12345x", "isEnabled": False}
    body = {"tool": "update-schedule", "mode": mode, "arguments": harmless}
    passed_on = (await completed(capped_api, body, **RACER))["result"]
    assert passed_on["error"]["category"] == "permission"  # The account is shared.
    assert service.sandbox.saved_objects() == before


async def test_a_saved_task_is_reserved_and_booked_as_an_actor_is(temporal: Client, sandbox: Sandbox) -> None:
    """Its caller is alone on the account: who shares one has no saved tasks."""
    task_id = sandbox.save_task("outlast/sleeper", input={"seconds": 0}, options={"maxTotalChargeUsd": 3})
    caps = {"per_day_usd": 0.05, "per_task_usd": 0.04}
    async with serving_api(temporal, api_settings(sandbox, api_keys="lone:lone-key-0123456789", spending=caps)) as api:
        body = {"tool": "call-actor-task", "arguments": {"actorTaskId": task_id}}
        refused = await completed(api, body, **bearer("lone-key-0123456789"))
        assert refused["result"]["error"]["category"] == "payment"  # What was saved is more than the caps leave.
        within = {**body["arguments"], "callOptions": {"maxTotalChargeUsd": 0.03}}
        answer = await completed(api, {**body, "arguments": within}, **bearer("lone-key-0123456789"))
    run = answer["task"]["run"]
    assert (run["status"], run["options"]["maxTotalChargeUsd"]) == ("SUCCEEDED", 0.03)
    ledger = await overview(temporal, "key:lone")
    assert (ledger.day.spent_usd, ledger.reserved_usd) == (exact_usd(run["usage_total_usd"]), 0)
    assert [(record.spend.tool, record.spend.actor) for record in ledger.records] == [
        ("call-actor-task", "outlast/sleeper")
    ]


def with_budget(body: dict[str, Any], usd: str) -> dict[str, Any]:
    return {**body, "options": {"budget": {"max_total_charge_usd": usd}}}


async def outlast(service: Service, *arguments: str) -> str:
    """What the command line prints."""
    command = (sys.executable, "-m", "outlast.cli", *arguments, "--url", service.api_url)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


@pytest.mark.parametrize("calls", [25, pytest.param(100, marks=pytest.mark.thorough)])
async def test_calls_racing_for_a_cap_overspend_nothing(
    capped_api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox, calls: int
) -> None:
    before = sandbox.counters["startsAccepted"]
    call = with_budget(sleeper_call(600), "0.01")
    tasks = await asyncio.gather(*(started(capped_api, call, **RACER) for _ in range(calls)))

    undecided, running = list(tasks), list[dict[str, Any]]()

    async def decided() -> bool:
        """One by one: asking again and again for all costs the servers more than deciding does."""
        while undecided:
            task = (await capped_api.get(f"/v1/tasks/{undecided[-1]}", headers=RACER)).json()
            if task["status"] == "working" and not task["run"]:
                return False
            running.extend([task] if task["status"] == "working" else [])
            undecided.pop()
        return True

    await eventually(decided)
    assert len(running) == 5
    assert sandbox.counters["startsAccepted"] - before == 5
    limits = [sandbox.run(task["run"]["run_id"])["options"]["maxTotalChargeUsd"] for task in running]
    assert limits == [0.01] * 5
    assert (await overview(temporal, "key:racer")).reserved_usd == Decimal("0.05")
    # What is cancelled is settled with what it has cost, and the rest is given back.
    for task in running:
        await capped_api.post(f"/v1/tasks/{task['id']}/cancel", headers=RACER)
    for task in running:
        await result_of(capped_api, task["id"], **RACER)
    costs = [exact_usd(sandbox.run(task["run"]["run_id"])["usageTotalUsd"]) for task in running]
    ledger = await overview(temporal, "key:racer")
    assert (ledger.day.spent_usd, ledger.month.spent_usd, ledger.reserved_usd) == (sum(costs), sum(costs), 0)
    assert len(ledger.records) == 5


async def test_a_run_without_a_limit_gets_the_rest_of_the_caps_and_more_is_refused(
    capped_api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    answer = await completed(capped_api, sleeper_call(0), **SAVER)
    assert answer["task"]["run"]["options"]["maxTotalChargeUsd"] == 0.04
    assert answer["task"]["cost_usd"] == answer["task"]["run"]["usage_total_usd"] > 0
    # The cap of the task allows it, but the day has less left.
    first = exact_usd(answer["task"]["run"]["usage_total_usd"])
    running = await started(capped_api, with_budget(sleeper_call(600), "0.03"), **SAVER)

    async def begun() -> bool:
        return (await capped_api.get(f"/v1/tasks/{running}", headers=SAVER)).json()["run"] is not None

    await eventually(begun)
    before = sandbox.counters["startsAccepted"]
    for budget, cap in (("0.05", "cap per task of 0.04"), ("0.035", "daily cap of 0.05")):
        refused = (await completed(capped_api, with_budget(sleeper_call(0), budget), **SAVER))["result"]["error"]
        # What another run has reserved may be free again when that has ended.
        assert (refused["category"], refused["retryable"]) == ("payment", cap.startswith("daily"))
        assert f"This may cost up to {budget} US dollars, and of the {cap} US dollars" in refused["message"]
    assert f"{Decimal('0.02') - first:f} are left" in refused["message"]
    assert "0.03 reserved by runs that have not ended" in refused["message"]
    assert "The cap resets at" in refused["message"]
    assert "00:00 UTC" in refused["message"]
    assert sandbox.counters["startsAccepted"] == before
    await capped_api.post(f"/v1/tasks/{running}/cancel", headers=SAVER)
    await result_of(capped_api, running, **SAVER)


async def test_a_run_that_cost_more_or_less_in_the_end_is_corrected(
    capped_api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    """The platform finalises usage after a run's end."""
    late, headers = Caller(id="key:late"), bearer("late-key-0123456789")
    run_id = (await completed(capped_api, sleeper_call(0), **RACER))["task"]["run"]["run_id"]
    first = exact_usd(sandbox.run(run_id)["usageTotalUsd"])
    sandbox.add_usage(run_id, 0.01)
    final = first + Decimal("0.01")
    ledgers = Ledgers(temporal, task_queue=TOOLS_TASK_QUEUE, check_after_seconds=1)
    for entry, usd in (("less", first), ("right", final), ("more", final + 1)):
        spend = Spend(entry_id=entry, tool="call-actor", actor="outlast/sleeper")
        await ledgers.settle(late, Settlement(spend=spend, cost_usd=usd, run_id=run_id))

    async def corrected() -> bool:
        return (await overview(temporal, "key:late")).day.spent_usd == 3 * final

    await eventually(corrected)
    report = (await capped_api.get("/v1/usage", headers=headers)).json()
    assert (report["total_usd"], report["rows"][0]["runs"]) == (float(3 * final), 3)
    assert report["caps"][0]["spent_usd"] == float(3 * final)
    costs = [record.cost_usd for record in (await overview(temporal, "key:late")).records]
    assert sorted(costs[3:]) == [Decimal(-1), Decimal("0.01")]


_ACTIVITY_COMPLETED = "activity_task_completed_event_attributes"


async def test_no_command_of_a_ledger_depends_on_the_time_of_its_tasks(temporal: Client) -> None:
    """In a workflow task after one that timed out, `workflow.now()` was seen to be that of the task before, and another
    one in its replay: the worker died in it, and the ledger could not go on."""
    ledgers = Ledgers(temporal, task_queue=TOOLS_TASK_QUEUE, check_after_seconds=1)
    caller = Caller(id="key:timeless")
    for number in range(3):
        spend = Spend(entry_id=f"run-{number}", tool="call-actor", actor="outlast/sleeper")
        await ledgers.settle(caller, Settlement(spend=spend, cost_usd=Decimal(1), run_id=f"nothing{number}"))
    handle = temporal.get_workflow_handle(ledger_id(caller.id))

    async def looked() -> bool:
        return any([event.HasField(_ACTIVITY_COMPLETED) async for event in handle.fetch_history_events()])

    await eventually(looked)
    history = with_stale_times(await handle.fetch_history())
    replayer = Replayer(workflows=[SpendLedgerWorkflow], plugins=[OutlastPlugin()], debug_mode=True)
    replayed = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    assert replayed.replay_failure is None, replayed.replay_failure


async def test_a_busy_ledger_looks_after_its_runs_too(
    capped_api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    """Records that are stored meanwhile do not put it off."""
    busy, small, batches = Caller(id="key:busy"), Decimal("0.000001"), 0
    run_id = (await completed(capped_api, sleeper_call(0), **SAVER))["task"]["run"]["run_id"]
    ledgers = Ledgers(temporal, task_queue=TOOLS_TASK_QUEUE, check_after_seconds=2)
    wrong = Settlement(spend=Spend(entry_id="wrong", actor="outlast/sleeper"), cost_usd=Decimal(7), run_id=run_id)
    await ledgers.settle(busy, wrong)
    final = exact_usd(sandbox.run(run_id)["usageTotalUsd"])

    async def corrected() -> bool:
        nonlocal batches
        batches += 1
        spends = [Spend(entry_id=f"{batches}-{number}", kind="model") for number in range(KEEP_AT)]
        await asyncio.gather(*(ledgers.settle(busy, Settlement(spend=one, cost_usd=small)) for one in spends))
        return (await overview(temporal, "key:busy")).day.spent_usd == final + batches * KEEP_AT * small

    await eventually(corrected)


async def test_calls_of_an_adapter_are_capped_and_booked_as_others(
    capped_api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    agent = bearer("agent-key-0123456789")

    async def call(call_id: str, usd: float) -> str:
        arguments = {"actor": "outlast/sleeper", "input": {"seconds": 0}, "callOptions": {"maxTotalChargeUsd": usd}}
        asked = {"type": "function_call", "call_id": call_id, "name": "call-actor", "arguments": json.dumps(arguments)}
        answer = await capped_api.post("/v1/adapters/openai-responses/calls", json={"message": [asked]}, headers=agent)
        assert answer.status_code == 200, answer.text
        return json.dumps(answer.json()["append"])

    assert "SUCCEEDED" in await call("first", 0.01)
    assert "SUCCEEDED" in await call("first", 0.01), "the same call again is the same task"
    assert "cap per task of 0.04 US dollars" in await call("second", 0.05)
    report = (await capped_api.get("/v1/usage", params={"by": ["tool", "actor"]}, headers=agent)).json()
    assert [(row["tool"], row["actor"], row["runs"]) for row in report["rows"]] == [
        ("call-actor", "outlast/sleeper", 1)
    ]
    assert report["total_usd"] > 0


async def test_usage_is_told_by_what_is_asked_for(capped_api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    async def usage(headers: dict[str, str], **params: Any) -> dict[str, Any]:
        answer = await capped_api.get("/v1/usage", params=params, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    call = with_budget(sleeper_call(0), "0.001")
    runs = [
        (await completed(capped_api, {**call, "session_id": "costs"}, **PAYER))["task"]["run"]["run_id"],
        (await completed(capped_api, call, **PAYER))["task"]["run"]["run_id"],
    ]
    costs = [exact_usd(sandbox.run(run)["usageTotalUsd"]) for run in runs]
    report = await usage(PAYER, by=["tool", "session", "payer"])
    assert report["total_usd"] == float(sum(costs))
    rows = {row["session"]: row for row in report["rows"]}
    assert (rows["costs"]["tool"], rows["costs"]["runs"], rows["costs"]["payer"]) == ("call-actor", 1, "operator")
    assert (rows["costs"]["cost_usd"], rows[None]["cost_usd"]) == tuple(map(float, costs))
    day = report["caps"][0]
    assert (day["cap"], day["cap_usd"], day["spent_usd"], day["reserved_usd"]) == ("day", 0.05, float(sum(costs)), 0)
    for chosen, total in (
        ({"session_id": "costs"}, costs[0]),
        ({"actor": "outlast/sleeper"}, sum(costs)),
        ({"tool": "get-actor-run"}, 0),
        ({"from": "2020-01-01", "to": "2020-01-31"}, 0),
    ):
        assert (await usage(PAYER, **chosen))["total_usd"] == float(total)
    table = await capped_api.get("/v1/usage?by=session", headers={**PAYER, "Accept": "text/csv"})
    assert table.headers["content-type"].startswith("text/csv")
    assert sorted(table.text.splitlines()) == sorted(
        ["session,runs,model_calls,cost_usd", f"costs,1,0,{costs[0]:f}", f",1,0,{costs[1]:f}"]
    )
    # Nobody but the operator sees what others spend.
    for other in ("*", "key:payer"):
        refused = await capped_api.get("/v1/usage", params={"caller": other}, headers=RACER)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:outlast:problem:usage-forbidden")
    assert (await usage(bearer("fresh-key-0123456789")))["rows"] == []
    wrong = await capped_api.get("/v1/usage?from=2026-02-01&to=2026-01-01", headers=PAYER)
    assert wrong.status_code == 400


async def test_the_operator_sees_what_all_spend_also_what_has_left_the_ledger(
    api: httpx.AsyncClient, temporal: Client, service: Service
) -> None:
    spends = [Spend(entry_id=f"entry-{number}", tool="call-actor", actor="a/b") for number in range(450)]
    ledgers = Ledgers(temporal, task_queue=TOOLS_TASK_QUEUE)
    hoarder = Caller(id="key:hoarder")
    # Each entry comes twice, as from an activity that is retried.
    for _ in range(2):
        await asyncio.gather(
            *(ledgers.settle(hoarder, Settlement(spend=spend, cost_usd=Decimal("0.01"))) for spend in spends)
        )

    async def stored() -> bool:
        return len((await overview(temporal, "key:hoarder")).records) < 200

    await eventually(stored)
    assert list((service.outputs / "usage").rglob("*.jsonl"))

    async def told() -> bool:
        rows = (await api.get("/v1/usage?by=caller&caller=*")).json()["rows"]
        return {"runs": 450, "cost_usd": 4.5} in [
            {"runs": row["runs"], "cost_usd": row["cost_usd"]} for row in rows if row["caller"] == "key:hoarder"
        ]

    await eventually(told)  # visibility lags behind
    printed = await outlast(service, "usage", "--caller", "key:hoarder", "--by", "actor", "--csv")
    assert printed.splitlines() == ["actor,runs,model_calls,cost_usd", "a/b,450,0,4.5"]
    shown = await outlast(service, "usage", "--caller", "key:hoarder", "--by", "actor")
    assert ["a/b", "450", "0", "4.5000"] in [line.split() for line in shown.splitlines()]
    assert (await overview(temporal, "key:hoarder")).day.spent_usd == Decimal("4.5")


async def test_who_gives_up_a_reservation_is_cancelled_and_not_failed(temporal: Client) -> None:
    """No worker serves the ledger, so the answer is waited for."""
    caller = Caller(id="key:patient")
    request = ReserveInput(spend=Spend(entry_id="entry", tool="call-actor"), caller=caller, caps=SpendingCaps())
    reserving = asyncio.create_task(Ledgers(temporal, task_queue="nobody-serves-it").reserve(request))
    ledger = temporal.get_workflow_handle(ledger_id(caller.id))

    async def begun() -> bool:
        with suppress(RPCError):
            return (await ledger.describe()).id == ledger_id(caller.id)
        return False

    await eventually(begun)
    reserving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reserving
    await ledger.terminate()


@pytest.fixture
async def generous_api(temporal: Client, service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """An API whose callers may spend a dollar a day."""
    settings = api_settings(service.sandbox, api_keys=KEYS, spending={"per_day_usd": 1}, store_url=str(service.outputs))
    async with serving_api(temporal, settings) as api:
        yield api


FRESH, LATE = bearer("fresh-key-0123456789"), bearer("late-key-0123456789")


async def test_a_call_without_a_budget_leaves_room_for_others_once_its_actor_is_known(
    generous_api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    runs = [(await completed(generous_api, sleeper_call(0), **FRESH))["task"]["run"] for _ in range(4)]
    assert [run["limit_basis"] for run in runs] == ["caps", "caps", "caps", "history"]
    assert runs[0]["options"]["maxTotalChargeUsd"] == 1
    assert (runs[3]["limit_usd"], runs[3]["options"]["maxTotalChargeUsd"]) == ("0.05", 0.05)
    # Several at once, of which the first would have reserved all there is.
    tasks = await asyncio.gather(*(started(generous_api, sleeper_call(600), **FRESH) for _ in range(3)))

    async def all_run() -> bool:
        seen = [(await generous_api.get(f"/v1/tasks/{task}", headers=FRESH)).json() for task in tasks]
        return all(task["status"] == "working" and task["run"] for task in seen)

    await eventually(all_run)
    assert (await overview(temporal, "key:fresh")).reserved_usd == Decimal("0.15")
    for task in tasks:
        await generous_api.post(f"/v1/tasks/{task}/cancel", headers=FRESH)
        await result_of(generous_api, task, **FRESH)


async def test_a_batch_waits_for_money_that_is_only_reserved(generous_api: httpx.AsyncClient) -> None:
    blocking = await started(generous_api, with_budget(sleeper_call(600), "0.9"), **LATE)

    async def begun_to_run() -> bool:
        return (await generous_api.get(f"/v1/tasks/{blocking}", headers=LATE)).json()["run"] is not None

    await eventually(begun_to_run)
    batch = await begun(generous_api, with_budget(sleepers(3, 0, concurrency=2), "0.2"), **LATE)

    async def waits() -> dict[str, Any]:
        seen = (await generous_api.get(f"/v1/batches/{batch}", headers=LATE)).json()
        assert "Waiting until other runs have ended" in (seen["status_message"] or ""), seen
        return seen

    waiting = await eventually(waits)
    assert (waiting["status"], waiting["failed"], waiting["stopped_by"]) == ("working", 0, None)
    assert "0.90 reserved by runs that have not ended" in waiting["status_message"]
    await generous_api.post(f"/v1/tasks/{blocking}/cancel", headers=LATE)
    done = await ended(generous_api, batch, **LATE)
    assert (done["status"], done["completed"], done["failed"], done["stopped_by"]) == ("completed", 3, 0, None)
