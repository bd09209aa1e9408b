"""A cancellation that arrives while the end of a task is being told changes neither who is told, nor how it ended."""

import json
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from outlast.worker.connection import OutlastPlugin
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.extensions import load_extensions
from tests.histories.commands import HISTORIES

load_extensions(["docs.examples.hello_tools"])

Event = dict[str, Any]


def cancelled_before(name: str, kind: str) -> WorkflowHistory:
    """A recorded history in which the worker has seen a request to cancel before the first event of this kind."""
    recorded = json.loads((HISTORIES / "unreleased" / f"{name}.json").read_text())
    events: list[Event] = recorded["history"]["events"]
    place = next(at for at, event in enumerate(events) if event["eventType"] == f"EVENT_TYPE_{kind}")
    scheduled, started = str(place + 2), str(place + 3)
    parts: list[tuple[str, str, Event]] = [
        ("WORKFLOW_EXECUTION_CANCEL_REQUESTED", "workflowExecutionCancelRequested", {}),
        ("WORKFLOW_TASK_SCHEDULED", "workflowTaskScheduled", {"startToCloseTimeout": "10s", "attempt": 1}),
        ("WORKFLOW_TASK_STARTED", "workflowTaskStarted", {"scheduledEventId": scheduled}),
        (
            "WORKFLOW_TASK_COMPLETED",
            "workflowTaskCompleted",
            {"scheduledEventId": scheduled, "startedEventId": started},
        ),
    ]
    request = [
        {
            "eventId": str(place + number),
            "eventTime": events[place]["eventTime"],
            "eventType": f"EVENT_TYPE_{what}",
            f"{field}EventAttributes": attributes,
        }
        for number, (what, field, attributes) in enumerate(parts, start=1)
    ]
    after = [_later(event, beyond=place, by=len(request)) for event in events[place:]]
    together = {"events": [*events[:place], *request, *after]}
    return WorkflowHistory.from_json(recorded["workflow_id"], json.dumps(together))


def _later(part: Any, beyond: int, by: int) -> Any:
    """With the numbers of events after `beyond`, and of what refers to them, so much higher."""
    if isinstance(part, list):
        return [_later(one, beyond, by) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: _later(value, beyond, by) for key, value in part.items()}
    for key, value in found.items():
        if key.lower().endswith("eventid") and isinstance(value, str) and value.isdigit() and int(value) > beyond:
            found[key] = str(int(value) + by)
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param("sync_call", "EXTERNAL_WORKFLOW_EXECUTION_SIGNALED", id="the session of a call"),
        pytest.param("heard_call", "CHILD_WORKFLOW_EXECUTION_STARTED", id="webhooks of a call"),
        pytest.param("failed_run", "EXTERNAL_WORKFLOW_EXECUTION_SIGNALED", id="the session of a failed call"),
    ],
)
async def test_a_task_ends_as_it_has_ended_and_everybody_is_told(name: str, kind: str) -> None:
    replayer = Replayer(workflows=[ToolCallWorkflow], plugins=[OutlastPlugin()], debug_mode=True)
    result = await replayer.replay_workflow(cancelled_before(name, kind), raise_on_replay_failure=False)
    assert result.replay_failure is None, result.replay_failure
