"""The activity that ends a stuck task. What it had started is for the workflow that calls it to abort."""

import logging
from collections.abc import Sequence
from datetime import timedelta

from temporalio import activity
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import RetryPolicy, SearchAttributeKey

from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.stuck_tasks.assess import Stuck, assess
from outlast.activities.stuck_tasks.contracts import SESSION, EndStuckInput, StuckEnd, error_of_end
from outlast.activities.stuck_tasks.started_runs import StartedRuns

END_ATTEMPT_TIMEOUT = timedelta(minutes=1)
END_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))

_TOOL = SearchAttributeKey.for_keyword("OutlastTool")
_CALLER = SearchAttributeKey.for_keyword("OutlastCaller")
_SESSION = SearchAttributeKey.for_keyword("OutlastSession")
_log = logging.getLogger(__name__)


class StuckTaskActivities:
    """Ends workflows that cannot go on."""

    def __init__(self, client: Client) -> None:
        """End workflows of `client`'s namespace."""
        self._client = client

    @activity.defn
    async def end_stuck_task(self, request: EndStuckInput) -> StuckEnd:
        """Terminate the workflow if it is still stuck. Repeated after a lost answer, it gives the same answer."""
        with as_activity_failure():
            description, events, stuck = await assess(self._client, request.workflow_id, request.run_id, request.limits)
            tool = description.typed_search_attributes.get(_TOOL) or ""
            if stuck is not None:
                error = _error(tool, stuck, is_session=description.workflow_type == SESSION)
                handle = self._client.get_workflow_handle(request.workflow_id, run_id=request.run_id)
                await handle.terminate(error, reason=error.message)
                _count(description.workflow_type)
                _log.error("%s was ended: %s", request.workflow_id, error.message)
            else:
                found = await self._error_of_end(description, events)
                if found is None:
                    return StuckEnd()
                error = found
            return StuckEnd(
                error=error,
                tool=tool,
                caller_id=description.typed_search_attributes.get(_CALLER),
                session_id=description.typed_search_attributes.get(_SESSION),
                runs=await StartedRuns(description, self._client.data_converter).to_abort(events),
            )

    async def _error_of_end(
        self, description: WorkflowExecutionDescription, events: Sequence[HistoryEvent]
    ) -> ErrorEnvelope | None:
        """The error with which an earlier attempt ended the workflow; None when it was not ended here."""
        if description.status is not WorkflowExecutionStatus.TERMINATED:
            return None
        details = events[-1].workflow_execution_terminated_event_attributes.details.payloads
        return error_of_end(await self._client.data_converter.decode(details))


def _error(tool: str, stuck: Stuck, *, is_session: bool) -> ErrorEnvelope:
    message = (
        f"It could not go on: a step of its workflow has failed {stuck.attempts} times in {stuck.seconds / 60:.0f} "
        f"minutes ({stuck.reason}). It was ended"
    )
    report = "When it happens again, report it to the operators with the"
    if is_session:
        again = f"Begin another session. {report} session's id."
        return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, f"{message}.", hint=again)
    message = f"{message}, and the runs that it had started are aborted."
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, message, hint=f"Call again. {report} task's id.")


def _count(workflow_type: str) -> None:
    meter = activity.metric_meter()
    counter = meter.create_counter(
        "outlast_stuck_workflows_ended", "Tasks, turns, sessions ended because they were stuck."
    )
    counter.add(1, {"workflow": workflow_type})
