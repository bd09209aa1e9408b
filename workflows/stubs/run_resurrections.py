"""How a run is resurrected: by an activity, whose result is known also when the call is cancelled meanwhile.

See docs/decisions/0031-resurrection.md.
"""

from collections.abc import Callable

from temporalio import workflow
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import START_ATTEMPT_TIMEOUT, START_HEARTBEAT_TIMEOUT, START_RETRY_POLICY
    from outlast.activities.runs.resurrection import RunResurrections

from outlast.activities.runs.contracts import ResurrectResult, ResurrectRunInput
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.deadline import remaining
from outlast.workflows.stubs.run_starts import outlasting_cancellation


async def resurrected(
    call: ToolCall, request: ResurrectRunInput, has_decided: Callable[[ResurrectResult], None]
) -> ResurrectResult:
    """Whether the run goes on; `has_decided` is called with it, also when the call is cancelled meanwhile.

    Raises `ActivityError`: then the run may go on all the same.
    """
    handle = workflow.start_activity_method(
        RunResurrections.resurrect_run,
        request,
        start_to_close_timeout=START_ATTEMPT_TIMEOUT,
        schedule_to_close_timeout=remaining(call),
        heartbeat_timeout=START_HEARTBEAT_TIMEOUT,
        retry_policy=START_RETRY_POLICY,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=f"resurrect run {request.run_id}",
    )
    result = await outlasting_cancellation(handle, has_decided, cancels=True)
    has_decided(result)
    return result
