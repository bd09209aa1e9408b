"""Drills: each alert is raised by breaking what it is about, and resolved by following its page.

A real Prometheus evaluates the rules that ship (`tests.support.stacks.drill_stack` says what differs: durations), and a
real Alertmanager gets them. The commands are those of the pages, so that a page cannot tell what does not work.
"""

import asyncio
import re
import resource
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import httpx
import pytest

from tests.support.calls.webhooks import subscribed
from tests.support.http.api_client import bearer
from tests.support.http.issuer import running_issuer
from tests.support.http.webhooks import receiving_webhooks
from tests.support.mcp.effects_setting import server_entry
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.stacks.drill_stack import POLICY, DrillStack, running_drill_stack, shipped_alerts, sooner
from tests.support.stacks.prometheus import SHIPPED, SHIPPED_CONFIG

pytestmark = pytest.mark.needs("prometheus-alertmanager")

STARTS = "temporal_activity_succeed_endtoend_latency_seconds"

Broken = Callable[[DrillStack], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Drill:
    """What is broken while the block of `broken` runs, and the alerts that tell; the page of the first is followed."""

    broken: Broken
    alerts: tuple[str, ...]
    thorough: bool


DRILLS: list[Drill] = []


def drill(*alerts: str, thorough: bool = True) -> Callable[[Callable[[DrillStack], AsyncGenerator[None]]], Broken]:
    """Of a function that breaks something, yields, and mends what is outside of the stack."""

    def add(function: Callable[[DrillStack], AsyncGenerator[None]]) -> Broken:
        broken = asynccontextmanager(function)
        DRILLS.append(Drill(broken, alerts, thorough))
        return broken

    return add


@asynccontextmanager
async def again_and_again(call: Callable[[], Awaitable[object]], pause_seconds: float = 0.2) -> AsyncIterator[None]:
    """Make requests while the block runs, whatever becomes of them."""

    async def forever() -> None:
        while True:
            with suppress(httpx.HTTPError):
                await call()
            await asyncio.sleep(pause_seconds)

    task = asyncio.create_task(forever())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@drill("OutlastNoWorkerPolling", thorough=False)
async def no_worker(field: DrillStack) -> AsyncGenerator[None]:
    field.stack.worker.kill()
    yield


@drill("OutlastTemporalUnreachable", "OutlastAnswersBurnFast", "OutlastAnswersBurnSlow")
async def no_temporal(field: DrillStack) -> AsyncGenerator[None]:
    field.stack.temporal.kill()
    async with again_and_again(lambda: field.chaos.http.get("/v1/tasks")):
        yield


@drill("OutlastPolicyNotRead")
async def wrong_policy(field: DrillStack) -> AsyncGenerator[None]:
    await field.write_policy(POLICY + "[defaults.spending]\nper_mouth_usd = 100\n")
    yield
    await field.write_policy(POLICY)


@drill("OutlastStoreErrors")
async def no_store(field: DrillStack) -> AsyncGenerator[None]:
    field.outputs.mkdir(exist_ok=True)
    field.outputs.rename(field.unmounted)
    field.outputs.write_text("not a folder")
    tasks = [await field.chaos.start(seconds=0, rows=500) for _ in range(4)]
    yield
    for task in tasks:
        await field.chaos.ended(task)


@drill("OutlastToolCallsFailing")
async def wrong_calls(field: DrillStack) -> AsyncGenerator[None]:
    async with again_and_again(lambda: field.chaos.start_call("get-actor-run", runId="Rn0tThereRn0tTher")):
        yield


@drill("OutlastLostStarts")
async def lost_answers(field: DrillStack) -> AsyncGenerator[None]:
    async def lose_one() -> None:
        field.stack.sandbox.order_fault("drop_after", method="POST", path="/runs$", times=1)
        await field.chaos.ended(await field.chaos.start(seconds=0))

    async with again_and_again(lose_one):
        yield
    field.stack.sandbox.clear_faults()


@drill("OutlastOpenTasksGrow")
async def many_tasks(field: DrillStack) -> AsyncGenerator[None]:
    async def five() -> None:
        for _ in range(5):
            await field.chaos.start(seconds=0)

    field.stack.worker.kill()
    async with again_and_again(five, 0.5):
        yield


@drill("OutlastQuickCallsBurnFast", "OutlastQuickCallsBurnSlow")
async def slow_worker(field: DrillStack) -> AsyncGenerator[None]:
    """A worker that has a fifth of a processor, and a hundred clients that wait for each answer."""
    worker = field.stack.worker

    async def throttle() -> None:
        worker.suspend()
        await asyncio.sleep(0.08)
        worker.resume()

    async def call() -> None:
        body = {"tool": "get-actor-run", "arguments": {"runId": "Rn0tThereRn0tTher"}}
        await field.chaos.post(body, wait=60)

    async with AsyncExitStack() as stack:
        stack.callback(worker.resume)
        await stack.enter_async_context(again_and_again(throttle, 0.02))
        for _ in range(100):
            await stack.enter_async_context(again_and_again(call, 0))
        yield


@drill("OutlastTasksWaitForWorkers")
async def backlog(field: DrillStack) -> AsyncGenerator[None]:
    """A worker that was away, and finds far more tasks than it takes at once (100): the last of them wait for long."""
    await field.write_policy(POLICY + "concurrent_tasks = 1000\n")
    field.stack.worker.kill()

    async def start_some() -> None:
        for _ in range(80):
            await field.chaos.start_call("get-actor-run", runId="Rn0tThereRn0tTher")

    await asyncio.gather(*(start_some() for _ in range(10)))
    field.stack.worker.start()
    yield


@drill("OutlastRunStartsBurnFast", "OutlastRunStartsBurnSlow")
async def late_starts(field: DrillStack) -> AsyncGenerator[None]:
    field.stack.sandbox.limit(concurrentRuns=0)
    first = await field.chaos.start(seconds=0)
    await field.chaos.until_message(first, "concurrent-runs-limit-exceeded")
    field.stack.sandbox.limit(concurrentRuns=25)
    await field.chaos.ended(first)  # a series begins with its first event
    await field.prometheus.reaches(f"{STARTS}_count{{activity_type='start_run'}}", 1)
    field.stack.sandbox.limit(concurrentRuns=0)
    tasks = [await field.chaos.start(seconds=0) for _ in range(3)]
    await asyncio.sleep(65)
    field.stack.sandbox.limit(concurrentRuns=25)
    yield
    for task in tasks:
        await field.chaos.ended(task)


@drill("OutlastAuditRecordsLost")
async def no_room_for_audit(field: DrillStack) -> AsyncGenerator[None]:
    process = field.stack.api.pid
    full = (field.audit.stat().st_size, resource.RLIM_INFINITY)
    resource.prlimit(process, resource.RLIMIT_FSIZE, full)
    async with again_and_again(lambda: field.chaos.start_call("get-actor-run", runId="Rn0tThereRn0tTher")):
        yield
        resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@drill("OutlastCallerNearLimit")
async def many_streams(field: DrillStack) -> AsyncGenerator[None]:
    task = await field.chaos.start(seconds=300)

    async def follow() -> None:
        async for _ in field.chaos.events(task):
            pass

    streams = [asyncio.create_task(follow()) for _ in range(10)]
    try:
        yield
    finally:
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    await field.chaos.cancel(task)
    await field.write_policy(POLICY)


@drill("OutlastSweepsBehind")
async def no_sweeps(field: DrillStack) -> AsyncGenerator[None]:
    await field.chaos.ended(await field.chaos.start(seconds=0, rows=500))
    await asyncio.to_thread(field.type, "temporal schedule toggle --schedule-id outlast-retention --pause")
    yield


@drill("OutlastSlotsUsedUp", "OutlastActivitiesWaitForWorkers")
async def few_slots(field: DrillStack) -> AsyncGenerator[None]:
    field.stack.sandbox.limit(memoryMbytes=1_000_000, concurrentRuns=100)
    tasks = [await field.chaos.start(seconds=number / 2) for number in range(60)]
    yield
    for task in tasks:
        await field.chaos.ended(task)


@drill("OutlastStickyCacheMisses")
async def small_cache(field: DrillStack) -> AsyncGenerator[None]:
    async def start_six() -> None:
        for _ in range(6):
            await field.chaos.start(seconds=1)

    field.settings.write_text("OUTLAST_CACHED_WORKFLOWS=2\n")
    await field.restart("worker")
    async with again_and_again(start_six, 0.5):
        yield
        await field.resolves("OutlastStickyCacheMisses")  # because of what was done, not for want of work


@drill("OutlastWorkflowTasksFail", "OutlastStuckTasksEnded")
async def code_that_fails(field: DrillStack) -> AsyncGenerator[None]:
    for _ in range(2):
        await field.chaos.start_call("spin")
    yield


@drill("OutlastStuckWorkflows")
async def stuck_ledger(field: DrillStack) -> AsyncGenerator[None]:
    what = "--type SpendLedgerWorkflow --task-queue outlast-tools --workflow-id spending:key:alice"
    await asyncio.to_thread(field.type, f"temporal workflow start {what} --input '\"of another version\"'")
    yield


@drill("OutlastExpiresSoon", thorough=False)
async def old_key(field: DrillStack) -> AsyncGenerator[None]:
    made = await asyncio.to_thread(field.type, "outlast keys create --caller nightly --id nightly-old --expires 3d")
    assert made.returncode == 0, made.stdout
    yield


@drill("OutlastIssuerUnreadable")
async def issuer_moved(field: DrillStack) -> AsyncGenerator[None]:
    gone, audience = f"http://127.0.0.1:{free_port()}", f"{field.stack.api_url}/mcp"
    async with running_issuer() as issuer:
        field.addresses.update({"https://old-login.example.com": gone, "https://login.example.com": issuer.url})
        field.settings.write_text(f"OUTLAST_OAUTH_ISSUER={gone}\nOUTLAST_OAUTH_AUDIENCE={audience}\n")
        await field.restart("api")

        async def asked() -> httpx.Response:
            return await field.chaos.http.get("/v1/providers", headers=bearer(issuer.token(audience, "outlast:read")))

        async with again_and_again(asked):
            yield
            await field.resolves("OutlastIssuerUnreadable")  # because of what was done, not for want of tokens
            assert (await asked()).is_success


@drill("OutlastHandoffsNearDeadline")
async def nobody_answers(field: DrillStack) -> AsyncGenerator[None]:
    await field.chaos.start_call("ask-briefly")
    yield


@drill("OutlastWebhooksFail")
async def receiver_away(field: DrillStack) -> AsyncGenerator[None]:
    gone = f"http://127.0.0.1:{free_port()}/events"
    webhook = await subscribed(field.chaos.http, gone, "task.failed")
    with receiving_webhooks() as receiver:
        field.addresses.update({"https://receiver.example.com/events": receiver.url, "webhook-ID": webhook["id"]})
        async with again_and_again(lambda: field.chaos.start_call("get-actor-run", runId="Rn0tThereRn0tTher")):
            yield
            await field.resolves("OutlastWebhooksFail")  # because events arrive, not for want of any
    await field.chaos.http.delete(f"/v1/webhooks/{webhook['id']}")


@drill("OutlastMcpServerDown")
async def wrong_program(field: DrillStack) -> AsyncGenerator[None]:
    field.addresses["/opt/notes/bin/notes"] = sys.executable
    field.write_servers(notes=server_entry("/opt/notes-1/bin/notes"))
    async with again_and_again(lambda: field.chaos.http.get("/v1/tools")):
        yield
        await field.resolves("OutlastMcpServerDown")  # because it answers, not because nobody uses it


@drill("OutlastMcpServerCrashes")
async def crashing_server(field: DrillStack) -> AsyncGenerator[None]:
    field.write_servers(notes=server_entry(version="2.1", session="call"))
    await field.chaos.http.get("/v1/tools")
    async with again_and_again(lambda: field.chaos.post({"tool": "notes__lines", "arguments": {}}, wait=60)):
        yield
        await field.resolves("OutlastMcpServerCrashes")  # because it no longer crashes, not for want of calls


@drill("OutlastMcpOutcomesUnknown")
async def lost_answer(field: DrillStack) -> AsyncGenerator[None]:
    field.write_servers(notes=server_entry(version="2.1"))
    await field.chaos.http.get("/v1/tools")
    await field.chaos.ended(await field.chaos.start_call("notes__append", text="a"))
    yield


@drill("OutlastSpendNearCap")
async def spent(field: DrillStack) -> AsyncGenerator[None]:
    await field.write_policy(POLICY + "[defaults.spending]\nper_day_usd = 0.5\n")
    task = await field.chaos.start(seconds=3)
    await field.chaos.until(lambda: bool(field.chaos.books.running))
    field.stack.sandbox.add_usage(field.chaos.books.running[0], 0.48)
    await field.chaos.ended(task)
    await field.chaos.ended(await field.chaos.start(seconds=0))
    yield


@drill("OutlastLedgerDiffers")
async def charged_later(field: DrillStack) -> AsyncGenerator[None]:
    task = await field.chaos.ended(await field.chaos.start(seconds=0))
    field.stack.sandbox.add_usage(task["run"]["run_id"], 5)
    yield


@drill("OutlastOrphanedRuns")
async def terminated_task(field: DrillStack) -> AsyncGenerator[None]:
    await field.write_policy(POLICY + "[defaults.spending]\nper_day_usd = 1000\n")
    task = await field.chaos.start(seconds=600, options={"budget": {"max_total_charge_usd": "1"}})
    await field.chaos.until(lambda: bool(field.chaos.books.running))
    await asyncio.to_thread(field.type, f"temporal workflow terminate --workflow-id {task}")
    yield


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrillStack]:
    settings = {
        "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
        "OUTLAST_QUICK_CALLS": "0",  # a slow worker makes no call slow that the API carries out itself
        "OUTLAST_RUN_SLOTS": "2",
        "OUTLAST_SWEEP_INTERVAL_SECONDS": "15",
        "OUTLAST_STUCK_AFTER_SECONDS": "3",
        "OUTLAST_STUCK_ATTEMPTS": "2",
        "OUTLAST_TOOLS_FROM": "tests.support.tools.poisonous_tools,tests.support.tools.brief_questions",
        "OUTLAST_RESERVATION_CHECK_SECONDS": "2",
    }
    with running_drill_stack(tmp_path_factory.mktemp("drills"), **settings) as field:
        yield field


