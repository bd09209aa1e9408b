"""Resurrects the run of an ended task, for a new task, because an ended workflow cannot continue."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.contracts import Caller
from outlast.activities.runs.contracts import RunState, cost_of, has_money_left
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import NotResurrectable, TaskNotFound
from outlast.api.tasks.admission import Admission
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.starter import TaskStarter
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.visibility import derived_id
from outlast.contracts.tasks import ResurrectRequest, Task
from outlast.worker.ended_runs import ended_call, taken_up
from outlast.workflows.contracts.tool_calls import ToolCall, changed_budget

_MOST_TRIES = 100
"""Most tasks that may try to continue one attempt of a run, one after the other."""


@dataclass(frozen=True)
class Resurrections:
    """Starts tasks that continue the runs of ended tasks."""

    client: Client
    tasks: TaskClient
    admission: Admission
    starter: TaskStarter
    limits: CallerLimits
    audit: AuditLog

    async def resurrect(self, caller: Caller, task_id: str, request: ResurrectRequest) -> Task:
        """Start a task that continues the run of an ended task with the same tool and arguments.

        A repeated request gives the same task, unless that could not continue the run. Raises `TaskNotFound`,
        `NotResurrectable`, `InvalidCall`, and what `TaskStarter.start` raises.
        """
        async with self.audit.action(AuditEvent.TASK_RESURRECTED, caller, task=task_id) as action:
            description = await self.tasks.described(caller, task_id)
            if description.status is WorkflowExecutionStatus.RUNNING:
                raise NotResurrectable(f"Task {task_id} has not ended. Wait for its end, or cancel it first.")
            run = (await self.tasks.viewed(description)).run
            with temporal_errors():
                ended = await ended_call(self.client, description)
            call = ended.call
            if run is None:
                raise NotResurrectable(f"Task {task_id} has no run that could continue. Call {call.tool} again.")
            options = call.options.model_copy(
                update={
                    "budget": changed_budget(call.options.budget, request.budget),
                    "deadline_seconds": request.deadline_seconds or call.options.deadline_seconds,
                    # A stop condition that was met would stop the run again at once.
                    "until": None if run.until_met is not None else call.options.until,
                }
            )
            changes = {
                "budget": request.budget,
                "build": request.build,
                "memory_mbytes": request.memory_mbytes,
                "is_forced": request.force,
            }
            resurrects = taken_up(description, ended, run).model_copy(update=changes)
            again = call.model_copy(update={"options": options, "batch_id": None, "resurrects": resurrects})
            _check(run, again, is_forced=request.force)
            task = await self._start(caller, again, run)
            action.note(tool=call.tool, detail=f"continues as {task.id}")
            return task

    async def _start(self, caller: Caller, call: ToolCall, run: RunState) -> Task:
        admitted = await self.admission.admit_again(caller, call)
        async for task_id, earlier in self._earlier(caller, run):
            if earlier is not None:
                return earlier
            try:
                async with self.limits.awaited_slot(caller.id, "concurrent_starts"):
                    await self.starter.start(admitted, task_id)
            except WorkflowAlreadyStartedError:
                pass
            return await self.tasks.describe(caller, task_id)
        raise NotResurrectable(f"{_MOST_TRIES} tasks have tried to continue run {run.run_id}. Start another one.")

    async def _earlier(self, caller: Caller, run: RunState) -> AsyncIterator[tuple[str, Task | None]]:
        """Ids of tasks that continue this attempt of the run, with the task that does so already, if there is one."""
        for number in range(1, _MOST_TRIES + 1):
            task_id = derived_id("task", caller.id, run.run_id, run.resurrections, number)
            try:
                task = await self.tasks.describe(caller, task_id)
            except TaskNotFound:
                yield task_id, None
                return
            continues = task.run is not None and task.run.resurrections > run.resurrections
            if task.finished_at is None or continues:
                yield task_id, task
                return


def _check(run: RunState, call: ToolCall, *, is_forced: bool) -> None:
    """Raise `NotResurrectable` for a run that cannot or should not continue."""
    why = None
    if run.status == "SUCCEEDED":
        why = "it has succeeded"
    elif call.is_paid:
        why = "a payment that came with the call paid for it, and is spent"
    elif run.status == "FAILED" and run.exit_code is not None and not is_forced:
        why = f"it failed by itself, with exit code {run.exit_code}, and would fail again; `force` continues it anyway"
    elif not has_money_left(run, call.options.budget):
        why = f"it has cost {cost_of(run)} US dollars, as much as it may: raise `budget.max_total_charge_usd`"
    if why is not None:
        raise NotResurrectable(f"Run {run.run_id} is not resurrected: {why}.")
