"""Firings that come late: `catch_up_seconds`, what is started within it, and what is missed after it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.schedules.activities import FiringStartActivities
from outlast.activities.schedules.contracts import Due, FiringStart, StartFiringInput
from outlast.api.app import firings_of
from outlast.api.schedules.client import temporal_id_of
from outlast.api.services import Services
from outlast.workflows.contracts.queues import SCHEDULES_TASK_QUEUE, TOOLS_TASK_QUEUE
from outlast.workflows.schedules.contracts import FiringInput, FiringStatus, Timing
from outlast.workflows.schedules.firing import ScheduleFiringWorkflow
from tests.support.calls.schedules import scheduled
from tests.support.stacks.api_server import api_settings, connect
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service
from tests.support.stacks.temporal import running_temporal

LOCAL = Caller(id="local")
CALL = {"tool": "double", "arguments": {"number": 21}}


def due(firing_id: str, *, late_by: timedelta) -> StartFiringInput:
    """The request of a firing that could be started until `late_by` ago."""
    now = datetime.now(UTC)
    return StartFiringInput(
        schedule_id="late",
        tool="get-dataset-list",
        firing_id=firing_id,
        caller=LOCAL,
        due=Due(call={"tool": "get-dataset-list", "arguments": {"limit": 1}}),
        began_at=now - timedelta(hours=1) - late_by,
        not_after=now - late_by,
        times_until=datetime(2100, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize("seconds", [60, 3_600, 366 * 24 * 3_600])
async def test_temporal_catches_up_for_as_long_as_the_schedule_says(
    api: httpx.AsyncClient, temporal: Client, seconds: int
) -> None:
    name = f"catches-up-{seconds}"
    made = await scheduled(api, name, call=CALL, catch_up_seconds=seconds)
    assert made["catch_up_seconds"] == seconds
    described = await temporal.get_schedule_handle(temporal_id_of(LOCAL, name)).describe()
    assert described.schedule.policy.catchup_window == timedelta(seconds=seconds)


async def test_a_firing_is_started_until_its_last_moment_and_missed_after_it(
    sandbox: Sandbox, service: Service
) -> None:
    firings = firings_of(Services(api_settings(sandbox), await connect(service.temporal_address)))
    in_time = await firings.start(due("in-time", late_by=timedelta(minutes=-1)))
    assert in_time.started is not None, in_time
    missed = await firings.start(due("too-late", late_by=timedelta(seconds=1)))
    assert (missed.started, missed.is_late) == (None, True)
    assert missed.error is not None
    assert (missed.error.category, missed.error.retryable) == (ErrorCategory.TIMEOUT, False)
    assert "catch_up_seconds" in missed.error.message
    # An attempt after the last moment finds what one before it has started.
    again = await firings.start(due("in-time", late_by=timedelta(minutes=1)))
    assert (again.started, again.is_late) == (in_time.started, False)


class _LateStarter:
    """What an API process answers for a firing that it got too late."""

    def __init__(self) -> None:
        self.requests: list[StartFiringInput] = []

    async def start(self, request: StartFiringInput) -> FiringStart:
        self.requests.append(request)
        error = ErrorEnvelope.permanent(ErrorCategory.PERMISSION, request.tool, "It was due too long ago.")
        return FiringStart(error=error, is_late=True)


async def test_a_firing_that_was_too_late_ends_missed_and_pauses_nothing(tmp_path: Path) -> None:
    """A refused firing with the same error would pause its schedule."""
    starter = _LateStarter()
    order = FiringInput(
        schedule_id="late",
        temporal_id="schedule-late",
        caller=LOCAL,
        due=Due(call=CALL),
        tool="double",
        timing=Timing(cron=("0 0 29 2 *",), catch_up_seconds=90),
        created_at=datetime.now(UTC),
        fingerprint="0",
    )
    with running_temporal(tmp_path) as server:
        client = await connect(server.address)
        async with (
            Worker(client, task_queue=TOOLS_TASK_QUEUE, workflows=[ScheduleFiringWorkflow]),
            Worker(client, task_queue=SCHEDULES_TASK_QUEUE, activities=[FiringStartActivities(starter).start_firing]),
        ):
            handle = await client.start_workflow(
                ScheduleFiringWorkflow.run,
                order,
                id="late",
                task_queue=TOOLS_TASK_QUEUE,
                execution_timeout=timedelta(minutes=2),
            )
            outcome = await handle.result()
    assert outcome.status is FiringStatus.MISSED
    assert (outcome.started, outcome.cost_usd) == (None, 0)
    (request,) = starter.requests
    assert request.not_after - request.began_at == timedelta(seconds=90)
