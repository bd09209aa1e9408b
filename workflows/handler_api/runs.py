"""The runs of one tool call: started at most once each, followed, and never left running when the call is cancelled."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Literal

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import (
        ABORT_ATTEMPT_TIMEOUT,
        ABORT_RETRY_POLICY,
        START_HEARTBEAT_TIMEOUT,
        WAIT_RETRY_POLICY,
        RunActivities,
    )

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.runs.contracts import (
    AbortResult,
    AbortRunInput,
    Budget,
    EndedRun,
    Production,
    ResurrectResult,
    ResurrectRunInput,
    RunRef,
    RunSpec,
    RunState,
    StartRunInput,
    WaitRunInput,
    cost_of,
    may_be_resurrected,
    operation_id,
)
from outlast.activities.spending.contracts import EarlierLife, Spend
from outlast.activities.storages.contracts import DatasetPage
from outlast.activities.webhooks.contracts import BudgetWatch, WebhookEventType, listening
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ResurrectedTask, ToolCall, changed_budget
from outlast.workflows.handler_api.activity_calls import (
    NotStartedError,
    RunStarts,
    read_quickly,
    remaining,
    resurrected,
    tool_errors,
)
from outlast.workflows.handler_api.failures import ToolError, envelope_of, is_deadline
from outlast.workflows.handler_api.observability import TaskAttributes, log_task_event, spent_on, timed
from outlast.workflows.webhooks.announcing import subject_of


@dataclass
class _Operation:
    """One start: its marker on the platform, and the run once it is known."""

    operation_id: str
    spec: RunSpec
    spend: Spend
    run: RunState | None = None
    produced: Production = field(default_factory=Production)
    """Output of the run at its latest resurrection."""
    ended_before: datetime | None = None
    """Latest end of the run that was, or may have been, followed by a resurrection."""
    is_unsettled: bool = False
    """True if the run has ended and may be resurrected, so that nothing was booked yet."""

    @property
    def may_be_running(self) -> bool:
        return self.run is None or not self.run.is_final or self.is_unsettled

    @property
    def cost_usd(self) -> Decimal:
        """Cost so far, or the most that the run may cost while it continues."""
        run = self.run
        if run is None or (not run.is_final and run.limit_usd is not None):
            return (run.limit_usd if run else self.spec.budget.max_total_charge_usd) or Decimal(0)
        return self.spend.share_of(cost_of(run))

    def decided(self, result: ResurrectResult) -> None:
        """Record the result of a resurrection."""
        before = self.run
        limit = result.run.limit_usd if before is None else result.run.limit_usd or before.limit_usd
        adopted = before is not None and before.adopted
        self.run = result.run.model_copy(update={"limit_usd": limit, "adopted": adopted})
        self.produced = result.produced
        self.is_unsettled = False


class Runs:
    """Starts, follows and aborts Actor runs."""

    def __init__(self, call: ToolCall, attributes: TaskAttributes) -> None:
        self._call = call
        self._attributes = attributes
        self._operations: list[_Operation] = []
        self._starts = RunStarts(call)
        self._ids = 0

    @property
    def may_have_begun(self) -> bool:
        """True if a lost worker may have started a run of this call, which only the next start looks for."""
        return self._starts.may_have_begun

    @property
    def latest(self) -> RunState | None:
        """The latest run that was started, in its last known state."""
        return self._operations[-1].run if self._operations else None

    @property
    def cost_usd(self) -> float | None:
        """Known cost of this call's runs; None before the first one."""
        known = [one.spend.share_of(cost_of(one.run)) for one in self._operations if one.run is not None]
        return float(sum(known)) if known else None

    async def start(self, spec: RunSpec) -> RunState:
        """Start a run. If memory or run slots are lacking, wait for them until the call's deadline.

        Raises `ToolError` when the platform refuses. If the call is cancelled, the platform's answer is awaited first,
        so that a started run is known.
        """
        spent = sum((operation.cost_usd for operation in self._operations), Decimal(0))
        own_id = self._next_operation_id()
        if self._call.resurrects is not None and not self._operations:
            resurrected_run = await self._continue(self._call.resurrects, own_id, spec)
            if resurrected_run is not None:
                return resurrected_run
        operation = _Operation(own_id, spec, self._spend(own_id, spec))
        self._operations.append(operation)
        request = StartRunInput(
            caller=self._call.caller,
            spec=spec,
            operation_id=own_id,
            payment=self._call.payment,
            spend=operation.spend,
            caps=self._call.caps,
            task_spent_usd=spent,
        )
        try:
            with timed("start"):
                return await self._run_of(operation, request)
        except NotStartedError as error:
            if error.is_certain:
                self._operations.remove(operation)
            else:
                await self.abort_open()
            raise ToolError(_not_started(error, spec)) from error

    async def _run_of(self, operation: _Operation, request: StartRunInput) -> RunState:
        started: list[RunState] = []

        def has_started(run: RunState) -> None:
            started.append(run)
            operation.run = run
            self._publish(run, operation.spec)
            log_task_event("run_started", run=run.run_id)

        await self._starts.start(request, has_started)
        return started[0]

    async def finish(self, run: RunState, budget: Budget) -> RunState:
        """Follow `run` to its end. A run that reaches a limit of `budget` or the call's deadline is aborted.

        A run that satisfies the call's stop condition (`until`) is stopped gracefully, and has succeeded.
        Raises `ToolError` if a limit was reached, or if the run can no longer be followed.
        """
        return (await self.finish_with_rows(run, budget, within_bytes=None))[0]

    async def finish_with_rows(
        self, run: RunState, budget: Budget, *, within_bytes: int | None
    ) -> tuple[RunState, DatasetPage | None]:
        """Follow `run` as `finish` does, and return its rows: no items above `within_bytes`, None if unreadable."""
        while True:
            final, page = await self._finish_once(run, budget.within(run.limit_usd), within_bytes)
            if not may_be_resurrected(final, self._call.options.resurrect, budget.within(run.limit_usd)):
                return final, page
            run = await self._resurrect_ended(final, budget)
            if run.is_final and run.finished_at == final.finished_at:
                return run, None

    async def _finish_once(
        self, run: RunState, budget: Budget, within_bytes: int | None
    ) -> tuple[RunState, DatasetPage | None]:
        operation = self._operation_of(run)
        request = WaitRunInput(
            caller=self._call.caller,
            run_id=run.run_id,
            budget=budget,
            rows_within_bytes=within_bytes,
            spend=operation.spend if operation else None,
            resurrection=self._call.options.resurrect if operation else None,
            ended_before=operation.ended_before if operation else None,
            until=self._call.options.until,
            watch=self._watch(budget),
        )
        ended = await self._follow(run, request)
        # The activity that follows the run also reads its rows.
        reading = timedelta(seconds=ended.read_seconds)
        spent_on("fetch", reading)
        spent_on("run", -reading)
        final = RunState.model_validate(
            {**dict(ended), "adopted": run.adopted, "limit_usd": run.limit_usd, "limit_basis": run.limit_basis}
        )
        self._remember(final)
        if final.over_budget:
            await self.abort_open()
            raise ToolError(self._stopped(final, _limit_of(final, budget)))
        return final, ended.rows

    async def _resurrect_ended(self, ended: RunState, budget: Budget) -> RunState:
        """Resurrect a run. If that fails, return it as it had ended, with the reason in its status message.

        Its cost is booked in both cases.
        """
        operation = self._operation_of(ended)
        if operation is None:
            return ended
        operation.ended_before, operation.is_unsettled = ended.finished_at, True
        request = ResurrectRunInput(
            caller=self._call.caller,
            run_id=ended.run_id,
            ended=ended,
            budget=budget.within(ended.limit_usd),
            produced_before=operation.produced,
            spend=operation.spend,
        )
        return await self._resurrect(operation, request)

    async def _resurrect(self, operation: _Operation, request: ResurrectRunInput) -> RunState:
        workflow.set_current_details(f"**Run** `{request.run_id}`: {request.ended.status}; it is being resurrected.")
        try:
            with timed("start"):
                result = await resurrected(self._call, request, operation.decided)
        except ActivityError as error:
            await self.abort_open()
            envelope = envelope_of(error, tool=self._call.tool)
            reason = "the task's time is over" if is_deadline(error) else envelope.message
            return not_resurrected(operation.run or request.ended, reason)
        if result.reason is not None:
            return not_resurrected(operation.run or request.ended, result.reason)
        log_task_event("run_resurrected", run=request.run_id)
        return operation.run or result.run

    async def _continue(self, given: ResurrectedTask, own_id: str, spec: RunSpec) -> RunState | None:
        """Resurrect the run of an earlier task for this one. Returns None if another run has to be started.

        Raises `ToolError`.
        """
        now = await self.look_up(given.run.run_id)
        ended = now if now.is_final else given.run
        earlier = EarlierLife(run_id=ended.run_id, entry_id=given.entry_id, cost_usd=cost_of(ended))
        spend = self._spend(own_id, spec).model_copy(update={"earlier": earlier})
        operation = _Operation(own_id, spec, spend, run=ended, ended_before=ended.finished_at, is_unsettled=True)
        self._operations.append(operation)
        request = ResurrectRunInput(
            caller=self._call.caller,
            run_id=ended.run_id,
            ended=ended,
            budget=changed_budget(spec.budget, given.budget),
            build=given.build,
            memory_mbytes=given.memory_mbytes,
            produced_before=given.produced,
            is_forced=given.is_forced,
            spend=spend,
            caps=self._call.caps,
        )
        run = await self._resurrect(operation, request)
        if not run.is_final or run.finished_at != ended.finished_at:
            self._publish(run, spec)
            return run
        self._operations.remove(operation)
        if given.starts_anew:
            return None
        raise ToolError(_not_continued(self._call.tool, run))

    async def _follow(self, run: RunState, request: WaitRunInput) -> EndedRun:
        try:
            with tool_errors(self._call.tool, partial(self._not_followed, run=run)), timed("run"):
                return await workflow.execute_activity_method(
                    RunActivities.wait_for_run,
                    request,
                    task_queue=RUNS_TASK_QUEUE,
                    start_to_close_timeout=remaining(self._call),
                    schedule_to_close_timeout=remaining(self._call),
                    heartbeat_timeout=timedelta(seconds=self._call.options.run_heartbeat_seconds),
                    retry_policy=WAIT_RETRY_POLICY,
                    summary=f"follow run {run.run_id}",
                )
        except ToolError as error:
            await self.abort_open()
            operation = self._operation_of(run)
            last_known = operation.run if operation is not None and operation.run is not None else run
            raise ToolError(_with_storages(error.envelope, last_known)) from error

    async def look_up(self, run_id: str) -> RunState:
        """Read the state of any run of the caller. Raises `ToolError` if it does not exist."""
        request = RunRef(caller=self._call.caller, run_id=run_id)
        return await read_quickly(self._call, RunActivities.get_run, request, summary=f"look up run {run_id}")

    async def abort(self, run_id: str, *, gracefully: bool) -> RunState:
        """Abort any run of the caller, and wait until the platform reports its end. Raises `ToolError`."""
        if not run_id:
            message = "The id of a run must not be empty."
            raise ToolError(ErrorEnvelope.permanent(ErrorCategory.NOT_FOUND, self._call.tool, message))
        request = AbortRunInput(caller=self._call.caller, run_id=run_id, gracefully=gracefully)
        with tool_errors(self._call.tool):
            return (await self._abort(request, within=remaining(self._call))).runs[0]

    async def abort_open(self) -> None:
        """Abort all runs of this call, also those whose start was never confirmed.

        This may take longer than the call's deadline. Raises `ToolError` when the platform refuses.
        """
        for operation in list(self._operations):
            if not operation.may_be_running:
                continue
            request = AbortRunInput(
                caller=self._call.caller,
                run_id=operation.run.run_id if operation.run else None,
                actor=operation.spec.actor,
                operation_id=operation.operation_id,
                since=self._starts.began,
                may_start_late=self._starts.is_repeated,
                spend=operation.spend,
                ended_before=operation.ended_before,
            )
            with tool_errors(self._call.tool, partial(self._not_aborted, request=request)):
                aborted = await self._abort(request)
            operation.run = aborted.runs[0] if aborted.runs else operation.run
            operation.is_unsettled = False
            if not aborted.runs and operation.run is None:
                self._operations.remove(operation)

    async def _abort(self, request: AbortRunInput, *, within: timedelta | None = None) -> AbortResult:
        return await workflow.execute_activity_method(
            RunActivities.abort_run,
            request,
            start_to_close_timeout=ABORT_ATTEMPT_TIMEOUT,
            schedule_to_close_timeout=within,
            heartbeat_timeout=START_HEARTBEAT_TIMEOUT,
            retry_policy=ABORT_RETRY_POLICY,
            summary=f"abort {request.run_id or 'whatever was started'}",
        )

    def _watch(self, budget: Budget) -> BudgetWatch | None:
        """Return the recipients of budget warnings; None without a budget or without recipients."""
        listeners = listening(self._call.listeners, WebhookEventType.TASK_BUDGET_NEAR)
        if not listeners or budget.max_total_charge_usd is None:
            return None
        return BudgetWatch(caller_id=self._call.caller.id, listeners=listeners, subject=subject_of(self._call))

    def _remember(self, run: RunState) -> None:
        for operation in self._operations:
            if operation.run is not None and operation.run.run_id == run.run_id:
                operation.run = run

    def _publish(self, run: RunState, spec: RunSpec) -> None:
        self._attributes.change(search_attributes.RUN_ID.value_set(run.run_id))
        if workflow.info().typed_search_attributes.get(search_attributes.ACTOR) != spec.actor:
            self._attributes.change(search_attributes.ACTOR.value_set(spec.actor))

    def _operation_of(self, run: RunState) -> _Operation | None:
        """Return the operation of a run of this call. Other runs are booked by the calls that started them."""
        own = (one for one in self._operations if one.run is not None and one.run.run_id == run.run_id)
        return next(own, None)

    def _spend(self, operation_id: str, spec: RunSpec) -> Spend:
        call = self._call
        account: Literal["caller", "operator"] = "operator" if call.caller.apify_token is None else "caller"
        return Spend(
            entry_id=operation_id,
            payer="payment" if call.is_paid else account,
            tool=call.tool,
            actor=spec.actor,
            session_id=call.session_id,
            task_id=workflow.info().workflow_id,
        )

    def _next_operation_id(self) -> str:
        info = workflow.info()
        self._ids += 1
        return operation_id(
            namespace=info.namespace,
            workflow_id=info.workflow_id,
            first_run_id=info.first_execution_run_id,
            number=self._ids,
        )

    def _not_followed(self, error: ActivityError, run: RunState) -> ErrorEnvelope:
        if is_deadline(error):
            return self._stopped(run, "the task's deadline")
        return envelope_of(error, tool=self._call.tool)

    def _not_aborted(self, error: ActivityError, request: AbortRunInput) -> ErrorEnvelope:
        envelope = envelope_of(error, tool=self._call.tool)
        run = f"Run {request.run_id}" if request.run_id else f"A run of {request.actor} that may have been started"
        hint = "It may still be running and incurring costs: check the account's runs and abort it there."
        last = next((one.run for one in self._operations if one.run and one.run.run_id == request.run_id), None)
        if last is not None:
            hint = f"Its last known status is {last.status}. Its output is in dataset {last.dataset_id}. {hint}"
        return envelope.model_copy(
            update={"message": f"{run} could not be aborted. {envelope.message}", "retryable": False, "hint": hint}
        )

    def _stopped(self, run: RunState, limit: str) -> ErrorEnvelope:
        by_time = run.over_budget is None
        return ErrorEnvelope.permanent(
            ErrorCategory.TIMEOUT if by_time else ErrorCategory.PAYMENT,
            self._call.tool,
            f"Run {run.run_id} was aborted: it reached {limit}.",
            hint=f"Its output so far is in dataset {run.dataset_id}. Raise the limit to let it run longer.",
        )


