"""`TaskClient`: tasks over Temporal. There is no task table: Temporal is the task store."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from temporalio import client as temporal
from temporalio.api.enums.v1 import EventType, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, Violation
from outlast.api import errors
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.access.principal import Principal
from outlast.api.audit.log import Action, AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.metrics import REUSED_CALLS
from outlast.api.tasks.admission import Admission, AdmittedCall, after_approval
from outlast.api.tasks.deduplication import Deduplication, ReusableCall
from outlast.api.tasks.option_rules import Reusable
from outlast.api.tasks.starter import TaskStarter, task_id_of
from outlast.api.tasks.submitted_input import answer_error, answer_event, require_answering, sealed_answers
from outlast.api.temporal import task_view, visibility
from outlast.api.temporal.errors import answer_of_worker, temporal_errors, unreadable_words
from outlast.api.temporal.history_details import (
    TASK_WORKFLOW,
    HistoryDetails,
    failure_of,
    recorded_call,
    whole_outcome,
)
from outlast.api.temporal.resolutions import RecordedResolutions
from outlast.api.temporal.task_events import Position, position_of, stream_events, task_events
from outlast.contracts.tasks import Task, TaskAnswer, TaskEvent, TaskEventName, TaskListing, TaskPage, TaskRequest
from outlast.worker.ended_runs import abnormal, task_outcome
from outlast.worker.payloads import UNREADABLE
from outlast.worker.stuck_tasks import cancel_workflow
from outlast.workflows.contracts import memo
from outlast.workflows.contracts import tool_calls as calls
from outlast.workflows.contracts.questions import InputAnswer, SubmitInput
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.handler_api.observability import MESSAGES, TASK_LOGGER, task_facts
from outlast.workflows.signatures import signature
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.framework.changes import waiting_message
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import change_of_tool

log = logging.getLogger(TASK_LOGGER)

MAX_PAGE = 200
_MAX_REPORTED_VIOLATIONS = 20
_MAX_REPORTED_PATH_CHARS = 200
_EXPECTED_BYTES = 256 * 1024
"""Room that is taken to read a result, whose size is known afterwards."""


@dataclass(eq=False)
class TaskClient:
    """Client of tasks for every entry point. Its methods raise `ApiError`s, for example `TemporalUnavailable`."""

    client: temporal.Client
    admission: Admission
    starter: TaskStarter
    audit: AuditLog
    limits: CallerLimits
    deduplication: Deduplication
    ui_url: str | None
    """Root of the Temporal UI, for links."""

    def __post_init__(self) -> None:
        self._retention: timedelta | None = None
        self._details = HistoryDetails(self.client)
        self.resolutions = RecordedResolutions(self.client)

    async def start(self, caller: Caller, request: TaskRequest, *, idempotency_key: str | None = None) -> Task:
        """Check the call and start it, or queue it. The same key and request give the same task.

        Raises `InvalidCall`, which the call's session counts, `CallTooLarge`, `IdempotencyKeyReused`, and
        `TooManyRequests` when too many tasks are queued or wait to be started.
        """
        async with self.audit.action(
            AuditEvent.TASK_STARTED, caller, tool=request.tool, session=request.session_id
        ) as action:
            return await self._start(caller, request, idempotency_key, action)

    async def _start(self, caller: Caller, request: TaskRequest, idempotency_key: str | None, action: Action) -> Task:
        try:
            admitted = await self.admission.admit(caller, request)
        except errors.InvalidCall as error:
            await self.report_refused_call(caller, request.session_id, error.envelope)
            raise
        call, summary = admitted.call, admitted.summary
        task_id = task_id_of(caller, call.tool, idempotency_key)
        action.note(task=task_id, tool=call.tool, actor=summary.actor)
        if admitted.reuse is not None:
            request_key = task_id if idempotency_key else None
            return await self._deduplicated(caller, admitted, admitted.reuse, request_key, action)
        try:
            return await self._started(caller, admitted, task_id)
        except WorkflowAlreadyStartedError:
            action.note(outcome="repeated")
            return await self._existing(caller, task_id, admitted.fingerprints)
        except errors.TooManyRequests:
            if idempotency_key is None:
                raise
            with suppress(errors.TaskNotFound):
                # A repeated request starts nothing, so its task is returned in spite of the limit.
                return await self._existing(caller, task_id, admitted.fingerprints)
            raise

    async def _deduplicated(
        self, caller: Caller, admitted: AdmittedCall, reuse: Reusable, request_key: str | None, action: Action
    ) -> Task:
        """The task of an identical call, or a new one that later identical calls share."""
        summary = admitted.summary.model_copy(update={"request_key": request_key})
        keyed = replace(admitted, summary=summary)

        async def start(task_id: str) -> Task:
            task = await self._started(caller, keyed, task_id)
            REUSED_CALLS.labels("started").inc()
            return task

        task = await self.deduplication.meet(ReusableCall(caller, reuse, request_key), self, start)
        action.note(task=task.id, outcome="reused" if task.reused else "ok")
        if task.reused:
            REUSED_CALLS.labels("joined" if task.reused.joined else "answered").inc()
        return task

    async def _started(self, caller: Caller, admitted: AdmittedCall, task_id: str) -> Task:
        """Start the task, or queue it."""
        # Starts beyond the limit would wait in Temporal's database, in front of others.
        async with self.limits.awaited_slot(caller.id, "concurrent_starts"):
            status = await self.starter.start(admitted, task_id)
        call = admitted.call
        log.info(MESSAGES["accepted"], extra=task_facts("accepted", call, task_id))
        if status is calls.TaskStatus.QUEUED:
            log.info(MESSAGES["queued"], extra=task_facts("queued", call, task_id))
        return task_view.task_of(
            task_id,
            admitted.summary,
            status,
            caller_id=caller.id,
            batch_id=call.batch_id,
            schedule_id=call.schedule_id,
            workflow_url=task_view.workflow_url(self.ui_url, self.client.namespace, task_id),
        )

    async def report_refused_call(self, caller: Caller, session_id: str | None, error: ErrorEnvelope) -> None:
        """Report a call that did not become a task to its session, if any. The session counts it as a failed task."""
        if session_id is not None:
            error = _without_values(error)
            refused = calls.CallRefused(tool=error.tool, error=error, error_signature=signature(error))
            await self.starter.report_refused_call(caller.id, session_id, refused)

    async def describe(self, caller: Caller, task_id: str) -> Task:
        """The current task. Needs no worker. Raises `TaskNotFound`."""
        return await self.viewed(await self.described(caller, task_id))

    async def look_at(self, principal: Principal, task_id: str) -> Task:
        """The caller's task, or another caller's task with the approvals that the caller can give; any with `admin`."""
        if "admin" not in principal.scopes:
            return (await self._seen(principal, task_id))[0]
        description = await self._described_for_any(task_id)
        await self._record_reading(principal, description, "task")
        return await self.viewed(description)

    async def readable_by(self, principal: Principal, task_id: str, what: str) -> Caller:
        """The caller whose task it is, for reading `what` of it: the principal's own, or with `admin` any caller's.

        The audit log has a record for each reading of another caller's task. Raises `TaskNotFound`.
        """
        if "admin" not in principal.scopes:
            return principal.caller  # `described` refuses tasks of others
        description = await self._described_for_any(task_id)
        owner = task_view.owner_of(description)
        if owner is None or owner == principal.caller.id:
            return principal.caller
        await self._record_reading(principal, description, what)
        return await self._recorded_caller(description, owner)

    async def _record_reading(
        self, principal: Principal, description: temporal.WorkflowExecutionDescription, what: str
    ) -> None:
        owner = task_view.owner_of(description)
        if owner != principal.caller.id:
            async with self.audit.action(
                AuditEvent.TASK_READ, principal.caller, task=description.id, detail=f"{what} of {owner}"
            ):
                pass

    async def _recorded_caller(self, description: temporal.WorkflowExecutionDescription, owner: str) -> Caller:
        """The caller of a task with its account, as the history has it; without one if it cannot be read."""
        try:
            with temporal_errors(missing=_task_not_found(description.id)):
                return (await recorded_call(self.client, description)).caller.with_account
        except UNREADABLE:
            return Caller(id=owner)

    async def to_approve(self, principal: Principal, *, tool: str | None = None) -> AsyncIterator[Task]:
        """Tasks of other callers that wait for the caller's approval, the newest first, as it sees them."""
        roles = self.admission.approvers.roles_of(principal)
        if not roles:
            return
        query = visibility.approvals_query(principal.caller.id, roles, tool=tool)
        with temporal_errors():
            async for execution in self.client.list_workflows(query, page_size=MAX_PAGE):
                task, maker = await self._listed(execution), task_view.owner_of(execution)
                if task is not None and (shown := self.admission.approvers.view_of(principal, maker, task)):
                    yield shown

    async def answer(self, caller: Caller, task_id: str, *, wait_seconds: float = 0) -> TaskAnswer:
        """The task's result, awaited at most `wait_seconds`, or until there is room for unread bytes.

        Raises `TaskNotFound`.
        """
        description = await self.described(caller, task_id)
        with temporal_errors():
            summary = await task_view.memo_model(description, memo.SUMMARY, calls.TaskSummary)
        room = self.limits.unread.room_of(caller.id)
        async with room.hold(_EXPECTED_BYTES):
            result = await self.result_of(description)
        if result is None and wait_seconds > 0 and summary is not None:
            if summary.executor == "async":
                await self._await_event(task_id, {"task_completed"}, wait_seconds)
            else:
                await self._end_within(task_id, wait_seconds)
            description = await self.described(caller, task_id)
            async with room.hold(_EXPECTED_BYTES):
                result = await self.result_of(description)
        return TaskAnswer(task=await self.viewed(description), result=result)

    async def answer_or_question(self, caller: Caller, task_id: str, *, wait_seconds: float) -> TaskAnswer:
        """Like `answer`, but also return as soon as the task has a question for a person or a model."""
        deadline = asyncio.get_running_loop().time() + wait_seconds
        position = (0, 0)
        while True:
            answer = await self.answer(caller, task_id)
            left = deadline - asyncio.get_running_loop().time()
            if answer.result is not None or answer.task.asks_people or left <= 0:
                return answer
            position = await self._await_event(task_id, {"task_completed", "input_required"}, left, after=position)

    async def call(
        self, caller: Caller, request: TaskRequest, *, wait_seconds: float, idempotency_key: str | None = None
    ) -> TaskAnswer:
        """Start a call and wait for its answer at most `wait_seconds`. The task continues after that."""
        task = await self.start(caller, request, idempotency_key=idempotency_key)
        if wait_seconds <= 0:
            return TaskAnswer(task=task)
        if task.executor == "async" or task.is_final:
            return await self._answer_to(caller, task, wait_seconds)
        ended = await self._end_within(task.id, wait_seconds)
        if ended is None:
            described = await self.describe(caller, task.id)
            return TaskAnswer(task=described.model_copy(update={"reused": task.reused}))
        self.starter.has_ended(caller.id, task.id)
        if self.limits.unread.room_of(caller.id).is_full:
            del ended
            return await self._answer_to(caller, task, 0)
        outcome, ended_at = ended
        status = _status_after(outcome.result)
        finished = {
            "status": status,
            "status_message": outcome.result.headline,
            "finished_at": ended_at,
            "run": outcome.run,
            "cost_usd": outcome.cost_usd,
            "answered": status is not calls.TaskStatus.CANCELLED,
        }
        task = await self._with_expiry(task.model_copy(update=finished))
        task = task.model_copy(update={"error": failure_of(task, outcome.result.error)})
        return TaskAnswer(task=task, result=outcome.result)

    async def _answer_to(self, caller: Caller, task: Task, wait_seconds: float) -> TaskAnswer:
        """The answer of a task that was just started, or that answers an identical call."""
        answer = await self.answer(caller, task.id, wait_seconds=wait_seconds)
        return answer.model_copy(update={"task": answer.task.model_copy(update={"reused": task.reused})})

    async def cancel(self, caller: Caller, task_id: str) -> Task:
        """Request cancellation of the task, or of its run if only that has not ended. Raises `TaskFinished`.

        The task is `cancelled` once the platform reports that its run has ended.
        """
        return await self.cancel_by(Principal(caller), task_id)

    async def cancel_by(self, principal: Principal, task_id: str) -> Task:
        """Like `cancel`; with the scope `admin`, also for tasks of other callers."""
        async with self.audit.action(AuditEvent.TASK_CANCELLED, principal.caller, task=task_id) as action:
            description = await self._described_for_any(task_id)
            owner = task_view.owner_of(description)
            if owner != principal.caller.id:
                if "admin" not in principal.scopes:
                    raise _task_not_found(task_id)
                action.note(detail=f"task of {owner}")
            if not await task_view.is_cancellable(description):
                raise errors.TaskFinished(f"Task {task_id} has ended; there is nothing left to cancel.")
            with temporal_errors():
                await cancel_workflow(self.client, description)
        return await self.viewed(await self._described_for_any(task_id))

    async def cancel_if_open(self, caller: Caller, task_id: str) -> None:
        """Cancel the task unless it has ended already."""
        with suppress(errors.TaskFinished):
            await self.cancel(caller, task_id)

    async def submit_input(self, principal: Principal, task_id: str, answers: dict[str, InputAnswer]) -> Task:
        """Answer questions of the caller's task, or of another's that waits for the caller's approval.

        Raises `InvalidCall` for an answer that breaks the question's schema, `AnswerNotTaken` when the question is not
        open, `ForbiddenScope`, `ApproverNeeded`, `TaskFinished`, `TaskNotFound`.
        """
        caller = principal.caller
        async with self.audit.action(AuditEvent.TASK_ANSWERED, caller, task=task_id) as action:
            task, maker, description = await self._seen(principal, task_id)
            action.event, about = answer_event(task, answers)
            action.note(**about)
            if maker != caller.id:
                action.note(detail=f"call of {maker}")
            require_answering(principal, task, maker, answers)
            if task.finished_at is not None or task.is_final:
                raise _no_questions(task_id)
            await self._check_tool_fits(description)
            sealed = await sealed_answers(self.admission, caller, task, answers)
            await self._submit(task_id, SubmitInput(answers=sealed, answered_by=caller.id))
        return await self.describe(caller, task_id) if maker == caller.id else after_approval(task)

    async def _check_tool_fits(self, description: temporal.WorkflowExecutionDescription) -> None:
        """Raise `AnswerNotTaken` for a task whose tool was changed so that it cannot continue, and wake the task.

        Its step fails then, so that operators see it among the stuck workflows.
        """
        summary = await task_view.memo_model(description, memo.SUMMARY, calls.TaskSummary)
        change = change_of_tool(summary.mode, summary.tool, summary.admitted_tool) if summary is not None else None
        if summary is None or change is None:
            return
        with temporal_errors(missing=_no_questions(description.id)):
            await self.client.get_workflow_handle(description.id).signal(ToolCallWorkflow.release)
        hint = "The question stays open: answer again when the operator has restored the tool."
        raise errors.AnswerNotTaken(
            ErrorEnvelope.permanent(ErrorCategory.CONFLICT, summary.tool, waiting_message(change), hint=hint)
        )

    async def _submit(self, task_id: str, submitted: SubmitInput) -> None:
        handle = self.client.get_workflow_handle_for(ToolCallWorkflow.run, task_id)
        try:
            with temporal_errors(missing=_task_not_found(task_id)):
                await answer_of_worker(
                    handle.execute_update(ToolCallWorkflow.submit_input, submitted),  # pyright: ignore[reportUnknownMemberType]  # a type is left open
                    "Get the task, and answer again if its question is still open.",
                )
        except temporal.WorkflowUpdateFailedError as error:
            raise answer_error(task_id, error) from error
        except errors.TaskNotFound:
            raise _no_questions(task_id) from None

    def check_front_door_tool(self, caller: Caller, tool: Tool) -> None:
        """Raise `InvalidCall` unless the operator's rules allow a tool that the entry point answers locally."""
        self.admission.check_front_door_tool(caller, tool)

    async def list(self, principal: Principal, listing: TaskListing) -> TaskPage:
        """A page of tasks, in the order of Temporal's visibility: open ones, then those that ended last.

        They are the caller's own, or with `admin` those of `listing.caller`. Raises `ForbiddenScope`, and `BadRequest`
        for an invalid page token.
        """
        whose = principal.callers_named(listing.caller)
        # A page of 200 takes the event loop 80 ms, and Temporal's database as long.
        async with self.limits.awaited_slot(principal.caller.id, "concurrent_lists"):
            query, size = visibility.list_query(whose, listing), min(listing.page_size, MAX_PAGE)
            found, token = await visibility.page_of(self.client, query, size=size, token=listing.page_token)
            listed = [(execution, task) for execution in found if (task := await self._listed(execution)) is not None]
            return TaskPage(tasks=tuple(await self._details.all_completed(listed)), next_page_token=token)

    async def events(self, caller: Caller, task_id: str, *, after: str | None = None) -> AsyncGenerator[TaskEvent]:
        """Events after the one with id `after`, as they happen. Raises `TaskNotFound`, `BadRequest` for another id."""
        position = position_of(after)
        await self.described(caller, task_id)
        return self._stream(caller, task_id, position)

    async def readiness(self, *, timeout_seconds: float) -> tuple[bool, bool]:
        """Return whether the Temporal server answers, and whether a worker polls for tool calls."""
        request = DescribeTaskQueueRequest(
            namespace=self.client.namespace,
            task_queue=TaskQueue(name=TOOLS_TASK_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        try:
            async with asyncio.timeout(timeout_seconds):
                with temporal_errors():
                    described = await self.client.workflow_service.describe_task_queue(request, retry=False)
        except (RPCError, errors.TemporalUnavailable, TimeoutError):
            return False, False
        return True, bool(described.pollers)

    async def count_open(self) -> int:
        """The number of open tasks of all callers."""
        with temporal_errors():
            return (await self.client.count_workflows(visibility.open_tasks_query(None))).count

    async def count_near_deadline(self) -> int:
        """The number of tasks of all callers that soon close for lack of an answer."""
        with temporal_errors():
            return (await self.client.count_workflows(visibility.near_deadline_query(datetime.now(UTC)))).count

    async def _stream(self, caller: Caller, task_id: str, position: Position) -> AsyncGenerator[TaskEvent]:
        room = self.limits.unread.room_of(caller.id)
        with temporal_errors():
            async with aclosing(stream_events(self.client, task_id, after=position, room=room)) as events:
                async for event in events:
                    yield event
                    del event

    async def _existing(self, caller: Caller, task_id: str, fingerprints: tuple[str, ...]) -> Task:
        description = await self.described(caller, task_id)
        with temporal_errors():
            first = await task_view.memo_model(description, memo.SUMMARY, calls.TaskSummary)
        if first is None or first.fingerprint not in fingerprints:
            message = f"This key started task {task_id} with another request. Use a new key for a new request."
            raise errors.IdempotencyKeyReused(message)
        return await self.viewed(description)

    async def described(self, caller: Caller, task_id: str) -> temporal.WorkflowExecutionDescription:
        """The workflow of the caller's task. Raises `TaskNotFound`."""
        description = await self._described_for_any(task_id)
        if task_view.owner_of(description) != caller.id:
            raise _task_not_found(task_id)
        return description

    async def _described_for_any(self, task_id: str) -> temporal.WorkflowExecutionDescription:
        with temporal_errors(missing=_task_not_found(task_id)):
            description = await self.client.get_workflow_handle(task_id).describe()
        # A caller also owns its sessions' workflows; those are not tasks.
        if description.workflow_type != TASK_WORKFLOW:
            raise _task_not_found(task_id)
        return description

    async def _seen(
        self, principal: Principal, task_id: str
    ) -> tuple[Task, str | None, temporal.WorkflowExecutionDescription]:
        """The task as the caller may see it, the id of its caller, and its description. Raises `TaskNotFound`."""
        description = await self._described_for_any(task_id)
        maker, task = task_view.owner_of(description), await self.viewed(description)
        shown = task if maker == principal.caller.id else self.admission.approvers.view_of(principal, maker, task)
        if shown is None:
            raise _task_not_found(task_id)
        return shown, maker, description

    async def viewed(self, description: temporal.WorkflowExecutionDescription) -> Task:
        """The task of a workflow. Raises `TaskNotFound` for a workflow of another kind."""
        task = await self._listed(description)
        if task is None:
            raise _task_not_found(description.id)
        return await self._details.completed(description, task)

    async def _listed(self, execution: temporal.WorkflowExecution) -> Task | None:
        """The task of a workflow, with the reason if it cannot be read; None for a workflow of another kind."""
        try:
            task = await task_view.task_from(execution, ui_url=self.ui_url, namespace=self.client.namespace)
            return await self._with_expiry(task) if task is not None else None
        except UNREADABLE as error:
            return task_view.unreadable_task(execution, unreadable_words(error))

    async def _with_expiry(self, task: Task) -> Task:
        """The task with the time until which Temporal keeps it, if that can be determined now."""
        if task.finished_at is None:
            return task
        if self._retention is None:
            request = DescribeNamespaceRequest(namespace=self.client.namespace)
            with suppress(RPCError):
                described = await self.client.workflow_service.describe_namespace(request)
                self._retention = described.config.workflow_execution_retention_ttl.ToTimedelta()
        expires_at = task.finished_at + self._retention if self._retention else None
        return task.model_copy(update={"expires_at": expires_at})

    async def result_of(self, description: temporal.WorkflowExecutionDescription) -> calls.ToolResult | None:
        """The handler's answer; None while the handler has not returned."""
        if description.status is temporal.WorkflowExecutionStatus.RUNNING:
            with temporal_errors():
                return await task_view.memo_model(description, memo.RESULT, calls.ToolResult)
        ended = await self._end_within(description.id, None)
        if ended is not None and description.status is temporal.WorkflowExecutionStatus.COMPLETED:
            self._details.learn(description.run_id, ended[0])
        return await self.resolutions.result_of(description.id, ended[0].result) if ended else None

    async def outcome_of(self, task_id: str) -> calls.ToolResult:
        """The result with which the ended workflow of a task ended, whatever was found out later."""
        ended = await self._end_within(task_id, None)
        assert ended is not None
        return ended[0].result

    async def _end_within(
        self, task_id: str, seconds: float | None
    ) -> tuple[calls.ToolOutcome, datetime | None] | None:
        """The result of the task's workflow and the time of its end; None if it has not ended within `seconds`."""
        handle = self.client.get_workflow_handle_for(ToolCallWorkflow.run, task_id)
        closed = handle.fetch_history_events(
            wait_new_event=True,
            event_filter_type=temporal.WorkflowHistoryEventFilterType.CLOSE_EVENT,
            skip_archival=True,
        )
        ended_at: datetime | None = None
        try:
            with temporal_errors(missing=_task_not_found(task_id)):
                async with asyncio.timeout(seconds):
                    event = await anext(closed)
                    ended_at = event.event_time.ToDatetime(tzinfo=UTC)
                    if event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
                        outcome = await task_outcome(handle)
                    else:
                        payloads = event.workflow_execution_completed_event_attributes.result.payloads
                        context = WorkflowSerializationContext(self.client.namespace, task_id)
                        converter = self.client.data_converter.with_context(context)
                        [outcome] = await converter.decode(payloads, [calls.ToolOutcome])
                return await whole_outcome(self.client, task_id, outcome), ended_at
        except TimeoutError:
            return None
        except temporal.WorkflowFailureError as error:
            return calls.ToolOutcome(result=calls.ToolResult.failed(abnormal(task_id, error))), ended_at

    async def _await_event(
        self, task_id: str, names: set[TaskEventName], seconds: float, *, after: Position = (0, 0)
    ) -> Position:
        """Wait at most `seconds` for one of these events after a position. Returns the last position that was read."""
        with temporal_errors(missing=_task_not_found(task_id)), suppress(TimeoutError):
            async with asyncio.timeout(seconds), aclosing(task_events(self.client, task_id, after=after)) as events:
                async for event in events:
                    after = position_of(event.id)
                    if event.name in names:
                        return after
        return after


def _status_after(result: calls.ToolResult) -> calls.TaskStatus:
    """The status of a task that ended with `result`."""
    if result.error is not None and result.error.category is ErrorCategory.CANCELLED and not result.structured:
        return calls.TaskStatus.CANCELLED
    return calls.TaskStatus.FAILED if result.is_error else calls.TaskStatus.COMPLETED


def _no_questions(task_id: str) -> errors.TaskFinished:
    return errors.TaskFinished(f"Task {task_id} has ended; it has no open questions.")


def _task_not_found(task_id: str) -> errors.TaskNotFound:
    message = f"You have no task {task_id!r}. Tasks are kept for as long as Temporal keeps their history."
    return errors.TaskNotFound(message)


def _without_values(error: ErrorEnvelope) -> ErrorEnvelope:
    """`error` without the wrong values, which may be secret, and of limited size, as the session's history keeps it."""
    found = (error.violations or ())[:_MAX_REPORTED_VIOLATIONS]
    places = tuple(Violation(path=one.path[:_MAX_REPORTED_PATH_CHARS], message="It does not fit.") for one in found)
    return error.model_copy(update={"violations": places or None})
