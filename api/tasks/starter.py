"""Starts the workflows of tasks, at once or queued behind the caller's other tasks."""

import hashlib
import json
import secrets
from contextlib import nullcontext

from temporalio.client import Client
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from outlast.activities.contracts import Caller
from outlast.activities.dispatch.contracts import QUEUED_START_DELAY
from outlast.api.access.limits.caller_slots import leave_body_slot
from outlast.api.access.limits.quotas import StoredBytes
from outlast.api.tasks.admission import AdmittedCall
from outlast.api.tasks.large_arguments import LargeArguments
from outlast.api.tasks.quick_calls import QuickCalls
from outlast.api.tasks.shares import TaskShares
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.session_starts import SessionStarts
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import CallRefused, TaskStatus
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.answers import RESTORE_TOOL


class TaskStarter:
    """Starts what admission let through."""

    def __init__(
        self,
        client: Client,
        arguments: LargeArguments,
        shares: TaskShares,
        sessions: SessionStarts,
        stored: StoredBytes,
        quick: QuickCalls,
        *,
        fair: bool,
    ) -> None:
        """Keep large inputs with `arguments`, queue the tasks beyond their callers' `shares`, begin `sessions`.

        What this process carries out itself is started with `quick`. Callers whose outputs are too large, by `stored`,
        start nothing. With `fair`, callers get equal shares of the workers.
        """
        self._stored = stored
        self._quick = quick
        self._client = client
        self._arguments = arguments
        self._shares = shares
        self._sessions = sessions
        self._fair = fair

    async def start(self, admitted: AdmittedCall, task_id: str) -> TaskStatus:
        """Start the task; whether it is `queued` or `working`.

        Raises `CallTooLarge`, `StorageFull`, `WorkflowAlreadyStartedError`, and `TooManyRequests` when the caller has
        too many tasks queued, or sessions.
        """
        call, summary = admitted.call, admitted.summary
        caller_id = call.caller.id
        if call.tool != RESTORE_TOOL:
            await self._stored.check(caller_id)
        light = await self._arguments.lighten(call, task_id)
        leave_body_slot()
        with temporal_errors():
            if call.session_id is not None:
                await self._sessions.ensure(caller_id, call.session_id)
            async with self._shares.placed(caller_id, task_id) as queued:
                status = TaskStatus.QUEUED if queued else TaskStatus.WORKING
                eager = self._quick.client if admitted.is_quick and not queued else None
                start = (eager or self._client).start_workflow(
                    ToolCallWorkflow.run,
                    light.call,
                    id=task_id,
                    task_queue=TOOLS_TASK_QUEUE,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    memo={memo.SUMMARY: summary},
                    search_attributes=search_attributes.of_task(
                        call,
                        summary,
                        light.references,
                        status=status,
                        reuse=admitted.reuse.digest if admitted.reuse else None,
                    ),
                    static_summary=f"{call.tool} for {caller_id}",
                    priority=Priority(fairness_key=caller_id[:64]) if self._fair else Priority.default,
                    request_eager_start=eager is not None,
                    start_delay=QUEUED_START_DELAY if queued else None,
                )
                with self._quick.reading_ahead(light.call, task_id) if eager else nullcontext():
                    await start
        return status

    def has_ended(self, caller_id: str, task_id: str) -> None:
        """A task that this process has started has ended, so that another one may begin."""
        self._shares.has_ended(caller_id, task_id)

    async def report_refused_call(self, caller_id: str, session_id: str, refused: CallRefused) -> None:
        """Report a call that did not become a task to its session. It stays refused when that fails."""
        await self._sessions.report_refused_call(caller_id, session_id, refused)


def task_id_of(caller: Caller, tool: str, idempotency_key: str | None) -> str:
    """The task's ID. With a key, it is a digest of caller and key, so that a repeated request finds the same task.

    Nothing of the key can be read. The digest is not keyed by the sealing ring: after a rotation, a repeated key would
    start, and pay for, a second task.
    """
    if idempotency_key is None:
        return f"{tool}-{secrets.token_hex(10)}"
    digest = hashlib.sha256(json.dumps([caller.id, idempotency_key]).encode()).hexdigest()
    return f"task-{digest[:32]}"
