"""ToolCallWorkflow: one durable tool call. It is the workflow behind both executors and every entry point."""

import asyncio
from collections.abc import Coroutine
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError, CancelledError, is_cancelled_exception

from outlast.activities.bounds import usd_flaw
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.dispatch.contracts import RELEASE_SIGNAL
from outlast.activities.failures.classify import ATTEMPTS_FAIL_SIGNAL
from outlast.activities.runs.contracts import RunState
from outlast.activities.webhooks.contracts import error_data, task_data
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.failed_tasks import failure_of
from outlast.workflows.contracts.questions import TASK_ASKS_SIGNAL, SubmitInput, TaskAsks
from outlast.workflows.contracts.sessions import TASK_COMPLETED_SIGNAL, session_workflow_id
from outlast.workflows.contracts.steps import JOURNAL_QUERY, STEP_SIGNAL, JournalPage, StepEntry
from outlast.workflows.contracts.tool_calls import (
    DEFECT_META,
    RUN_STOPPED_SIGNAL,
    RunStopped,
    TaskCompleted,
    TaskStatus,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from outlast.workflows.contracts.written_json import UnusableAnswer
from outlast.workflows.handler_api.context import Guarded, HandlerContext, signal_parent
from outlast.workflows.handler_api.failures import ToolError, defect
from outlast.workflows.handler_api.observability import Part, log_end, upsert_search_attributes
from outlast.workflows.metrics import count_tool_call
from outlast.workflows.signatures import signature
from outlast.workflows.tools.framework.changes import ToolChanged
from outlast.workflows.tools.framework.executors import describe_run
from outlast.workflows.tools.framework.middleware import run_handler
from outlast.workflows.tools.framework.results import with_changes
from outlast.workflows.tools.registry import UnknownTool, tells_changes, tool_for
from outlast.workflows.webhooks.announcing import TASK_ENDS, announce, subject_of

T = TypeVar("T")

INPUT_REFUSED = "input_refused"
"""Type of the failure of a refused update; its detail is the `ErrorEnvelope`."""


@workflow.defn
class ToolCallWorkflow:
    """Its id is the task's id. It ends when the handler has returned and no run of the call is still running."""

    @workflow.init
    def __init__(self, call: ToolCall) -> None:
        """Make the context before the first update can arrive."""
        self._ctx = HandlerContext(call)
        self._asked = call.arguments
        info = workflow.info()
        self._was_queued = info.typed_search_attributes.get(search_attributes.TASK_STATUS) == TaskStatus.QUEUED
        # `start_time` is when a worker took the first workflow task, `workflow_start_time` when the call was started.
        self._began_at = workflow.now() if self._was_queued else info.start_time
        self._due_at = self._began_at if self._was_queued else info.workflow_start_time
        self._seconds_on: dict[Part, float] = {"queue": (workflow.now() - info.workflow_start_time).total_seconds()}

    @workflow.signal(name=RELEASE_SIGNAL)
    def release(self) -> None:
        """Begin now: a signal ends the delay with which a queued task is started."""

    @workflow.signal(name=ATTEMPTS_FAIL_SIGNAL)
    def attempts_fail(self, words: str) -> None:
        """Show operators that one of its activities fails again and again."""
        self._ctx.say(words)

    @workflow.signal(name=STEP_SIGNAL)
    def record_step(self, entry: StepEntry) -> None:
        """Record the result of a step of the tool's function."""
        self._ctx.journal.record(entry)

    @workflow.signal(name=TASK_ASKS_SIGNAL)
    async def task_asks(self, asked: TaskAsks) -> None:
        """Show that a call of its function waits for an answer, here and in what called this tool."""
        text = next((question.message for question in asked.requests.values()), "")
        self._ctx.progress(
            0, message=f"The task {asked.task_id}, which this one started, needs an answer: {text}"[:500]
        )
        await signal_parent(asked)

    @workflow.signal(name=RUN_STOPPED_SIGNAL)
    def run_stopped(self, stopped: RunStopped) -> None:
        """A call of its function was cancelled; its cost counts."""
        self._ctx.inner_costs[stopped.task_id] = stopped.known_cost_usd

    @workflow.query(name=JOURNAL_QUERY)
    def journal(self, start: int) -> JournalPage:
        """Return the recorded steps from index `start` on, for a further attempt."""
        return self._ctx.journal.page(start)

    @workflow.update
    def submit_input(self, submitted: SubmitInput) -> None:
        """Record the client's answers to open questions."""
        self._ctx.questions.take(submitted)

    @submit_input.validator
    def validate_input(self, submitted: SubmitInput) -> None:
        """Reject answers that fit no open question, before anything is recorded."""
        refusal = self._ctx.questions.refuse(submitted)
        if refusal is not None:
            raise ApplicationError(refusal.message, refusal, type=INPUT_REFUSED, non_retryable=True)

    @property
    def call(self) -> ToolCall:
        """The call."""
        return self._ctx.call

    @property
    def seconds_on(self) -> dict[Part, float]:
        """The use of its time so far."""
        return self._seconds_on

    @property
    def began_at(self) -> datetime:
        """Start of its work: its release, if it was queued."""
        return self._began_at

    @property
    def waited_for_client(self) -> timedelta:
        """Time that the call has waited for its client. It does not count against the deadline."""
        return self._ctx.questions.waited

    @workflow.run
    async def run(self, _call: ToolCall) -> ToolOutcome:
        """Carry the call out. When it is cancelled, abort its runs first."""
        ctx = self._ctx
        if self._was_queued and not ctx.cancelled:
            upsert_search_attributes(
                search_attributes.TASK_STATUS.value_set(TaskStatus.WORKING.value),
                search_attributes.RELEASED_AT.value_set(self._began_at),
            )
        try:
            result = await self._answer(ctx)
        except BaseException as error:
            if not is_cancelled_exception(error):
                raise
            failed = await _shielded(self._cancel(ctx))
            if failed is not None:
                return _ended(self._outcome(ctx, failed))
            raise CancelledError("The task was cancelled; none of its runs is still running.") from error
        seconds = (workflow.now() - self._began_at).total_seconds()
        await self._complete(ctx, result)
        run = ctx.runs.latest if ctx.guarded is None else await self._guard(ctx, ctx.guarded)
        outcome = self._outcome(ctx, result).model_copy(update={"run": run, "seconds": seconds})
        # A turn takes its tools' answers from its own history, and a batch reads those of its items without theirs.
        is_read_whole = workflow.info().parent or ctx.call.batch_id
        return _ended(outcome if is_read_whole else outcome.without_rows(ctx.recorded_rows))

    async def _answer(self, ctx: HandlerContext) -> ToolResult:
        flaw = _budget_flaw(ctx.call)
        if flaw is not None and workflow.patched("budget-bounds"):
            return ToolResult.failed(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, flaw))
        try:
            return _noted(ctx.call, await run_handler(ctx, tool_for(ctx.call)))
        except ToolChanged as error:
            if not _fails_with(error):
                raise
            return ToolResult.failed(error.envelope(ctx.call.tool))
        except (ToolError, UnknownTool) as error:
            return _noted(ctx.call, ToolResult.failed(error.envelope))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            # A handler that leaves its process (`sys.exit`) would take the worker with it, again and again.
            if is_cancelled_exception(error):
                raise
            workflow.logger.exception("The handler of %s has a defect", ctx.call.tool)
            failed = ToolResult.failed(await _abort_after_defect(ctx, error))
            return failed.model_copy(update={"meta": {DEFECT_META: True}})

    def _outcome(self, ctx: HandlerContext, result: ToolResult) -> ToolOutcome:
        return ToolOutcome(
            result=result,
            run=ctx.runs.latest,
            cost_usd=ctx.cost_usd,
            error_signature=signature(result.error, self._asked) if result.error else None,
        )

    async def _complete(self, ctx: HandlerContext, result: ToolResult) -> None:
        """Record the answer of the handler, where the workflow's result does not soon, and signal it to the session."""
        event = TaskCompleted.by(self._outcome(ctx, result), task_id=ctx.task_id, tool=ctx.call.tool)
        if ctx.guarded is not None:
            workflow.upsert_memo({memo.TASK_COMPLETED: event, memo.RESULT: result})
        elif event.locator is not None and ctx.call.session_id is not None:
            # Deleting the session finds the outputs of its calls in their memos.
            workflow.upsert_memo({memo.TASK_COMPLETED: event})
        if ctx.guarded is not None or event.status is not TaskStatus.COMPLETED:
            # The status of a completed workflow is enough for a completed task.
            ctx.attributes.change(search_attributes.TASK_STATUS.value_set(event.status.value))
        await self._tell(ctx, event, result)

    async def _complete_cancelled(self, ctx: HandlerContext) -> None:
        """Record that the call was cancelled, and how its run has ended: a cancelled workflow has no result."""
        event = TaskCompleted(
            task_id=ctx.task_id, tool=ctx.call.tool, status=TaskStatus.CANCELLED, cost_usd=ctx.cost_usd
        )
        entries: dict[str, object] = {memo.TASK_COMPLETED: event}
        if ctx.runs.latest is not None and ctx.runs.latest.is_final:
            entries[memo.RUN_FINISHED] = ctx.runs.latest
        workflow.upsert_memo(entries)
        ctx.attributes.change(search_attributes.TASK_STATUS.value_set(event.status.value))
        await self._tell(ctx, event, None)

    async def _tell(self, ctx: HandlerContext, event: TaskCompleted, result: ToolResult | None) -> None:
        """Log and count the end of the task, and signal it to its session."""
        ctx.attributes.write()
        count_tool_call(ctx.call, event.status, result, since=self._due_at, waited=self.waited_for_client)
        log_end(event.status.value, error=event.error.category if event.error else None)
        if ctx.call.session_id is not None:
            await self._signal_session(ctx.call.caller.id, ctx.call.session_id, event)
        if ctx.call.listeners:
            await _shielded(_tell_webhooks(ctx, event))

    async def _signal_session(self, caller_id: str, session_id: str, event: TaskCompleted) -> None:
        session = workflow.get_external_workflow_handle(session_workflow_id(caller_id, session_id))
        try:
            await _shielded(session.signal(TASK_COMPLETED_SIGNAL, event))
        except ApplicationError as error:
            # An operator ended the session; the task itself still has the answer.
            workflow.logger.warning("Session %s did not accept the task-completed signal: %s", session_id, error)

    async def _guard(self, ctx: HandlerContext, guarded: Guarded) -> RunState | None:
        """Follow the run to its end. The task is completed already: this changes the run, not the answer."""
        try:
            if ctx.cancelled:
                raise CancelledError("Cancelled while the answer was being recorded.")
            await ctx.runs.finish(guarded.run, guarded.budget)
        except ToolError as error:
            workflow.logger.warning("Run %s: %s", guarded.run.run_id, error.envelope.message)
        except BaseException as error:
            if not is_cancelled_exception(error):
                raise
            await self._abort_guarded(ctx)
        run = ctx.runs.latest
        if run is not None:
            ctx.say(describe_run(run))
        return run

    async def _abort_guarded(self, ctx: HandlerContext) -> None:
        try:
            await _shielded(ctx.runs.abort_open())
        except ToolError as error:
            workflow.logger.error("%s", error.envelope.message)

    async def _cancel(self, ctx: HandlerContext) -> ToolResult | None:
        """Abort the call's runs, then mark the task as cancelled; as failed when the platform refuses to abort."""
        ctx.say("Cancelling: waiting for the platform to end the run.")
        try:
            await ctx.runs.abort_open()
        except ToolError as error:
            result = ToolResult.failed(error.envelope)
            await self._complete(ctx, result)
            return result
        await self._complete_cancelled(ctx)
        await _report_stopped_run(ctx)
        return None


