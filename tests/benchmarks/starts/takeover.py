"""`kill -9` of the only worker while it follows runs: how long each of them has nobody that follows it."""

import asyncio
import math
import os
import signal
import statistics
import time
from datetime import UTC
from uuid import uuid4

from temporalio.client import WorkflowExecution

from outlast.deploy.local.config import Component
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import System, running_system
from tests.support.eventually import eventually

_RUNS = 50
_KILLS = 6
_SLEEPER = "outlast/sleeper"
_FOLLOWED = "ExecutionStatus = 'Running' AND OutlastRunId IS NOT NULL"


async def measure_takeover() -> Finding:
    """Kill the worker again and again. The Temporal server says when each run was followed again."""
    async with running_system(in_process=(_SLEEPER,), runs_at_once=_RUNS) as system:
        await _start_runs(system)
        await eventually(lambda: _followed_since(system, 0))
        gaps: list[float] = []
        for _ in range(_KILLS):
            killed_at = time.time()
            os.kill(_worker(system), signal.SIGKILL)
            since = await eventually(lambda killed_at=killed_at: _followed_since(system, killed_at), 120)
            gaps.extend(at - killed_at for at in since)
        counters = await system.sandbox_counters()
    figures = (
        Figure("runs followed by the killed worker", _RUNS, "runs"),
        Figure("until a run is followed again, median", statistics.median(gaps), "s"),
        Figure("the same, 95th percentile", sorted(gaps)[math.ceil(len(gaps) * 0.95) - 1], "s", Target("at most", 5)),
        Figure("the same, longest", max(gaps), "s"),
        Figure("runs started", counters["startsAccepted"], "runs", Target("exactly", _RUNS)),
    )
    return Finding("takeover", figures, {"kills": _KILLS, "heartbeat_timeout_seconds": 60})


async def _start_runs(system: System) -> None:
    body = {"arguments": {"actor": _SLEEPER, "input": {"seconds": 900, "steps": 1}, "callOptions": {"memory": 128}}}
    async with system.caller() as caller:
        for _ in range(_RUNS):
            status, answer = await caller.post("/v1/tasks", {"tool": "call-actor", **body}, idempotency_key=uuid4().hex)
            assert status == 201, answer


def _worker(system: System) -> int:
    pid = system.stack.pid(Component.WORKER)
    assert pid is not None
    return pid


async def _followed_since(system: System, moment: float) -> list[float]:
    """When the present attempts to follow the runs have begun: all of them after `moment`."""
    found = [execution async for execution in system.temporal.list_workflows(_FOLLOWED)]
    assert len(found) == _RUNS
    begun = await asyncio.gather(*(_follower_began(system, execution) for execution in found))
    assert all(at is not None and at > moment for at in begun)
    return [at for at in begun if at is not None]


async def _follower_began(system: System, execution: WorkflowExecution) -> float | None:
    described = await system.temporal.get_workflow_handle(execution.id, run_id=execution.run_id).describe()
    for pending in described.raw_description.pending_activities:
        if pending.activity_type.name == "wait_for_run" and pending.HasField("last_started_time"):
            return pending.last_started_time.ToDatetime(tzinfo=UTC).timestamp()
    return None
