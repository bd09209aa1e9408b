"""Starts the workflows of tasks, at once or queued behind the caller's other tasks."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from outlast.activities.dispatch.contracts import QUEUED_START_DELAY
from outlast.api.tasks.admission import AdmittedCall
from outlast.api.tasks.large_arguments import LargeArguments
from outlast.api.tasks.shares import TaskShares
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.session_starts import ensure_session, report_refused_call
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import SESSION_IDLE
from outlast.workflows.contracts.tool_calls import CallRefused, TaskStatus
from outlast.workflows.tool_call import ToolCallWorkflow


class TaskStarter:
    """Starts what admission let through."""

    def __init__(
        self,
        client: Client,
        arguments: LargeArguments,
        shares: TaskShares,
        *,
        fair: bool = False,
        session_idle: timedelta = SESSION_IDLE,
    ) -> None:
        """Keep large inputs with `arguments`, and queue the tasks beyond their callers' `shares`.

        With `fair`, callers get equal shares of the workers. A session that a call begins lives for `session_idle`
        without an event.
        """
        self._client = client
        self._arguments = arguments
        self._shares = shares
        self._fair = fair
        self._session_idle = session_idle

    async def start(self, admitted: AdmittedCall, task_id: str) -> TaskStatus:
        """Start the task; whether it is `queued` or `working`.

        Raises `CallTooLarge`, `TooManyRequests` when too many tasks are queued, and `WorkflowAlreadyStartedError`.
        """
        call, summary = admitted.call, admitted.summary
        caller_id = call.caller.id
        light = await self._arguments.lighten(call, task_id)
        with temporal_errors():
            if call.session_id is not None:
                await ensure_session(self._client, caller_id, call.session_id, idle=self._session_idle)
            async with self._shares.placed(caller_id, task_id) as queued:
                status = TaskStatus.QUEUED if queued else TaskStatus.WORKING
                await self._client.start_workflow(
                    ToolCallWorkflow.run,
                    light.call,
                    id=task_id,
                    task_queue=TOOLS_TASK_QUEUE,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    memo={memo.SUMMARY: summary},
                    search_attributes=search_attributes.of_task(call, summary, light.references, status=status),
                    static_summary=f"{call.tool} for {caller_id}",
                    priority=Priority(fairness_key=caller_id[:64]) if self._fair else Priority.default,
                    start_delay=QUEUED_START_DELAY if queued else None,
                )
        return status

    def has_ended(self, caller_id: str, task_id: str) -> None:
        """A task that this process has started has ended, so that another one may begin."""
        self._shares.has_ended(caller_id, task_id)

    async def report_refused_call(self, caller_id: str, session_id: str, refused: CallRefused) -> None:
        """Report a call that did not become a task to its session. It stays refused when that fails."""
        await report_refused_call(self._client, caller_id, session_id, refused, idle=self._session_idle)
