"""Runs that a stuck task may have started, also without a record in its history."""

import json
from datetime import UTC

import pytest
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowExecutionDescription, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter

from outlast.activities.runs.contracts import AbortRunInput
from outlast.activities.stuck_tasks.activities import StartedRuns
from tests.histories.heartbeats import BEFORE, heartbeated

PROLONGED = BEFORE + 3
"""Events up to the start of the workflow task that goes on with a local start: a completed one is among them."""


@pytest.mark.parametrize(
    ("name", "events", "found"),
    [
        pytest.param("sync_call", BEFORE, True, id="its first task was never completed"),
        pytest.param("sync_call", PROLONGED, True, id="its first task was prolonged while it started the run"),
        pytest.param("dataset_items", PROLONGED, False, id="it calls no Actor"),
    ],
)
async def test_a_run_that_left_no_trace_is_looked_for(name: str, events: int, found: bool) -> None:
    runs = await to_abort(name, events)
    assert [(run.actor, run.run_id) for run in runs] == ([("outlast/sleeper", None)] if found else [])
    assert all(run.operation_id and run.since and run.since.tzinfo is UTC for run in runs)


async def test_a_run_that_left_its_result_is_aborted() -> None:
    [run] = await to_abort("sync_call", len(heartbeated("unreleased/sync_call")))
    assert run.run_id is not None


async def to_abort(name: str, events: int) -> tuple[AbortRunInput, ...]:
    """For the first events of a recorded history, whose first task was prolonged."""
    recorded = json.dumps({"events": heartbeated(f"unreleased/{name}")[:events]})
    history = WorkflowHistory.from_json("stuck", recorded)
    started = history.events[0].workflow_execution_started_event_attributes
    raw = DescribeWorkflowExecutionResponse()
    raw.workflow_execution_info.type.CopyFrom(started.workflow_type)
    raw.workflow_execution_info.search_attributes.CopyFrom(started.search_attributes)
    description = await WorkflowExecutionDescription._from_raw_description(  # pyright: ignore[reportPrivateUsage]
        raw, "default", pydantic_data_converter
    )
    return await StartedRuns(description, pydantic_data_converter).to_abort(history.events)
