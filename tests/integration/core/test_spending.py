"""Spending caps: what a call may cost is reserved before its run starts, and settled when the run has ended."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.spending.contracts import LedgerOverview, exact_usd, ledger_id
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox

RACER, SAVER = bearer("racer-key-0123456789"), bearer("saver-key-0123456789")
KEYS = "racer:racer-key-0123456789,saver:saver-key-0123456789"


@pytest.fixture
async def capped_api(temporal: Client, sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    """An API whose callers may spend 5 cents a day, and 4 on one task."""
    settings = api_settings(sandbox, api_keys=KEYS, spending={"per_day_usd": 0.05, "per_task_usd": 0.04})
    async with serving_api(temporal, settings) as api:
        yield api


async def overview(temporal: Client, caller_id: str) -> LedgerOverview:
    return await temporal.get_workflow_handle(ledger_id(caller_id)).query("overview", result_type=LedgerOverview)


def with_budget(body: dict[str, Any], usd: str) -> dict[str, Any]:
    return {**body, "options": {"budget": {"max_total_charge_usd": usd}}}


async def test_a_hundred_calls_racing_for_a_cap_overspend_nothing(
    capped_api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    before = sandbox.counters["startsAccepted"]
    call = with_budget(sleeper_call(600), "0.01")
    tasks = await asyncio.gather(*(started(capped_api, call, **RACER) for _ in range(100)))

    async def decided() -> list[dict[str, Any]]:
        found = [(await capped_api.get(f"/v1/tasks/{task}", headers=RACER)).json() for task in tasks]
        running = [task for task in found if task["status"] == "working"]
        assert len(running) <= 5
        assert all(task["run"] for task in running)
        return running

    running = await eventually(decided)
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
    # The cap of the task allows it, but the day has less left.
    first = exact_usd(answer["task"]["run"]["usage_total_usd"])
    running = await started(capped_api, with_budget(sleeper_call(600), "0.03"), **SAVER)

    async def limited() -> dict[str, Any]:
        task = (await capped_api.get(f"/v1/tasks/{running}", headers=SAVER)).json()
        return task["run"]

    assert await eventually(limited)
    before = sandbox.counters["startsAccepted"]
    for budget, cap in (("0.05", "cap per task of 0.04"), ("0.035", "daily cap of 0.05")):
        refused = (await completed(capped_api, with_budget(sleeper_call(0), budget), **SAVER))["result"]["error"]
        assert (refused["category"], refused["retryable"]) == ("payment", False)
        assert f"This may cost up to {budget} US dollars, and of the {cap} US dollars" in refused["message"]
    assert f"{Decimal('0.02') - first:f} are left" in refused["message"]
    assert "0.03 reserved by runs that have not ended" in refused["message"]
    assert "The cap resets at" in refused["message"]
    assert "00:00 UTC" in refused["message"]
    assert sandbox.counters["startsAccepted"] == before
    await capped_api.post(f"/v1/tasks/{running}/cancel", headers=SAVER)
    await result_of(capped_api, running, **SAVER)
