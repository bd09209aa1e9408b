"""Quick reads and starts as local activities, on a real worker: what stays local, what a normal one takes over."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from outlast.activities.contracts import Caller, Contract, ErrorCategory
from outlast.activities.failures.classify import ToolFailure, as_activity_failure
from outlast.activities.local_reads import LocalReads
from outlast.activities.runs.contracts import RunSpec, RunState, StartRunInput
from outlast.activities.runs.starts import LocalStart
from outlast.workflows.contracts.search_attributes import ACTOR
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.activity_calls import RunStarts, read_quickly
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tool_call import ToolCallWorkflow
from tests.support.calls.tasks import completed, sleeper_call
from tests.support.stacks.sandbox import Sandbox

CALLER = Caller(id="local")
When = Literal["first", "repeated", "later"]
EVENTS_OF_FIRST_ATTEMPT = 3
"""Of a workflow that got no signal: started, its first task scheduled and begun."""


class Read(Contract):
    """One read on behalf of a caller. A local attempt waits, or fails with a category."""

    caller: Caller
    waits: bool = False
    fails_as: ErrorCategory | None = None


class Reads:
    """Reads that wait until all may go on."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    @activity.defn
    async def read(self, request: Read) -> str:
        """Which kind of activity made it."""
        with as_activity_failure():
            if activity.info().is_local:
                if request.waits:
                    await self.may_go_on.wait()
                if request.fails_as is not None:
                    retryable = request.fails_as is ErrorCategory.NETWORK
                    raise ToolFailure.of(request.fails_as, "It failed.", retryable=retryable)
            return "local" if activity.info().is_local else "normal"


@workflow.defn
class ReadsAtOnce:
    """Makes several reads at once; gives how each was made, or the category of its error."""

    @workflow.run
    async def run(self, reads: list[Read]) -> list[str]:
        return list(await asyncio.gather(*(self._made(read) for read in reads)))

    async def _made(self, read: Read) -> str:
        call = ToolCall(tool="read", caller=read.caller)
        try:
            return await read_quickly(call, Reads.read, read, summary="read it")
        except ToolError as error:
            return error.envelope.category.value


async def test_a_caller_whose_reads_hang_keeps_no_other_from_reading(temporal: Client) -> None:
    async with reading(temporal, slots=4) as (queue, reads):
        slow = await begun(temporal, queue, [Read(caller=Caller(id="slow"), waits=True)] * 3)
        quick = await begun(temporal, queue, [Read(caller=Caller(id="quick"))] * 2)
        assert await quick.result() == ["local", "local"]
        reads.may_go_on.set()
        made = await slow.result()
    assert made.count("normal") >= 1
    assert [ended for ended in await local_failures(slow) if "crowded" in ended] == [
        "A normal activity does this instead: crowded."
    ]


async def test_a_failure_that_passes_goes_over_and_another_one_is_the_answer(temporal: Client) -> None:
    nobody = Caller(id="somebody")
    async with reading(temporal, slots=8) as (queue, _):
        for category, answer in ((ErrorCategory.NETWORK, "normal"), (ErrorCategory.NOT_FOUND, "not_found")):
            handle = await begun(temporal, queue, [Read(caller=nobody, fails_as=category)])
            assert await handle.result() == [answer]
            assert await local_failures(handle) == ["It failed."]


async def test_a_worker_without_slots_for_them_reads_as_it_always_did(temporal: Client) -> None:
    async with reading(temporal, slots=0) as (queue, _):
        handle = await begun(temporal, queue, [Read(caller=Caller(id="somebody"))])
        assert await handle.result() == ["normal"]


async def test_rows_that_a_local_read_brought_stand_in_the_answer(
    api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    """They stand in the history once, in the local activity's marker: the result only refers to them."""
    sandbox.order_fault("status", status=500, method="GET", path="/items$", times=1)
    answer = await completed(api, sleeper_call(0.1, rows=20))
    assert [row["index"] for row in answer["result"]["structured"]["items"]] == list(range(20))
    outcome = await temporal.get_workflow_handle_for(ToolCallWorkflow.run, answer["task"]["id"]).result()
    assert outcome.rows is not None


@asynccontextmanager
async def reading(client: Client, *, slots: int) -> AsyncIterator[tuple[str, Reads]]:
    """A worker with so many slots for local reads, and its task queue."""
    reads, queue = Reads(), f"reads-{uuid.uuid4()}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[ReadsAtOnce],
        activities=[reads.read],
        interceptors=[LocalReads(slots)],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield queue, reads


async def begun(client: Client, queue: str, reads: list[Read]) -> WorkflowHandle[ReadsAtOnce, list[str]]:
    return await client.start_workflow(ReadsAtOnce.run, reads, id=f"reads-{uuid.uuid4()}", task_queue=queue)


async def local_failures(handle: WorkflowHandle[ReadsAtOnce, list[str]]) -> list[str]:
    """How local attempts ended that did not answer."""
    history = await handle.fetch_history()
    markers = [
        event.marker_recorded_event_attributes
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
    ]
    return [marker.failure.message for marker in markers if marker.HasField("failure")]


@workflow.defn
class StartsARun:
    """Starts a run in its first step, in the first attempt or in the second one; or in a later step."""

    @workflow.init
    def __init__(self, _when: When) -> None:
        self._starts = RunStarts(ToolCall(tool="call-actor", caller=CALLER))

    @workflow.run
    async def run(self, when: When) -> str:
        if when == "repeated" and workflow.info().get_current_history_length() <= EVENTS_OF_FIRST_ATTEMPT:
            raise RuntimeError("This attempt is lost.")
        if when == "later":
            await workflow.sleep(0.01)
        runs: list[RunState] = []
        request = StartRunInput(caller=CALLER, spec=RunSpec(actor="outlast/sleeper"), operation_id="one")
        await self._starts.start(request, runs.append)
        return runs[0].run_id


@pytest.mark.parametrize(
    ("when", "slots", "searched"),
    [
        pytest.param("first", 8, True, id="started, and not written down"),
        pytest.param("first", 0, False, id="no room"),
        pytest.param("repeated", 8, True, id="the attempt before may have started it"),
        pytest.param("repeated", 0, True, id="the attempt before may have started it, no room"),
        pytest.param("later", 8, False, id="no local start in a later step"),
    ],
)
async def test_a_run_is_looked_for_if_a_local_attempt_may_have_started_it(
    temporal: Client, when: When, slots: int, searched: bool
) -> None:
    normal: list[StartRunInput] = []

    @activity.defn(name="start_run")
    async def start_run(request: StartRunInput) -> Any:
        if request.local is not None:
            LocalStart(request.local).about_to_send()
            return object()  # What no converter takes, as when the key of the histories is not there.
        normal.append(request)
        return RunState(
            run_id="found", actor_id="sleeper", status="READY", dataset_id="rows", key_value_store_id="store"
        )

    queue = f"starts-{uuid.uuid4()}"
    async with Worker(
        temporal,
        task_queue=queue,
        workflows=[StartsARun],
        activities=[start_run],
        interceptors=[LocalReads(slots)],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        named = TypedSearchAttributes([SearchAttributePair(ACTOR, "outlast/sleeper")])
        handle = await temporal.start_workflow(
            StartsARun.run, when, id=queue, task_queue=queue, search_attributes=named
        )
        assert await handle.result() == "found"
    [request] = normal
    assert (request.may_have_begun_since is not None) == searched
    if when == "repeated":
        # The attempt before may have begun then, and its run may be as old.
        assert request.may_have_begun_since == (await handle.describe()).start_time
