"""`HandlerContext`, the interface of a handler, and the questions of a call to its client."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.activities.json_schema.violations import quick_violations
from outlast.activities.runs.contracts import Budget, RunState
from outlast.activities.unicode_text import valid_text
from outlast.activities.webhooks.contracts import WebhookEventType, task_data
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.questions import (
    TASK_ASKS_SIGNAL,
    Check,
    InputAnswer,
    InputRequest,
    InputRequests,
    SubmitInput,
    TaskAsks,
)
from outlast.workflows.contracts.steps import JournalState
from outlast.workflows.contracts.tool_calls import Progress, TaskStatus, ToolCall
from outlast.workflows.contracts.tool_masks import is_active
from outlast.workflows.handler_api.conversation import Outputs, Skills, UserMessages, Workspaces
from outlast.workflows.handler_api.observability import (
    TaskAttributes,
    log_task_event,
    spent_on,
    upsert_search_attributes,
)
from outlast.workflows.handler_api.platform import Actors, McpActors, PlatformReads, PlatformWrites, Storages, Web
from outlast.workflows.handler_api.runs import Runs
from outlast.workflows.webhooks.announcing import announce, subject_of


@dataclass(frozen=True)
class Guarded:
    """A run that continues after its handler has returned, and its budget."""

    run: RunState
    budget: Budget


class HandlerContext:
    """Everything that one call may do, for its caller and within its deadline.

    Methods raise `ToolError` for failures. If a handler does not catch it, the error becomes the call's answer.
    """

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.guarded: Guarded | None = None
        self.recorded_rows: tuple[JsonValue, ...] = ()
        """Rows in the result of an activity of this call; the outcome refers to them."""
        self.attributes = TaskAttributes()
        self.questions = OpenQuestions(call)
        self.journal = JournalState()
        """Steps and waits of the tool's function."""
        self.inner_costs: dict[str, float] = {}
        """Costs of calls that its function has made, in US dollars, by their tasks."""
        self.runs = Runs(call, self.attributes)
        self.storages = Storages(call)
        self.platform = PlatformReads(call)
        self.platform_writes = PlatformWrites(call)
        self.actors = Actors(call)
        self.mcp_actors = McpActors(call, self.ask_all)
        self.outputs = Outputs(call)
        self.web = Web(call)
        self.skills = Skills(call)
        self.workspaces = Workspaces(call)
        self.user_messages = UserMessages(call)

    @property
    def task_id(self) -> str:
        """Id of the task and its workflow."""
        return workflow.info().workflow_id

    @property
    def cost_usd(self) -> float | None:
        """Known cost of the call's runs, and of the calls that its function has made; None before the first."""
        if not self.inner_costs:
            return self.runs.cost_usd
        return sum(self.inner_costs.values()) + (self.runs.cost_usd or 0.0)

    @property
    def cancelled(self) -> bool:
        """True if the call has been cancelled."""
        return workflow.cancellation_reason() is not None

    def offers(self, tool: str) -> bool:
        """Return whether the caller may call `tool`: hints name only tools for which this is true."""
        offered = not self.call.offered_tools or tool in self.call.offered_tools
        return offered and is_active(tool, self.call.tool_mask)

    async def ask(self, key: str, question: InputRequest, *, timeout: timedelta | None = None) -> InputAnswer:
        """Ask the client one question and wait durably for the answer. Raises `TimeoutError` after `timeout`."""
        return (await self.questions.ask({key: question}, timeout=timeout))[key]

    def guard(self, run: RunState, budget: Budget) -> None:
        """Make the workflow follow `run` to its end after the handler has returned."""
        self.guarded = Guarded(run, budget)

    async def ask_all(
        self, questions: dict[str, InputRequest], *, timeout: timedelta | None = None
    ) -> dict[str, InputAnswer]:
        """Ask several questions at once and return the answers by key. Raises `TimeoutError` after `timeout`."""
        return await self.questions.ask(questions, timeout=timeout)

    def progress(self, done: float, *, total: float | None = None, message: str) -> None:
        """Show the client the progress of the call. Each update adds an event to the history: use it for steps only."""
        workflow.upsert_memo({memo.PROGRESS: Progress(done=done, total=total, message=message)})
        self.say(message)

    def say(self, markdown: str) -> None:
        """Show operators the current step (Temporal UI, current details)."""
        workflow.set_current_details(valid_text(markdown))


_NEAR = 0.8
"""Share of the time to answer after which a question counts as near its deadline."""


_SHOWN_CHARS = 500


