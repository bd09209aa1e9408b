"""What a model of any provider is shown beside a call's answer."""

from datetime import UTC, datetime
from typing import Any

from outlast.api.adapters.model_calls import ModelCall, Outcome
from outlast.api.adapters.pieces import details
from outlast.api.contracts.tasks import Task
from outlast.api.tasks.still_working import still_working
from outlast.workflows.contracts.questions import Handoff, InputRequest
from outlast.workflows.contracts.tool_calls import TaskStatus


def test_a_call_that_waits_for_approval_shows_what_is_approved() -> None:
    parameters: dict[str, Any] = {
        "actor": "user/crawler",
        "arguments": {"startUrls": ["https://example.com"]},
        "budget": {"max_items": 5},
    }
    handoff = Handoff(kind="approval", tool="call-actor", phase="approval", parameters=parameters)
    task = Task(
        id="t-1",
        tool="call-actor",
        status=TaskStatus.INPUT_REQUIRED,
        mode="default",
        executor="sync",
        created_at=datetime.now(UTC),
        input_requests={"approval": InputRequest(message="Allow call-actor?", handoff=handoff)},
    )
    answer = still_working(task, run_report=False)

    shown: Any = details(Outcome(ModelCall("c-1", "call-actor", {}), "call-actor", answer, task, finished=False))

    assert shown["questions"]["approval"]["approve"] == {"tool": "call-actor", **parameters}
