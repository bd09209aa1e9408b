"""TurnWorkflow: one turn of a conversation. It calls the model and the tools that the model requests, until it answers.

Calls of the model are activities that stream their text through the workflow's own stream; tool calls are tasks like
any other. When a process dies, the turn continues where it was: a call that has returned a result is never repeated.
"""

import asyncio
import base64
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.contrib.workflow_streams import WorkflowStream, WorkflowStreamState
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ApplicationError, ChildWorkflowError, is_cancelled_exception
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from outlast.activities.conversations.activities import (
        KEEP_ATTEMPT_TIMEOUT,
        KEEP_RETRY_POLICY,
        ConversationActivities,
    )
    from outlast.activities.llm.activities import (
        CALL_MODEL_ATTEMPT_TIMEOUT,
        CALL_MODEL_HEARTBEAT_TIMEOUT,
        CALL_MODEL_RETRY_POLICY,
        ModelActivities,
    )

from outlast.activities.bounds import MAX_MINUTES
from outlast.activities.contracts import Contract, ErrorCategory, ErrorEnvelope
from outlast.activities.conversations.contracts import ConversationOwner, KeepMessagesInput, ModelMessage, TextPart
from outlast.activities.llm.contracts import CallModelInput, ModelStep, TextDelta, Usage
from outlast.activities.llm.streaming import DELTAS_TOPIC
from outlast.workflows.contracts import memo, search_attributes, sessions, tool_calls
from outlast.workflows.contracts.failed_tasks import outcome_of
from outlast.workflows.contracts.questions import TASK_ASKS_SIGNAL, TaskAsks
from outlast.workflows.contracts.queues import MODELS_TASK_QUEUE
from outlast.workflows.contracts.self_correction import CallOutcome, Verdict, observe, verdict_on
from outlast.workflows.contracts.tool_masks import Resolution
from outlast.workflows.handler_api.activity_calls import tool_errors
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.handler_api.observability import log_accepted, upsert_search_attributes
from outlast.workflows.metrics import count_step, count_turn, record_mask_resolution
from outlast.workflows.signatures import answer_signature, signature
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.registry import executor_kind
from outlast.workflows.turns import events
from outlast.workflows.turns.budgets import (
    BudgetExceeded,
    added,
    exceeded,
    exceeded_within_step,
    last_step,
    with_summary,
)
from outlast.workflows.turns.compaction import (
    can_be_compacted,
    compacted,
    conversation_before,
    is_refused_for_length,
    user_message,
)
from outlast.workflows.turns.steps import (
    PlannedCall,
    active_tools,
    assistant_message,
    cancelled_result,
    last_words,
    model_call,
    planned,
    ran_out,
    result_part,
)

STEP_ACTIVITY_PREFIX = "step-"
"""Prefix of the activity ids of model calls; the step's number follows, so that the history shows it."""