class OpenQuestions:
    """Open questions of one call."""

    def __init__(self, call: ToolCall) -> None:
        self._call = call
        self._asked_times = 0
        self._open: dict[str, InputRequest] = {}
        self._checks: dict[str, Check] = {}
        self._answers: dict[str, InputAnswer] = {}
        self._answered_by: dict[str, str | None] = {}
        self._closed: dict[str, str] = {}
        self._near_at: dict[str, datetime] = {}
        self.waited = timedelta(0)

    async def ask(
        self,
        questions: dict[str, InputRequest],
        *,
        timeout: timedelta | None = None,
        checks: Mapping[str, Check] | None = None,
    ) -> dict[str, InputAnswer]:
        """Ask `questions` and wait until all are answered. Raises `TimeoutError` after `timeout`.

        An answer is accepted if it passes the question's check or, without a check, matches its schema.
        """
        for key in questions:
            self._answers.pop(key, None)
            self._closed.pop(key, None)
        self._open.update(questions)
        if timeout is not None:
            self._near_at.update(dict.fromkeys(questions, workflow.now() + _NEAR * timeout))
        self._checks.update(checks or {})
        self._publish()
        log_task_event("waiting")
        began = workflow.now()
        closing = "the task is being cancelled"
        try:
            await signal_parent(TaskAsks(task_id=workflow.info().workflow_id, requests=questions))
            await self._announce(questions)
            await workflow.wait_condition(lambda: all(key in self._answers for key in questions), timeout=timeout)
        except TimeoutError:
            closing = "its deadline has passed"
            raise
        finally:
            waited = workflow.now() - began
            self.waited += waited
            spent_on("person", waited)
            self._close(questions, closing)
        return {key: self._answers[key] for key in questions}

    def answered_by(self, key: str) -> str | None:
        """Return the id of the caller who answered the question `key` last; None if the entry point did not send it."""
        return self._answered_by.get(key)

    def refuse(self, submitted: SubmitInput) -> ErrorEnvelope | None:
        """Return the reason for rejecting these answers, or None. They are accepted together or not at all."""
        for key in submitted.answers:
            if key not in self._open:
                return _not_asked(self._closed.get(key) or "the task has no question with this key", key, self._open)
        violations = [
            Violation(path=f"/{key}{violation.path}", message=violation.message)
            for key, answer in submitted.answers.items()
            if answer.action == "accept"
            for violation in self._violations(key, answer)
        ]
        return _invalid(tuple(violations)) if violations else None

    def take(self, submitted: SubmitInput) -> None:
        """Record answers; the first answer to a question counts."""
        for key, answer in submitted.answers.items():
            self._answers.setdefault(key, answer)
            self._answered_by[key] = submitted.answered_by
            by = f" by {submitted.answered_by}" if submitted.answered_by else ""
            self._forget(key, f"it was already answered{by}, at {workflow.now():%Y-%m-%d %H:%M}")
        self._publish()

    async def _announce(self, questions: Mapping[str, InputRequest]) -> None:
        """Send a webhook event that the call waits. The questions themselves are in the task."""
        self._asked_times += 1
        if not self._call.listeners:
            return
        asked: list[JsonValue] = [_event_data(key, question) for key, question in questions.items()]
        status = TaskStatus.INPUT_REQUIRED.value
        await announce(
            self._call.listeners,
            WebhookEventType.TASK_INPUT_REQUIRED,
            task_data(subject_of(self._call), status, questions=asked),
            caller_id=self._call.caller.id,
            number=self._asked_times,
        )

    def _violations(self, key: str, answer: InputAnswer) -> tuple[Violation, ...]:
        if check := self._checks.get(key):
            return check(answer.content)
        # The entry point has made the checks that take longer.
        return quick_violations(self._open[key].requested_schema, answer.content) or ()

    def _forget(self, key: str, closing: str) -> bool:
        """Close one question, and return whether it was open."""
        self._checks.pop(key, None)
        self._near_at.pop(key, None)
        if self._open.pop(key, None) is None:
            return False
        self._closed[key] = closing
        return True

    def _close(self, keys: Iterable[str], closing: str) -> None:
        """Withdraw the questions that nobody answered."""
        if [key for key in keys if self._forget(key, closing)]:
            self._publish()

    def _publish(self) -> None:
        status = TaskStatus.INPUT_REQUIRED if self._open else TaskStatus.WORKING
        workflow.upsert_memo({memo.INPUT_REQUESTS: InputRequests(requests=dict(self._open))})
        near = search_attributes.NEAR_DEADLINE_AT
        near_at = min(self._near_at.values(), default=None)
        upsert_search_attributes(
            search_attributes.TASK_STATUS.value_set(status.value),
            near.value_unset() if near_at is None else near.value_set(near_at),
        )
        waiting = [_waiting_for(question) for question in self._open.values()]
        workflow.set_current_details(valid_text("\n".join(waiting) or "The client has answered."))


def _waiting_for(question: InputRequest) -> str:
    """What a call waits for, for operators."""
    handoff = question.handoff
    deadline = handoff.deadline if handoff is not None else None
    until = f" until {deadline:%Y-%m-%d %H:%M} UTC" if deadline is not None else ""
    if handoff is None or handoff.kind != "approval":
        return f"Waits{until} for an answer of the client: {question.message[:_SHOWN_CHARS]}"
    roles = f" by {', '.join(handoff.approvers)}" if handoff.approvers else ""
    return f"Waits{until} for an approval{roles}: {question.message[:_SHOWN_CHARS]}"


async def signal_parent(asks: TaskAsks) -> None:
    """Signal questions to the turn or the task that made the call, if any, which shows them to its readers."""
    parent = workflow.info().parent
    if parent is None:
        return
    try:
        await workflow.get_external_workflow_handle(parent.workflow_id).signal(TASK_ASKS_SIGNAL, asks)
    except ApplicationError as error:
        workflow.logger.warning("The signal about a question could not be delivered to the caller: %s", error)


def _event_data(key: str, question: InputRequest) -> JsonObject:
    """Return the data of a webhook event about a question: its kind and its deadline."""
    handoff = question.handoff
    data: JsonObject = {"key": key, "kind": handoff.kind if handoff is not None else "question"}
    if handoff is not None and handoff.deadline is not None:
        data["deadline"] = handoff.deadline.isoformat()
    return data


def _not_asked(reason: str, key: str, still_open: Iterable[str]) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.CONFLICT,
        "",
        f"The answer to {key!r} was not accepted: {reason}. Open questions: {', '.join(still_open) or 'none'}.",
        hint="Get the task: its input_requests lists the open questions.",
    )


def _invalid(violations: tuple[Violation, ...]) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        "",
        "The answer does not match the schema of the question, which is still open.",
        hint="Correct every violation listed and answer again.",
        violations=violations,
    )
