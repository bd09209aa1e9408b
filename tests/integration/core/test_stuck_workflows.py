"""Every type of workflow can be stuck: it is found, its caller is told, and what it had started ends.

Workflows are made to fail as they may in use: by a signal without its argument, by a result of an activity that is of
another version, by an input that cannot be read. All of them then fail in the same step again and again.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from outlast.activities.contracts import Caller
from outlast.activities.dispatch.contracts import (
    DISPATCH_WORKFLOW,
    NOTHING_TO_RELEASE_WORKFLOW,
    dispatch_workflow_id,
)
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.spending import ledger
from outlast.activities.spending.contracts import (
    LEDGER_WORKFLOW,
    SETTLE_SIGNAL,
    ReserveInput,
    Spend,
    SpendingCaps,
    ledger_id,
)
from outlast.activities.stuck_tasks.contracts import END_STUCK, REMEDIES, end_stuck_id
from outlast.activities.webhooks.contracts import (
    DISABLE_SIGNAL,
    ENQUEUE_SIGNAL,
    QUEUE_WORKFLOW,
    SUBSCRIPTIONS_WORKFLOW,
    queue_id,
    subscriptions_id,
)
from outlast.activities.webhooks.contracts import SETTLE_SIGNAL as SETTLE_DELIVERY_SIGNAL
from outlast.api.health import check_stuck
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import turn_workflow_id
from tests.support.calls import batches, schedules
from tests.support.calls.tasks import OF_ANOTHER_VERSION, completed, events, poison, result_of, sleeper_call, started
from tests.support.calls.turns import new_session, sent, streamed
from tests.support.calls.webhooks import delivery_of, received, subscribed
from tests.support.eventually import eventually
from tests.support.http.webhooks import WebhookReceiver, receiving_webhooks
from tests.support.providers.script import Hold, in_order, says
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture, temporal_fixture
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

pytestmark = pytest.mark.slow

ANN, BOB, CAP = "ann-has-this-long-key", "bob-has-another-long-key", "cap-has-one-more-long-key"
POLICY = """
[callers."key:cap".spending]
per_day_usd = 1000

