"""DispatchWorkflow: releases the queued tasks of one caller. It lives for as long as there are any."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.dispatch.activities import (
        DISPATCH_ATTEMPT_TIMEOUT,
        DISPATCH_HEARTBEAT_TIMEOUT,
        DISPATCH_RETRY_POLICY,
        DispatchActivities,
    )

from outlast.activities.dispatch.contracts import (
    DISPATCH_WORKFLOW,
    LOOK_SIGNAL,
    NOTHING_TO_RELEASE_WORKFLOW,
    RELEASE_SIGNAL,
    DispatchInput,
)
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE


@workflow.defn(name=DISPATCH_WORKFLOW)
class DispatchWorkflow:
    """One per caller. The API starts or signals it before it queues a task."""

    @workflow.init
    def __init__(self, request: DispatchInput) -> None:
        """Release according to `request`, until a later one arrives."""
        self._request = request
        self._signalled = False

    @workflow.signal(name=LOOK_SIGNAL)
    def look(self, request: DispatchInput) -> None:
        """A task may be queued; from now on, `request` holds."""
        self._request = request
        self._signalled = True

    @workflow.run
    async def run(self, _request: DispatchInput) -> None:
        """Release tasks, round by round, until none has been queued for a while."""
        while True:
            self._signalled = False
            may_end = await workflow.execute_activity_method(
                DispatchActivities.release_queued,
                self._request,
                task_queue=RUNS_TASK_QUEUE,
                start_to_close_timeout=DISPATCH_ATTEMPT_TIMEOUT,
                heartbeat_timeout=DISPATCH_HEARTBEAT_TIMEOUT,
                retry_policy=DISPATCH_RETRY_POLICY,
                summary=f"{self._request.share} tasks of {self._request.caller_id} at once",
            )
            if may_end and not self._signalled:
                return
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._request)


@workflow.defn(name=NOTHING_TO_RELEASE_WORKFLOW)
class NothingToRelease:
    """Workflow that a release starts under the task's id if the task no longer exists."""

    @workflow.signal(name=RELEASE_SIGNAL)
    def release(self) -> None:
        """There is nothing to do."""

    @workflow.run
    async def run(self) -> None:
        """End at once."""