@pytest.fixture
async def field(running: DrillStack) -> AsyncIterator[DrillStack]:
    await running.open()
    yield running
    await running.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "drill",
    [
        pytest.param(drill, id=drill.alerts[0], marks=[pytest.mark.thorough] if drill.thorough else [])
        for drill in DRILLS
    ],
)
async def test_an_alert_fires_when_the_thing_is_broken_and_its_page_mends_it(drill: Drill, field: DrillStack) -> None:
    await field.resolves(*drill.alerts)
    async with drill.broken(field):
        await field.fires(*drill.alerts)
        await field.follow(drill.alerts[0])
    await field.resolves(*drill.alerts)


def test_every_alert_has_one_drill() -> None:
    drilled = [alert for one in DRILLS for alert in one.alerts]
    assert sorted(drilled) == sorted(shipped_alerts())


def test_drills_change_nothing_of_the_rules_but_durations() -> None:
    shipped = (SHIPPED / "alerts.yml").read_text()
    durations = r"(?<=\[)\d+[smhd](?=\])|(?<=offset )\d+[smhd]|(?<=for: )\d+[smhd]"
    assert re.sub(durations, "T", sooner(shipped)) == re.sub(durations, "T", shipped)
    assert not re.findall(r"(?:\[|offset |for: )\d+[mhd]", sooner(shipped))


def test_the_configuration_of_alertmanager_is_valid() -> None:
    checked = subprocess.run(
        ["amtool", "check-config", str(SHIPPED_CONFIG)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