@workflow.defn
class TurnWorkflow:
    """Its result refers to the conversation up to its end. Cancelled, it completes after its tools and their runs."""

    @workflow.init
    def __init__(self, turn: sessions.TurnInput) -> None:
        """Open the stream before the first signal or activity can use it."""
        self._input = turn
        self._stream = WorkflowStream()
        self._is_answering = False
        self._stopped_runs: dict[str, tool_calls.RunStopped] = {}
        self._state = turn.so_far or sessions.TurnState(began=workflow.now(), messages=(user_message(turn),))

    @workflow.signal(name=TASK_ASKS_SIGNAL)
    def task_asks(self, _asked: TaskAsks) -> None:
        """A tool of this turn waits for an answer. Readers find the signal in the history."""

    @workflow.signal(name=tool_calls.RUN_STOPPED_SIGNAL)
    def run_stopped(self, stopped: tool_calls.RunStopped) -> None:
        """A tool of this turn was cancelled; its cost counts."""
        self._stopped_runs[stopped.task_id] = stopped

    @workflow.run
    async def run(self, _input: sessions.TurnInput) -> sessions.TurnResult:
        """Make steps until the turn ends: completed, stopped, failed or cancelled."""
        end = asyncio.ensure_future(self._end(await self._ending()))
        try:
            return await asyncio.shield(end)
        except asyncio.CancelledError:
            return await end

    async def _ending(self) -> sessions.Ending:
        """Run the turn until it completes, exceeds its time budget or is cancelled. Its steps have ended then."""
        steps = asyncio.ensure_future(self._all_steps())
        stopped = sessions.Ending(status=sessions.TurnStatus.CANCELLED, reason="cancelled")
        try:
            done, _ = await asyncio.wait({steps}, timeout=self._seconds_left())
            if not done:
                stopped = _over_budget(f"{self._input.budgets.minutes:g} minutes are used")
        except asyncio.CancelledError:
            pass
        if not steps.done():
            steps.cancel()
            await _ended(steps)
        try:
            return steps.result()
        except ToolError as failed:
            return sessions.Ending(status=sessions.TurnStatus.FAILED, reason="error", error=failed.envelope)
        except BaseException as error:
            if not is_cancelled_exception(error):
                raise
            self._keep_words()
            return stopped

    def _keep_words(self) -> None:
        """Keep what the model has said in an answer that was cut off. Its tool calls, if it wrote any, are not kept."""
        if not self._is_answering:
            return
        text = words_so_far(self._stream.get_state(), self._state.step, workflow.payload_converter())
        if text:
            self._keep(ModelMessage(role="assistant", parts=(TextPart(text=text),)), text=text)

    def _seconds_left(self) -> float | None:
        minutes = self._input.budgets.minutes
        if minutes is None:
            return None
        until = self._state.began + timedelta(minutes=min(minutes, MAX_MINUTES))
        return max((until - workflow.now()).total_seconds(), 0.001)

    async def _all_steps(self) -> sessions.Ending:
        while True:
            over = exceeded(self._input.budgets, self._state.spent)
            if over is not None:
                return _over_budget(over)
            if workflow.info().is_continue_as_new_suggested():
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(self._input.model_copy(update={"so_far": self._state}))
            try:
                ending = await self._step()
            except BudgetExceeded as over:
                return _over_budget(str(over))
            if ending is not None:
                return ending

    async def _step(self) -> sessions.Ending | None:
        """The next step and, when it was the last and brought no answer, one more for that; None when others follow."""
        answer, stop = await self._one_step()
        is_last = self._state.step >= last_step(self._input.budgets, self._input.max_steps)
        if stop is not None and not is_last:
            return sessions.Ending(status=sessions.TurnStatus.STOPPED, reason="doom_loop", error=_going_round(stop))
        if answer.tool_calls and not is_last:
            return None
        if not answer.tool_calls and not ran_out(self._input, self._state.step):
            reason = "other" if answer.finish_reason in ("tool_calls", "too_long", "cap") else answer.finish_reason
            return sessions.Ending(status=sessions.TurnStatus.COMPLETED, reason=reason)
        over = exceeded_within_step(self._input.budgets, self._state.spent)
        if (answer.tool_calls or not answer.text) and over is None:
            await self._one_step(only_words=True)
        return sessions.Ending(status=sessions.TurnStatus.STOPPED, reason="max_steps")

    async def _one_step(self, *, only_words: bool = False) -> tuple[ModelStep, Verdict | None]:
        """One call of the model, and the tools that it requests. Returns its answer, and the verdict that is a stop."""
        self._state = self._state.model_copy(update={"step": self._state.step + 1})
        began = workflow.now()
        active = active_tools(self._input, self._state.step)
        record_mask_resolution(active, self._state.step)
        answer = await self._answer(active, only_words=only_words)
        count_step(self._input.provider_id, answer)
        message = assistant_message(answer)
        text = answer.text or (self._state.text if only_words else "")
        self._keep(*([message] if message else []), spent=added(self._state.spent, answer), text=text)
        calls = planned(self._input, self._state, active, answer, coerces=self._coerces)
        verdicts, tool_seconds = await self._carry_out_all(calls) if calls else ([], 0.0)
        seconds = sessions.StepSeconds.of((workflow.now() - began).total_seconds(), answer.seconds, tool_seconds)
        events.publish(events.step_finish(self._state.step, answer, self._state.spent, active.active, seconds))
        return answer, next((one for one in verdicts if one.action == "stop"), None)

    def _coerces(self) -> bool:
        """True if arguments that do not fit the schema are converted. Turns that began by refusing them still do."""
        return workflow.patched("coerced-arguments")

    async def _answer(self, active: Resolution, *, only_words: bool) -> ModelStep:
        """The model's answer in this step. A conversation that is too long is summarised once, then sent again."""
        call = self._next_call(active, only_words=only_words)
        compactable = can_be_compacted(self._input, self._state)
        answer = await self._call_model(call.model_copy(update={"may_be_too_long": compactable}))
        if not is_refused_for_length(answer):
            return answer
        changes = await compacted(self._input, self._state, self._spend)
        self._state = self._state.model_copy(update=changes)
        over = exceeded_within_step(self._input.budgets, self._state.spent)
        if over is not None:
            raise BudgetExceeded(over)
        return await self._call_model(self._next_call(active, only_words=only_words))

    def _spend(self, usage: Usage, cost_usd: float | None) -> str | None:
        """Count a call of the model that is no step; gives the budget that is then used up, in words."""
        self._keep(spent=with_summary(self._state.spent, usage, cost_usd))
        return exceeded_within_step(self._input.budgets, self._state.spent)

    def _next_call(self, active: Resolution, *, only_words: bool) -> CallModelInput:
        call = model_call(self._input, self._state, active)
        return last_words(self._input, call) if only_words else call

    def _keep(self, *messages: ModelMessage, **changes: object) -> None:
        self._state = self._state.model_copy(update={"messages": (*self._state.messages, *messages), **changes})

    async def _call_model(self, call: CallModelInput) -> ModelStep:
        with tool_errors(self._input.model_id):
            self._is_answering = True
            answer = await workflow.execute_activity_method(
                ModelActivities.call_model,
                call,
                activity_id=f"{STEP_ACTIVITY_PREFIX}{self._state.step}",
                task_queue=MODELS_TASK_QUEUE,
                start_to_close_timeout=CALL_MODEL_ATTEMPT_TIMEOUT,
                heartbeat_timeout=CALL_MODEL_HEARTBEAT_TIMEOUT,
                retry_policy=CALL_MODEL_RETRY_POLICY,
                summary=f"{self._input.model_id}, step {self._state.step}",
            )
            self._is_answering = False
        if answer.finish_reason == "cap":
            raise BudgetExceeded(answer.warnings[0])
        if answer.conversation is not None:
            # The store has them: from here on a reference replaces them.
            changes = {"conversation": answer.conversation, "messages": (), "continues": True, "repeated": 0}
            self._state = self._state.model_copy(update=changes)
        return answer

    async def _carry_out_all(self, calls: list[PlannedCall]) -> tuple[list[Verdict], float]:
        """Run all calls concurrently, and keep their results, also if the turn is cancelled.

        Returns the verdict on each, and the seconds of the slowest.
        """
        step = self._state.step
        events.publish(*(events.tool_call(step, call) for call in calls))
        running = [asyncio.create_task(self._carry_out(step, call)) for call in calls]
        try:
            await asyncio.gather(*running, return_exceptions=True)
        except asyncio.CancelledError:
            await asyncio.wait(running)
            self._take_results(calls, running)
            raise
        verdicts = self._take_results(calls, running)
        return verdicts, max(task.result().seconds for task in running)

    def _take_results(
        self, calls: list[PlannedCall], ended: "list[asyncio.Task[tool_calls.ToolOutcome]]"
    ) -> list[Verdict]:
        verdicts: list[Verdict] = []
        parts: list[object] = []
        failures, reminded, usd = self._state.failures, self._state.reminded, self._state.spent.usd
        known: set[str | None] = set()
        for call, task in zip(calls, ended, strict=True):
            outcome = tool_calls.ToolOutcome(result=cancelled_result(call.name)) if task.cancelled() else task.result()
            seen = _outcome_of(call, outcome.result)
            found = Verdict()
            # The same twice in one step counts once: the model had not read the first.
            if seen.key is None or seen.key not in known:
                failures = observe(failures, seen)
                found = verdict_on(failures, self._input.earlier_failures)
            known.add(seen.key)
            verdicts.append(found)
            parts.append(result_part(call, outcome.result, found.reminder))
            usd += outcome.known_cost_usd
            if found.reminder is not None:
                reminded = (*reminded, *([seen.signature] if seen.signature else []))
                events.publish(events.reminder(self._state.step, call.name, found.reminder))
        message = ModelMessage.model_validate({"role": "tool", "parts": parts})
        spent = self._state.spent.model_copy(update={"usd": usd})
        self._keep(message, failures=failures, reminded=reminded, spent=spent)
        return verdicts

    async def _carry_out(self, step: int, planned_call: PlannedCall) -> tool_calls.ToolOutcome:
        call, task_id = planned_call.call, planned_call.task_id
        if call is None or task_id is None:
            outcome = tool_calls.ToolOutcome(result=planned_call.answer)
            events.publish(events.tool_result(step, planned_call, outcome.result))
            await self._report_refusal(planned_call, outcome.result)
        else:
            outcome = await self._task(call, task_id)
            events.publish(events.tool_result(step, planned_call, outcome.result))
        return outcome

    async def _task(self, call: tool_calls.ToolCall, task_id: str) -> tool_calls.ToolOutcome:
        """Carry the call out as a task. When it is cancelled, wait until its runs have ended."""
        summary = tool_calls.TaskSummary(
            tool=call.tool,
            mode=call.mode,
            executor=executor_kind(call),
            actor=call.actor or _actor_of(call),
            session_id=call.session_id,
            created_at=workflow.now(),
            fingerprint=task_id,
            admitted_tool=call.admitted_tool,
        )
        log_accepted(call, task_id)
        try:
            return await workflow.execute_child_workflow(
                ToolCallWorkflow.run,
                call,
                id=task_id,
                memo={memo.SUMMARY: summary},
                search_attributes=search_attributes.of_task(call, summary),
                parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
                static_summary=f"{call.tool} for {call.caller.id}",
            )
        except ChildWorkflowError as error:
            if is_cancelled_exception(error):
                stopped = self._stopped_runs.get(task_id) or tool_calls.RunStopped(task_id=task_id)
                return tool_calls.ToolOutcome(
                    result=cancelled_result(call.tool), run=stopped.run, cost_usd=stopped.cost_usd
                )
            if (failed := outcome_of(error.cause)) is not None:
                return failed
            return tool_calls.ToolOutcome(result=tool_calls.ToolResult.failed(_did_not_end(call.tool, error)))

    async def _end(self, ending: sessions.Ending) -> sessions.TurnResult:
        """Inform the session, then the readers: a reader of the end may send the next message at once."""
        turn, state = self._input, self._state
        seconds = (workflow.now() - state.began).total_seconds()
        report = sessions.TurnReport(
            turn_id=turn.turn_id,
            message_id=turn.message_id,
            status=ending.status,
            reason=ending.reason,
            text=state.text,
            before=turn.conversation,
            spent=state.spent.model_copy(update={"seconds": seconds}),
            error=ending.error,
            asked=turn.asked,
        )
        result = await self._kept(report)
        ended = sessions.TurnEnded(
            turn_id=turn.turn_id,
            counts=state.continues or len(state.messages) > 1 or result.status is sessions.TurnStatus.CANCELLED,
            conversation=result.conversation,
            shortened=state.shortened,
            spent=result.spent,
            reminded=state.reminded,
        )
        await self._signal_session(sessions.TURN_ENDED_SIGNAL, ended)
        upsert_search_attributes(search_attributes.TASK_STATUS.value_set(result.status.value))
        events.publish(*events.finish(result))
        count_turn(result)
        return result

    async def _kept(self, report: sessions.TurnReport) -> sessions.TurnResult:
        """The result, as soon as the messages of this turn are stored. A turn that cannot be stored has failed."""
        turn = self._input
        request = KeepMessagesInput(
            owner=ConversationOwner(caller_id=turn.caller.id, session_id=turn.session_id),
            conversation=conversation_before(turn, self._state),
            messages=self._state.messages,
            continues=self._state.continues,
            repeated=self._state.repeated,
            about=report.model_dump(mode="json", exclude_none=True),
        )
        try:
            with tool_errors("conversation"):
                kept = await workflow.execute_activity_method(
                    ConversationActivities.keep_messages,
                    request,
                    start_to_close_timeout=KEEP_ATTEMPT_TIMEOUT,
                    retry_policy=KEEP_RETRY_POLICY,
                    summary="keep the messages",
                )
        except ToolError as failed:
            error = report.error or failed.envelope
            failure = {"status": sessions.TurnStatus.FAILED, "reason": "error", "error": error}
            return sessions.TurnResult(**dict(report.model_copy(update=failure)))
        return sessions.TurnResult(**dict(report), conversation=kept)

    async def _report_refusal(self, call: PlannedCall, result: tool_calls.ToolResult) -> None:
        """Report a call that became no task: the session counts it like a task that failed."""
        refusal = result.error
        if refusal is None:
            return
        counted = _outcome_of(call, result).signature
        refused = tool_calls.CallRefused(
            tool=call.name, error=refusal, error_signature=counted, turn_id=self._input.turn_id
        )
        await self._signal_session(sessions.CALL_REFUSED_SIGNAL, refused)

    async def _signal_session(self, signal: str, event: Contract) -> None:
        turn = self._input
        session = workflow.get_external_workflow_handle(sessions.session_workflow_id(turn.caller.id, turn.session_id))
        try:
            await session.signal(signal, event)
        except ApplicationError as error:
            # An operator ended the session; the turn's own result still has everything.
            workflow.logger.warning("Session %s did not accept a signal of its turn: %s", turn.session_id, error)


