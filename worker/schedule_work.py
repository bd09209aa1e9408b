"""Tasks and batches that schedules have started: awaited and cancelled as workflows."""

from decimal import Decimal

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.batches.contracts import BatchState, StopReason
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.object_store import OutputObjects
from outlast.activities.schedules.contracts import EndStatus, FiringEnd, Started
from outlast.activities.spending.ledger import Ledgers
from outlast.worker.ended_runs import abnormal, batch_outcome
from outlast.worker.item_tasks import WorkflowItemTasks
from outlast.workflows.batches.batch import BatchWorkflow
from outlast.workflows.batches.contracts import WANTED_STOPS, BatchOutcome, BatchStatus

_ENDS: dict[BatchStatus, EndStatus] = {BatchStatus.COMPLETED: "completed", BatchStatus.CANCELLED: "cancelled"}


class WorkflowWork:
    """See `outlast.activities.schedules.activities.StartedWork`."""

    def __init__(self, client: Client, objects: OutputObjects, ledgers: Ledgers) -> None:
        """Await workflows with `client`. Answers that are stored are in `objects`."""
        self._client = client
        self._tasks = WorkflowItemTasks(client, objects, ledgers)

    async def end_of(self, started: Started) -> FiringEnd:
        """Wait for its end and return it."""
        return await (self._end_of_batch(started) if started.kind == "batch" else self._end_of_task(started))

    async def cancel(self, started: Started) -> None:
        """Have it cancelled, unless it has ended."""
        await self._tasks.cancel(started.id)

    async def _end_of_task(self, started: Started) -> FiringEnd:
        outcome = await self._tasks.outcome(started.id)
        if outcome is None:
            return _gone(started)
        return FiringEnd(status=outcome.status, cost_usd=outcome.cost_usd or Decimal(0), error=outcome.error)

    async def _end_of_batch(self, started: Started) -> FiringEnd:
        handle = self._client.get_workflow_handle_for(BatchWorkflow.run, started.id)
        try:
            return _end_of(await batch_outcome(handle))
        except WorkflowFailureError as error:
            is_terminated = isinstance(error.cause, TerminatedError)
            if is_terminated and (await handle.describe()).status is not WorkflowExecutionStatus.TERMINATED:
                return await self._end_of_batch(started)  # It was stuck, and started again to end.
            envelope = abnormal(started.id, error)
            status: EndStatus = "cancelled" if envelope.category is ErrorCategory.CANCELLED else "failed"
            return FiringEnd(status=status, error=envelope)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return _gone(started)
            raise


def _end_of(outcome: BatchOutcome) -> FiringEnd:
    """A batch that stopped before its end counts as failed, unless its caller said when it has enough."""
    state = outcome.state
    status = "completed" if state.stop in WANTED_STOPS else _ENDS.get(outcome.status, "failed")
    error = None
    if status == "failed":
        words = f"The batch stopped: {state.stop_words or 'its workflow did not say why'}."
        error = ErrorEnvelope.permanent(_category_of(state), "", words)
    return FiringEnd(status=status, cost_usd=state.cost_usd, error=error)


def _category_of(state: BatchState) -> ErrorCategory:
    """The reason why a batch stopped, as the error of one call."""
    if state.stop is StopReason.MONEY:
        return ErrorCategory.PAYMENT
    words = state.stop_words or ""
    return next((category for category in ErrorCategory if f"`{category}`" in words), ErrorCategory.UNKNOWN)


def _gone(started: Started) -> FiringEnd:
    message = f"The {started.kind} {started.id} is no longer known: Temporal's retention is over, or it was deleted."
    return FiringEnd(status="failed", error=ErrorEnvelope.permanent(ErrorCategory.NOT_FOUND, "", message))
