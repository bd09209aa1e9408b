"""Payments per call in the mode `apify`, under faults: taken once, for one call, and in the clear nowhere."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from temporalio.client import WorkflowHandle

from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError, text_of
from tests.support.paths import ROOT
from tests.support.stacks.api_server import connect
from tests.support.stacks.service import Service, settings_environment
from tests.support.x402_wallet import Wallet, header_of

START = r"/v2/act(or)?s/[^/]+/runs$"
CALL = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "steps": 2, "rows": 2}}
LONG = {"actor": "outlast/sleeper", "input": {"seconds": 300, "steps": 10}}


@pytest.fixture
def paying(http: httpx.AsyncClient) -> Wire:
    return Wire(http, MODERN, "?mode=apify&tools=actors,runs,storage&payment=x402")


def call(arguments: dict[str, Any], payment: dict[str, Any], name: str = "call-actor", **meta: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "_meta": {"x402/payment": payment, **meta}}


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # a database's journal, put away meanwhile
        return b""


@pytest.mark.parametrize("late_seconds", [0, 8], ids=["listed at once", "listed after the search"])
async def test_a_start_whose_answer_is_lost_is_paid_once(paying: Wire, service: Service, late_seconds: int) -> None:
    """The platform refuses the payment of the second start, and the run that the first one started is adopted."""
    wallet = Wallet()
    if late_seconds:
        service.sandbox.order_fault("late_runs", path="runs", seconds=late_seconds)
    service.sandbox.order_fault("drop_after", path=START, method="POST", times=1)
    try:
        answer = await paying.request("tools/call", call({**CALL, "waitSecs": 45}, wallet.payment()))
        assert [fault["hits"] for fault in service.sandbox.faults if fault["action"] == "drop_after"] == [1]
    finally:
        service.sandbox.clear_faults()
    assert answer["structuredContent"]["status"] == "SUCCEEDED", text_of(answer)
    assert service.sandbox.paid_runs(wallet.payer) == {answer["structuredContent"]["runId"]}


async def test_a_repeated_call_is_not_paid_again(paying: Wire, service: Service) -> None:
    first, second = Wallet(), Wallet()
    key = {"outlast/idempotency-key": "paid-once"}
    answers = [await paying.request("tools/call", call(CALL, each.payment(), **key)) for each in (first, second)]
    runs = [answer["structuredContent"]["runId"] for answer in answers]
    assert runs[0] == runs[1]
    assert (service.sandbox.paid_runs(first.payer), service.sandbox.paid_runs(second.payer)) == ({runs[0]}, set())


async def test_a_call_that_outlasts_its_wait_is_told_of_and_stopped_by_its_payer(
    paying: Wire, service: Service
) -> None:
    wallet = Wallet()
    begun = await paying.request("tools/call", call({**LONG, "waitSecs": 0}, wallet.payment()))
    run_id = begun["structuredContent"]["runId"]
    assert begun["structuredContent"]["status"] in ("READY", "RUNNING")
    strange = call({"runId": run_id}, Wallet().payment(), "abort-actor-run")
    assert (await paying.request("tools/call", strange))["isError"]
    aborting = call({"runId": run_id}, wallet.payment(), "abort-actor-run")
    assert (await paying.request("tools/call", aborting))["structuredContent"]["status"] == "ABORTED"
    assert service.sandbox.paid_runs(wallet.payer) == {run_id}


async def test_a_paid_call_that_is_a_task_can_be_cancelled(http: httpx.AsyncClient, service: Service) -> None:
    wire = Wire(http, LEGACY, "?mode=apify&tools=actors&payment=x402")
    await wire.initialize()
    with pytest.raises(WireError, match="requires an x402 payment") as unpaid:
        await wire.request("tools/call", {"name": "call-actor", "arguments": LONG, "task": {}})
    assert (unpaid.value.data or {})["accepts"]
    wallet = Wallet()
    task = (await wire.request("tools/call", {**call(LONG, wallet.payment()), "task": {}}))["task"]["taskId"]
    run_id = (await eventually(lambda: service.sandbox.paid_runs(wallet.payer))).pop()
    await wire.request("tasks/cancel", {"taskId": task})
    signature = header_of(wallet.payment())
    paid = {"x-apify-payment-protocol": "x402", "PAYMENT-SIGNATURE": signature}

    async def stopped() -> bool:
        async with httpx.AsyncClient(base_url=service.sandbox.url, headers=paid, timeout=180) as platform:
            return (await platform.get(f"/v2/actor-runs/{run_id}")).json()["data"]["status"] == "ABORTED"

    assert await eventually(stopped)


async def test_a_payment_is_found_nowhere(paying: Wire, service: Service) -> None:
    wallet, used = Wallet(), Wallet()
    payments = [wallet.payment(), used.payment()]
    answers = [await paying.request("tools/call", call(CALL, payment)) for payment in payments]
    answers.append(await paying.request("tools/call", call(CALL, payments[1])))
    answers.append(await paying.request("tools/call", call({"input": {}, "actor": "outlast/gone"}, payments[1])))
    assert [answer["isError"] for answer in answers] == [False, False, True, True]
    secrets = [text for payment in payments for text in (header_of(payment), payment["payload"]["signature"])]
    assert [each for each in secrets if each in json.dumps(answers)] == []
    temporal = await connect(service.temporal_address)
    tasks = [answer["_meta"]["outlast/taskId"] for answer in answers if "outlast/taskId" in answer["_meta"]]
    for task_id in tasks:
        task: WorkflowHandle[Any, Any] = temporal.get_workflow_handle(task_id)
        history = (await task.fetch_history()).to_json()
        assert [each for each in secrets if each in history] == []
    assert len(tasks) >= 3
    async with httpx.AsyncClient(trust_env=False, timeout=180) as metrics:
        told = [(await metrics.get(url)).text for url in (f"{service.api_url}/metrics", service.worker_metrics_url)]
    assert [each for each in secrets if any(each in text for text in told)] == []
    written = [path for path in service.folder.rglob("*") if path.is_file() and "sandbox" not in path.parts]
    assert written
    assert [path.name for path in written if any(each.encode() in content(path) for each in secrets)] == []


async def test_what_a_payment_bought_is_booked_as_paid_by_it(service: Service) -> None:
    async with service.http(service.sandbox.add_user("payer-of-calls").token) as http:
        wire = Wire(http, MODERN, "?mode=apify&tools=actors&payment=x402")
        await wire.request("tools/call", call(CALL, Wallet().payment()))

        async def is_booked() -> bool:
            rows = (await http.get("/v1/usage", params={"by": ["payer", "tool"]})).json()["rows"]
            return [(row["payer"], row["tool"], row["runs"]) for row in rows] == [("payment", "call-actor", 1)]

        await eventually(is_booked)


async def test_over_stdio_a_payment_comes_in_meta(service: Service, tmp_path: Path) -> None:
    """The client is the official one, which holds every structured answer against the tool's schema."""
    environment = settings_environment(service.temporal_address, service.sandbox, OUTLAST_DATA_DIR=str(tmp_path))
    command = ["-m", "tests.support.http.stdio_server", "mode=apify", "tools=actors", "payment=x402"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=ROOT)
    wallet = Wallet()
    async with Client(stdio_client(server), mode=MODERN) as mcp:
        unpaid = await mcp.call_tool("call-actor", CALL)
        assert unpaid.is_error
        assert unpaid.structured_content is not None
        assert unpaid.structured_content["accepts"]
        paid = await mcp.call_tool("call-actor", CALL, meta={"x402/payment": wallet.payment()})
    assert paid.structured_content is not None
    assert service.sandbox.paid_runs(wallet.payer) == {paid.structured_content["runId"]}