async def _ended(steps: "asyncio.Task[sessions.Ending]") -> None:
    """Wait for steps that were cancelled, also if the turn itself is cancelled at the same time."""
    while not steps.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({steps})


def turn_attributes(turn: sessions.TurnInput) -> TypedSearchAttributes:
    """The search attributes by which operators find a turn."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(search_attributes.CALLER, turn.caller.id),
            SearchAttributePair(search_attributes.SESSION, turn.session_id),
            SearchAttributePair(search_attributes.TASK_STATUS, sessions.TurnStatus.RUNNING.value),
        ]
    )


def _outcome_of(call: PlannedCall, result: tool_calls.ToolResult) -> CallOutcome:
    error = result.error
    if error is not None and call.counts:
        return CallOutcome(tool=call.name, signature=signature(error, call.arguments), retryable=error.retryable)
    if result.is_error:
        return CallOutcome(tool=call.name)
    return CallOutcome(tool=call.name, answer_signature=answer_signature(call.name, call.arguments, result))


def _actor_of(call: tool_calls.ToolCall) -> str | None:
    actor = call.arguments.get("actor") if executor_kind(call) != "none" else None
    return actor if isinstance(actor, str) else None


def _over_budget(over: str) -> sessions.Ending:
    envelope = ErrorEnvelope.permanent(
        ErrorCategory.PAYMENT,
        "",
        f"The turn was stopped by its budget: {over.rstrip(chr(46))}.",
        hint="Send the next message with a larger budget, or request less.",
    )
    return sessions.Ending(status=sessions.TurnStatus.STOPPED, reason="budget", error=envelope)


def _going_round(verdict: Verdict) -> ErrorEnvelope:
    tool, times = verdict.tool or "", verdict.count
    if verdict.repeats:
        return ErrorEnvelope.permanent(
            ErrorCategory.CONFLICT,
            tool,
            f"The turn was stopped: {times} identical calls of {tool} had the same answer.",
            hint="Send another message with instructions for this answer.",
        )
    return ErrorEnvelope.permanent(
        ErrorCategory.CONFLICT,
        tool,
        f"The turn was stopped: {tool} has failed {times} times in the same way.",
        hint="Check the tool's error, correct its cause, and send another message.",
    )


def _did_not_end(tool: str, error: ChildWorkflowError) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.UNKNOWN, tool, f"The task did not end by itself: {error.cause or error}"[:2_000]
    )


def words_so_far(stream: WorkflowStreamState, step: int, converter: PayloadConverter) -> str:
    """The text of the step's latest attempt. A repeated attempt begins again, so older ones do not count."""
    deltas = [
        converter.from_payload(Payload.FromString(base64.b64decode(item.data)), TextDelta)
        for item in stream.log
        if item.topic == DELTAS_TOPIC
    ]
    of_step = [delta for delta in deltas if delta.step == step]
    latest = max((delta.attempt for delta in of_step), default=0)
    return "".join(delta.text for delta in of_step if delta.attempt == latest)
