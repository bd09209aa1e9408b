"""Has the run of an ended task go on, for a new task: a workflow that has ended cannot go on itself."""

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.contracts import Caller
from outlast.activities.runs.contracts import RunState, cost_of, has_money_left
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.errors import NotResurrectable, TaskNotFound
from outlast.api.tasks.admission import Admission
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.starter import TaskStarter
from outlast.api.temporal.errors import temporal_errors
from outlast.contracts.tasks import ResurrectRequest, Task
from outlast.worker.ended_runs import ended_call, taken_up
from outlast.workflows.contracts.tool_calls import ToolCall, changed_budget

_MOST_TRIES = 100
"""Tasks that may try to take up one life of a run, one after the other."""


@dataclass(frozen=True)
class Resurrections:
    """Starts tasks that go on with the runs of ended ones."""

    client: Client
    tasks: TaskClient
    admission: Admission
    starter: TaskStarter
    limits: CallerLimits
    audit: AuditLog

    async def resurrect(self, caller: Caller, task_id: str, request: ResurrectRequest) -> Task:
        """The task that goes on with the run of an ended one: another one with the same tool and arguments.

        Repeated, it gives the same task, unless that one could not have the run go on. Raises `TaskNotFound`,
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
                raise NotResurrectable(f"Task {task_id} has no run that could go on. Call {call.tool} again.")
            options = call.options.model_copy(
                update={
                    "budget": changed_budget(call.options.budget, request.budget),
                    "deadline_seconds": request.deadline_seconds or call.options.deadline_seconds,
                    # What was enough then is there already: the run would be stopped again at once.
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
            action.note(tool=call.tool, detail=f"goes on as {task.id}")
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
        raise NotResurrectable(f"{_MOST_TRIES} tasks have tried to have run {run.run_id} go on. Start another one.")

    async def _earlier(self, caller: Caller, run: RunState) -> AsyncIterator[tuple[str, Task | None]]:
        """Ids of tasks that take this life of the run up, with the task that does so already, if one does."""
        for number in range(1, _MOST_TRIES + 1):
            task_id = _task_id(caller, run, number)
            try:
                task = await self.tasks.describe(caller, task_id)
            except TaskNotFound:
                yield task_id, None
                return
            goes_on = task.run is not None and task.run.resurrections > run.resurrections
            if task.finished_at is None or goes_on:
                yield task_id, task
                return


def _check(run: RunState, call: ToolCall, *, is_forced: bool) -> None:
    """Raise `NotResurrectable` for a run of which it is known already that it cannot go on, or should not."""
    why = None
    if run.status == "SUCCEEDED":
        why = "it has succeeded"
    elif call.is_paid:
        why = "a payment that came with the call paid for it, and is spent"
    elif run.status == "FAILED" and run.exit_code is not None and not is_forced:
        why = f"it failed by itself, with exit code {run.exit_code}, and would again; `force` has it go on all the same"
    elif not has_money_left(run, call.options.budget):
        why = f"it has cost {cost_of(run)} US dollars, as much as it may: raise `budget.max_total_charge_usd`"
    if why is not None:
        raise NotResurrectable(f"Run {run.run_id} is not resurrected: {why}.")


def _task_id(caller: Caller, run: RunState, number: int) -> str:
    """The same for every request to have this life of the run go on."""
    life = [caller.id, run.run_id, run.resurrections, number]
    return f"task-{hashlib.sha256(json.dumps(life).encode()).hexdigest()[:32]}"