def _ended(outcome: ToolOutcome) -> ToolOutcome:
    """Return the outcome of a completed task. That of a failed one is raised, so that its workflow has failed, too."""
    if outcome.result.is_error and workflow.patched("failed-task-fails-workflow"):
        raise failure_of(outcome) from None
    return outcome


def _fails_with(change: ToolChanged) -> bool:
    """Return whether a call fails because of a changed tool instead of waiting: it has not begun, and the tool is gone,
    or a model waits for it.

    The marker in the history lets a replay decide the same while the failed call ends. A call that had begun has none.
    """
    may_fail = change.is_removed or workflow.info().parent is not None
    return may_fail and workflow.patched("changed-tool-fails-call")


def _noted(call: ToolCall, result: ToolResult) -> ToolResult:
    """The answer with a note on how arguments were read that did not fit the schema."""
    return with_changes(result, call.changes, in_words=tells_changes(call))


async def _report_stopped_run(ctx: HandlerContext) -> None:
    """Report the cost of a cancelled call to the turn or the call that made it: no result carries it."""
    parent, run = workflow.info().parent, ctx.runs.latest
    if parent is None or (run is None and not (ctx.inner_costs and workflow.patched("cost-of-cancelled-function"))):
        return
    try:
        stopped = RunStopped(task_id=ctx.task_id, run=run, cost_usd=ctx.cost_usd)
        await workflow.get_external_workflow_handle(parent.workflow_id).signal(RUN_STOPPED_SIGNAL, stopped)
    except ApplicationError as error:
        workflow.logger.warning("The signal about the cost of a cancelled call was not accepted: %s", error)


