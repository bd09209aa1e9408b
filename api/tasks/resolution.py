"""Resolves tasks of which it is unknown whether the tool was executed, by what a person found out."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.contracts import Caller
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import NotResolvable
from outlast.api.tasks.admission import Admission, AdmittedCall
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.starter import TaskStarter
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.resolutions import is_outcome_unknown
from outlast.api.temporal.visibility import derived_id
from outlast.contracts.tasks import ResolveRequest, Task
from outlast.worker.ended_runs import ended_call
from outlast.workflows.contracts.tool_calls import TaskResolution


@dataclass(frozen=True)
class Resolutions:
    """Records resolutions, and calls tools again."""

    client: Client
    tasks: TaskClient
    admission: Admission
    starter: TaskStarter
    limits: CallerLimits
    audit: AuditLog

    async def resolve(self, caller: Caller, task_id: str, request: ResolveRequest) -> Task:
        """Record what `caller` found out about its task, and return the task. A repeated request changes nothing.

        With `retry`, the tool is called again with the same arguments, by the current rules and limits, in the task
        that `resolution.task_id` names. Raises `TaskNotFound`, `NotResolvable`, `InvalidCall`, and what
        `TaskStarter.start` raises.
        """
        async with self.audit.action(AuditEvent.TASK_RESOLVED, caller, task=task_id) as action:
            action.note(detail=request.outcome)
            description = await self.tasks.described(caller, task_id)
            if description.status is WorkflowExecutionStatus.RUNNING:
                raise NotResolvable(f"Task {task_id} has not ended: its outcome is not known yet.")
            await self._check(task_id, request)
            again: AdmittedCall | None = None
            if request.outcome == "retry":
                with temporal_errors():
                    ended = await ended_call(self.client, description)
                again = await self.admission.admit_again(caller, ended.call)
            retry_id = derived_id("task", caller.id, task_id, "retry")
            wanted = TaskResolution(
                outcome=request.outcome,
                result=request.result,
                note=request.note,
                resolved_by=caller.id,
                resolved_at=datetime.now(UTC),
                task_id=retry_id if again is not None else None,
            )
            with temporal_errors():
                _check_same(task_id, await self.tasks.resolutions.record(task_id, wanted), request)
            if again is not None:
                await self._start(caller, again, retry_id)
            return await self.tasks.describe(caller, task_id)

    async def _check(self, task_id: str, request: ResolveRequest) -> None:
        """Raise `NotResolvable` for a task with a known outcome."""
        with temporal_errors():
            earlier = await self.tasks.resolutions.of(task_id)
        if earlier is not None:
            return _check_same(task_id, earlier, request)
        ended = await self.tasks.outcome_of(task_id)
        if not is_outcome_unknown(ended):
            raise NotResolvable(f"The outcome of task {task_id} is known: see its result.")
        return None

    async def _start(self, caller: Caller, again: AdmittedCall, task_id: str) -> None:
        with suppress(WorkflowAlreadyStartedError):  # by an earlier request
            async with self.limits.awaited_slot(caller.id, "concurrent_starts"):
                await self.starter.start(again, task_id)


def _check_same(task_id: str, recorded: TaskResolution | None, request: ResolveRequest) -> None:
    """Raise `NotResolvable` if another resolution was recorded first."""
    same = recorded is not None and (recorded.outcome, recorded.result) == (request.outcome, request.result)
    if recorded is not None and not same:
        at = recorded.resolved_at.isoformat(timespec="seconds")
        raise NotResolvable(
            f"Task {task_id} was resolved as `{recorded.outcome}` by {recorded.resolved_by} at {at}. "
            "A resolution is final."
        )