def _limit_of(run: RunState, budget: Budget) -> str:
    limit = f"the budget of {budget.max_total_charge_usd} US dollars"
    if run.over_budget != "money" or run.limit_basis not in ("history", "actor"):
        return limit
    why = "the caller's earlier runs of this Actor" if run.limit_basis == "history" else "the Actor's own maximum"
    return f"{limit}, which was set because of {why}: the call had no `options.budget.max_total_charge_usd`"


def _with_storages(envelope: ErrorEnvelope, run: RunState) -> ErrorEnvelope:
    """Add the last known state and the storages of a run that could not be followed."""
    if run.run_id in envelope.message:
        return envelope
    known = f"Run {run.run_id} is {run.status}. Its output is in dataset {run.dataset_id}, its records are in"
    return envelope.model_copy(
        update={
            "message": f"Run {run.run_id} could not be followed to its end. {envelope.message}",
            "hint": f"{known} key-value store {run.key_value_store_id}. Check both before you run it again.",
        }
    )


def not_resurrected(run: RunState, reason: str) -> RunState:
    """Add the reason why an ended run was not resurrected to its status message."""
    message = f"{run.status_message} " if run.status_message else ""
    return run.model_copy(update={"status_message": f"{message}(It was not resurrected: {reason}.)"})


def _not_continued(tool: str, run: RunState) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.CONFLICT,
        tool,
        f"Run {run.run_id} cannot continue. {run.status_message or ''}".strip(),
        hint=f"Its output is in dataset {run.dataset_id}. Call the tool again to start another run.",
    )


def _not_started(error: NotStartedError, spec: RunSpec) -> ErrorEnvelope:
    if not error.by_deadline:
        return error.envelope
    return error.envelope.model_copy(
        update={
            "message": f"{spec.actor} could not be started within the task's deadline; no run of it is left "
            f"running. {error.envelope.message}",
            "hint": "Call again with a longer deadline, or when the platform has free capacity.",
        }
    )