async def _tell_webhooks(ctx: HandlerContext, event: TaskCompleted) -> None:
    """Announce the end of the task to subscribed webhooks. Its result is readable when they receive the event."""
    data = task_data(subject_of(ctx.call), event.status.value, error=error_data(event.error), cost_usd=event.cost_usd)
    await announce(
        ctx.call.listeners,
        TASK_ENDS[event.status],
        data,
        caller_id=ctx.call.caller.id,
        awaits_end=ctx.guarded is None,
    )


async def _shielded(work: Coroutine[Any, Any, T]) -> T:
    """Finish `work` even if the workflow is cancelled during it, which happens at most once.

    The caller looks at `HandlerContext.cancelled` afterwards.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        return await task


async def _abort_after_defect(ctx: HandlerContext, error: BaseException) -> ErrorEnvelope:
    try:
        await ctx.runs.abort_open()
    except ToolError as refused:
        return refused.envelope
    if isinstance(error, UnusableAnswer):
        return error.envelope(ctx.call.tool)
    return defect(error, tool=ctx.call.tool, task_id=ctx.task_id, caller_id=ctx.call.caller.id)


def _budget_flaw(call: ToolCall) -> str | None:
    """Return the reason why the call's cost limits are invalid; see `activities.bounds`."""
    limits: dict[str, Decimal | None] = {"budget.max_total_charge_usd": call.options.budget.max_total_charge_usd}
    if call.options.until is not None:
        limits["until.usd"] = call.options.until.usd
    if call.resurrects is not None:
        limits["budget.max_total_charge_usd of the resurrection"] = call.resurrects.budget.max_total_charge_usd
    return usd_flaw(limits)