[callers."key:bob".limits]
concurrent_tasks = 1
"""
TERMINATED = WorkflowExecutionStatus.TERMINATED

service = service_fixture(
    scope="module",
    tools=["tests.support.tools.batch_tools", "tests.support.tools.protocol_tools"],
    callers={"ann": ANN, "bob": BOB, "cap": CAP},
    settings_from="further",
    settings={
        "OUTLAST_STUCK_ATTEMPTS": "2",
        "OUTLAST_STUCK_AFTER_SECONDS": "1",
        "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
        "OUTLAST_WEBHOOK_FIRST_PAUSE_SECONDS": "0.2",
        "OUTLAST_RESERVATION_CHECK_SECONDS": "1",
    },
)
provider = provider_fixture()
sandbox = sandbox_fixture()
api = http_fixture(ANN)
bob = http_fixture(BOB)
cap = http_fixture(CAP)
temporal = temporal_fixture()


@pytest.fixture(scope="module")
def further(tmp_path_factory: pytest.TempPathFactory, provider: ProviderServer) -> dict[str, str]:
    """One caller has a spending limit, another one a share of one task; models are scripted."""
    file = tmp_path_factory.mktemp("policy") / "policy.toml"
    file.write_text(POLICY)
    return {"OUTLAST_POLICY_FILE": str(file), **provider.environment}


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with receiving_webhooks() as running:
        yield running


@pytest.fixture(autouse=True)
async def none_left(api: httpx.AsyncClient) -> AsyncIterator[None]:
    """Webhooks of one test receive nothing of the next."""
    yield
    for webhook in (await api.get("/v1/webhooks")).json()["webhooks"]:
        await api.delete(f"/v1/webhooks/{webhook['id']}")


async def status_of(temporal: Client, workflow_id: str, run_id: str | None = None) -> WorkflowExecutionStatus | None:
    return (await temporal.get_workflow_handle(workflow_id, run_id=run_id).describe()).status


async def restarted(temporal: Client, workflow_id: str, run_id: str | None) -> bool:
    """Whether another run of the workflow has taken the place of a stuck one."""
    description = await temporal.get_workflow_handle(workflow_id).describe()
    return description.run_id != run_id and description.status is WorkflowExecutionStatus.RUNNING


async def run_of(temporal: Client, workflow_id: str) -> str | None:
    return (await temporal.get_workflow_handle(workflow_id).describe()).run_id


async def is_dealt_with(temporal: Client, workflow_id: str) -> bool:
    """Whether the workflow that deals with a stuck one has ended."""
    with suppress(RPCError):
        return await status_of(temporal, end_stuck_id(workflow_id)) is WorkflowExecutionStatus.COMPLETED
    return False


async def metrics_of(service: Service) -> str:
    async with httpx.AsyncClient(trust_env=False, timeout=180) as http:
        return (await http.get(service.worker_metrics_url)).text


def series(metrics: str, name: str, *labels: str) -> list[float]:
    lines = (line for line in metrics.splitlines() if line.startswith(f"{name}{{"))
    return [float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in labels)]


async def test_workflows_of_every_type_whose_input_cannot_be_read_are_found_and_ended(
    service: Service, temporal: Client
) -> None:
    names = {kind: f"unreadable-{kind}" for kind in REMEDIES if kind != NOTHING_TO_RELEASE_WORKFLOW}
    for kind, name in names.items():
        await temporal.start_workflow(kind, OF_ANOTHER_VERSION, id=name, task_queue=TOOLS_TASK_QUEUE)

    counted: set[str] = set()

    async def all_are_counted() -> bool:
        """Each at some time: the first may have ended before the last one is found."""
        metrics = await metrics_of(service)
        counted.update(kind for kind in names if series(metrics, "outlast_stuck_workflows", f'"{kind}"') == [1.0])
        return counted == names.keys()

    async def all_have_ended() -> bool:
        ended = {kind for kind, name in names.items() if await status_of(temporal, name) is TERMINATED}
        return ended == names.keys() - {LEDGER_WORKFLOW}

    await eventually(all_are_counted)
    await eventually(all_have_ended)
    for name in (name for kind, name in names.items() if kind != END_STUCK):
        await eventually(lambda name=name: is_dealt_with(temporal, name))
    await temporal.get_workflow_handle(names[LEDGER_WORKFLOW]).terminate()


async def test_a_stuck_batch_stops_with_the_reason_and_can_be_resumed(
    api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox, receiver: WebhookReceiver
) -> None:
    await subscribed(api, receiver.url, "batch.completed")
    before = len(sandbox.counters["operations"])
    batch_id = await batches.begun(api, batches.sleepers(3, 8, concurrency=1))
    await eventually(lambda: len(sandbox.counters["operations"]) > before)
    await poison(temporal, batch_id, "carry_on_batch")
    batch = await batches.ended(api, batch_id)
    assert (batch["status"], batch["stopped_by"]) == ("stopped", "defect")
    assert "it could not continue: a step of its workflow failed" in batch["status_message"]
    assert "resume the batch" in batch["status_message"]
    assert batch["completed"] == 1, "the item under way was awaited"
    assert (await received(receiver, batch_id, "batch.completed")).body["data"]["status"] == "stopped"
    assert (await api.post(f"/v1/batches/{batch_id}/resume", json={"concurrency": 3})).status_code == 202
    resumed = await batches.ended(api, batch_id)
    assert (resumed["status"], resumed["completed"]) == ("completed", 3)
    assert len(await batches.rows_of(api, batch_id)) == 3
    assert len(sandbox.counters["operations"]) == before + 3, "no item was paid for twice"


async def test_an_item_that_is_stuck_fails_and_its_batch_continues(api: httpx.AsyncClient, temporal: Client) -> None:
    batch_id = await batches.begun(api, batches.sleepers(1, 600))

    async def item() -> str | None:
        listed = (await api.get("/v1/tasks", params={"batch_id": batch_id})).json()["tasks"]
        return listed[0]["id"] if listed else None

    await poison(temporal, await eventually(item), "wait_for_run")
    batch = await batches.ended(api, batch_id)
    assert (batch["status"], batch["failed"]) == ("completed", 1)
    (row,) = await batches.rows_of(api, batch_id)
    assert "could not continue: a step of its workflow has failed" in row["error"]["message"]


async def test_a_stuck_task_says_so_to_its_readers_and_webhooks_and_its_run_is_aborted(
    api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox, receiver: WebhookReceiver
) -> None:
    await subscribed(api, receiver.url, "task.failed")
    task_id = await started(api, sleeper_call(600))

    async def run() -> str | None:
        return ((await api.get(f"/v1/tasks/{task_id}")).json().get("run") or {}).get("run_id")

    run_id = await eventually(run)
    await poison(temporal, task_id, "wait_for_run")
    error = (await result_of(api, task_id))["result"]["error"]
    assert "could not continue: a step of its workflow has failed" in error["message"]
    (listed,) = (await api.get("/v1/tasks", params={"status": "failed", "page_size": 1})).json()["tasks"]
    assert (listed["id"], listed["status_message"]) == (task_id, error["message"])
    told = [event.data async for event in events(api, task_id) if event.name == "task_completed"]
    assert told[-1]["error"]["message"] == error["message"]
    event = (await received(receiver, task_id, "task.failed")).body["data"]
    assert (event["tool"], event["error"]["message"]) == ("call-actor", error["message"])
    await eventually(lambda: sandbox.run(run_id)["status"] == "ABORTED")


async def test_signals_do_not_keep_a_stuck_workflow_from_being_found(api: httpx.AsyncClient, temporal: Client) -> None:
    """Temporal counts the failures of its step from the beginning after each signal."""
    task_id = await started(api, sleeper_call(600))
    await poison(temporal, task_id, "wait_for_run")
    handle = temporal.get_workflow_handle(task_id)

    async def has_failed() -> bool:
        with suppress(RPCError):  # it has ended
            await handle.signal("of-another-version")
        return (await api.get(f"/v1/tasks/{task_id}")).json()["status"] == "failed"

    await eventually(has_failed, interval_seconds=0.5)


async def test_a_stuck_firing_fails_and_what_it_has_started_is_cancelled(
    api: httpx.AsyncClient, temporal: Client
) -> None:
    budget = {"budget_usd": 5}
    await schedules.scheduled(api, "nightly", call=sleeper_call(600), **budget)
    await schedules.triggered(api, "nightly")

    async def at_work() -> str | None:
        recent = (await schedules.seen(api, "nightly"))["recent"]
        return recent[0]["id"] if recent and recent[0].get("task_id") else None

    firing_id = await eventually(at_work)
    await poison(temporal, firing_id, "await_firing")
    (firing,) = await schedules.firings(api, "nightly", 1)
    assert firing["status"] == "failed"
    assert "could not continue: a step of its workflow has failed" in firing["error"]["message"]

    async def is_cancelled() -> bool:
        return (await api.get(f"/v1/tasks/{firing['task_id']}")).json()["status"] == "cancelled"

    await eventually(is_cancelled)

    async def is_paused() -> bool:
        schedule = await schedules.seen(api, "nightly")
        return "is not counted in the schedule's budget" in (schedule.get("paused_because") or "")

    await eventually(is_paused)


async def test_a_turn_that_is_stuck_fails_and_its_session_takes_the_next_message(
    api: httpx.AsyncClient, temporal: Client, provider: ProviderServer
) -> None:
    provider.script = in_order(says("Wait", Hold("stuck")), says("Well."))
    session = await new_session(api)
    seen: list[str] = []
    turn = error = ""
    async for event in streamed(api, session, "Hello?"):
        seen.append(event.name)
        if seen.count("text-delta") == 1 and event.name == "text-delta":
            turn = (await api.get(f"/v1/sessions/{session}")).json()["running"]
            await poison(temporal, turn_workflow_id("key:ann", session, turn), "call_model")
        error = event.data["message"] if event.name == "error" else error
    provider.gate("stuck").open()
    assert "could not continue: a step of its workflow has failed" in error
    shown = (await api.get(f"/v1/sessions/{session}/turns/{turn}")).json()
    assert (shown["status"], shown["error"]["message"]) == ("failed", error)
    assert (await sent(api, session, "And now?"))["text"] == "Well."


async def test_a_stuck_delivery_is_listed_with_the_reason_and_can_be_sent_again(
    api: httpx.AsyncClient, temporal: Client, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = 503
    await subscribed(api, receiver.url, "task.completed")
    task_id = (await completed(api, sleeper_call()))["task"]["id"]
    delivery = await delivery_of(api, task_id, "delivering")
    await temporal.get_workflow_handle(delivery["id"]).signal(SETTLE_DELIVERY_SIGNAL)
    lost = await delivery_of(api, task_id, "undelivered")
    assert "could not continue: a step of its workflow has failed" in lost["message"]
    shown = (await api.get(f"/v1/webhooks/deliveries/{delivery['id']}")).json()
    assert shown["message"] == lost["message"]
    receiver.otherwise = 200
    assert (await api.post(f"/v1/webhooks/deliveries/{delivery['id']}/replay")).status_code == 202
    await delivery_of(api, task_id, "delivered")


async def test_a_stuck_queue_of_events_and_the_webhooks_themselves_continue(
    api: httpx.AsyncClient, temporal: Client, service: Service, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = 503
    receiver.retry_after = "3600"
    webhook = await subscribed(api, receiver.url, "task.completed", batch_items=True)
    await batches.carried_out(api, batches.doubles(8))

    async def all_wait() -> bool:
        return ((await api.get(f"/v1/webhooks/{webhook['id']}")).json().get("backlog") or {}).get("events") == 8

    await eventually(all_wait)
    names = {queue_id("key:ann"): ENQUEUE_SIGNAL, subscriptions_id("key:ann"): DISABLE_SIGNAL}
    runs = {name: await run_of(temporal, name) for name in names}
    for name, signal in names.items():
        await temporal.get_workflow_handle(name).signal(signal)
    for name in names:
        await eventually(lambda name=name: restarted(temporal, name, runs[name]))
    receiver.otherwise = 200
    receiver.received.clear()
    assert (await api.patch(f"/v1/webhooks/{webhook['id']}", json={"url": f"{receiver.url}/new"})).is_success
    await eventually(lambda: len({one.headers["webhook-id"] for one in receiver.received}) == 8)

    async def is_counted() -> bool:
        metrics, name = await metrics_of(service), "outlast_stuck_workflows_ended_total"
        kinds = (QUEUE_WORKFLOW, SUBSCRIPTIONS_WORKFLOW)
        return all(series(metrics, name, f'"{kind}"', '"restarted"') == [1.0] for kind in kinds)

    await eventually(is_counted)


async def test_a_stuck_dispatcher_continues_to_release_queued_tasks(
    bob: httpx.AsyncClient, temporal: Client, service: Service, tmp_path: Path
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    calls = [{"tool": "watched", "arguments": {"folder": str(folder)}} for folder in folders]
    first, second = [await started(bob, call) for call in calls]
    name = dispatch_workflow_id("key:bob")
    run_id = await run_of(temporal, name)
    await poison(temporal, name, "release_queued")
    await eventually(lambda: restarted(temporal, name, run_id))
    assert (await bob.get(f"/v1/tasks/{second}")).json()["status"] == "queued"
    for folder in folders:
        (folder / "go").touch()
    assert [(await result_of(bob, one))["task"]["status"] for one in (first, second)] == ["completed"] * 2

    async def is_counted() -> bool:
        metrics, name = await metrics_of(service), "outlast_stuck_workflows_ended_total"
        return series(metrics, name, f'"{DISPATCH_WORKFLOW}"', '"restarted"') == [1.0]

    await eventually(is_counted)


async def test_a_ledger_that_read_a_bad_result_is_taken_back_to_before_it(
    cap: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    spent = (await completed(cap, sleeper_call()))["task"]["cost_usd"]
    name = ledger_id("key:cap")
    sandbox.order_fault("status", method="GET", path="/actor-runs/[^/]+$", status=503)
    run_id = await run_of(temporal, name)
    await poison(temporal, name, "read_charges")
    await eventually(lambda: restarted(temporal, name, run_id))
    sandbox.clear_faults()
    more = (await completed(cap, sleeper_call()))["task"]["cost_usd"]

    async def is_booked() -> bool:
        usage = (await cap.get("/v1/usage")).json()
        assert usage["total_usd"] == pytest.approx(spent + more)
        return True

    await eventually(is_booked)


async def test_a_ledger_that_stays_stuck_is_reported_and_its_callers_are_refused(
    cap: httpx.AsyncClient, temporal: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_PATIENCE_SECONDS", 2)
    caller = Caller(id="key:lost")
    ledgers = ledger.Ledgers(temporal, task_queue=TOOLS_TASK_QUEUE)
    request = ReserveInput(spend=Spend(entry_id="one"), caller=caller, caps=SpendingCaps(per_day_usd=1))
    await ledgers.reserve(request)
    handle = temporal.get_workflow_handle(ledger_id(caller.id))
    await handle.signal(SETTLE_SIGNAL)
    with pytest.raises(ToolFailure, match="spending ledger does not answer"):
        await ledgers.reserve(request.model_copy(update={"spend": Spend(entry_id="two")}))

    async def is_left() -> bool:
        found = series(await metrics_of(service), "outlast_stuck_workflows", f'"{LEDGER_WORKFLOW}"')
        return found == [1.0] and await is_dealt_with(temporal, ledger_id(caller.id))

    await eventually(is_left)
    row = await check_stuck(temporal)
    assert row.health == "fail"
    assert f"1 {LEDGER_WORKFLOW}; one is {ledger_id(caller.id)}" in row.finding
    await handle.terminate()

    async def is_gone() -> bool:
        assert series(await metrics_of(service), "outlast_stuck_workflows", f'"{LEDGER_WORKFLOW}"') == [0.0]
        return (await check_stuck(temporal)).health == "ok"

    await eventually(is_gone)
