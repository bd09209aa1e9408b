"""`TaskClient`: tasks over Temporal. There is no task table: Temporal is the task store."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.api.enums.v1 import EventType, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHistoryEventFilterType,
    WorkflowUpdateFailedError,
)
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from outlast.activities.contracts import Caller
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.access.principal import Principal
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import Action, AuditLog
from outlast.api.errors import (
    BadRequest,
    IdempotencyKeyReused,
    InvalidCall,
    TaskFinished,
    TaskNotFound,
    TemporalUnavailable,
    TooManyRequests,
)
from outlast.api.metrics import REUSED_CALLS
from outlast.api.tasks.admission import Admission, AdmittedCall
from outlast.api.tasks.approvers import after_approval
from outlast.api.tasks.deduplication import Deduplication, ReusableCall
from outlast.api.tasks.option_rules import Reusable
from outlast.api.tasks.starter import TaskStarter, task_id_of
from outlast.api.tasks.submitted_input import answer_error, answer_event, require_answering, sealed_answers
from outlast.api.temporal.errors import answer_of_worker, temporal_errors, unreadable_words
from outlast.api.temporal.history_details import HistoryDetails, whole_outcome
from outlast.api.temporal.task_events import position_of, stream_events, task_events
from outlast.api.temporal.task_view import (
    is_cancellable,
    memo_model,
    owner_of,
    task_from,
    task_of,
    unreadable_task,
    workflow_url,
)
from outlast.api.temporal.temporal_names import TASK_WORKFLOW
from outlast.api.temporal.visibility import (
    approvals_query,
    list_query,
    near_deadline_query,
    read_page_token,
    write_page_token,
)
from outlast.contracts.events import TaskEvent
from outlast.contracts.tasks import Task, TaskAnswer, TaskListing, TaskPage, TaskRequest
from outlast.worker.ended_runs import abnormal
from outlast.worker.payloads.external_storage import UNREADABLE
from outlast.worker.stuck_tasks import cancel_workflow
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.questions import InputAnswer, SubmitInput
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import (
    CallRefused,
    TaskStatus,
    TaskSummary,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from outlast.workflows.handler_api.observability import MESSAGES, TASK_LOGGER, task_facts
from outlast.workflows.signatures import signature
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.framework.tool import Tool

log = logging.getLogger(TASK_LOGGER)

MAX_PAGE = 200
_MAX_REPORTED_VIOLATIONS = 20
_MAX_REPORTED_PATH_CHARS = 200
_EXPECTED_BYTES = 256 * 1024
"""Room that is taken to read a result: its size is known when it was read."""
_OLD_PAGE = "The page token is no longer valid; list again from the first page."


class TaskClient:
    """Starts, describes, awaits, cancels, lists and follows tasks, for every entry point.

    Each method raises an `outlast.api.errors.ApiError` when it fails, for example `TemporalUnavailable`.
    """

    def __init__(
        self,
        client: Client,
        admission: Admission,
        starter: TaskStarter,
        audit: AuditLog,
        limits: CallerLimits,
        deduplication: Deduplication,
        *,
        ui_url: str | None,
    ) -> None:
        """Start with `starter` what `admission` lets through; record what callers do in `audit`.

        Starts and lists take turns within the `limits` of their caller. Identical calls share a task by
        `deduplication`. `ui_url` is the root of the Temporal UI, for links.
        """
        self._client = client
        self._admission = admission
        self._starter = starter
        self._approvers = admission.approvers
        self._audit = audit
        self._ui_url = ui_url
        self._kept_for: timedelta | None = None
        self._facts = HistoryDetails(client)
        self._limits = limits
        self._deduplication = deduplication

    async def start(self, caller: Caller, request: TaskRequest, *, idempotency_key: str | None = None) -> Task:
        """Check the call and start it, or queue it. The same key and request give the same task.

        Raises `InvalidCall`, which the call's session counts, `CallTooLarge`, `IdempotencyKeyReused`, and
        `TooManyRequests` when too many tasks are queued or wait to be started. Nothing is started then.
        """
        async with self._audit.action(
            AuditEvent.TASK_STARTED, caller, tool=request.tool, session=request.session_id
        ) as action:
            return await self._start(caller, request, idempotency_key, action)

    async def _start(self, caller: Caller, request: TaskRequest, idempotency_key: str | None, action: Action) -> Task:
        try:
            admitted = await self._admission.admit(caller, request)
        except InvalidCall as error:
            await self.report_refused_call(caller, request.session_id, error.envelope)
            raise
        call, summary = admitted.call, admitted.summary
        task_id = task_id_of(caller, call.tool, idempotency_key)
        action.note(task=task_id, tool=call.tool, actor=summary.actor)
        if admitted.reuse is not None:
            return await self._meet(caller, admitted, admitted.reuse, task_id if idempotency_key else None, action)
        try:
            # What is beyond the limit would wait in Temporal's database, in front of others.
            async with self._limits.awaited_slot(caller.id, "concurrent_starts"):
                status = await self._starter.start(admitted, task_id)
        except WorkflowAlreadyStartedError:
            action.note(outcome="repeated")
            return await self._existing(caller, task_id, admitted.fingerprints)
        except TooManyRequests:
            if idempotency_key is None:
                raise
            with suppress(TaskNotFound):
                # A repeated request starts nothing, so nothing keeps it from its task.
                return await self._existing(caller, task_id, admitted.fingerprints)
            raise
        _log_start(call, task_id, status)
        return self._started(task_id, admitted, status)

    async def _meet(
        self, caller: Caller, admitted: AdmittedCall, reuse: Reusable, request_key: str | None, action: Action
    ) -> Task:
        """The task of an identical call, or a new one that later identical calls share."""
        summary = admitted.summary.model_copy(update={"request_key": request_key})
        keyed = replace(admitted, summary=summary)

        async def start(task_id: str) -> Task:
            async with self._limits.awaited_slot(caller.id, "concurrent_starts"):
                status = await self._starter.start(keyed, task_id)
            REUSED_CALLS.labels("started").inc()
            _log_start(admitted.call, task_id, status)
            return self._started(task_id, keyed, status)

        task = await self._deduplication.meet(ReusableCall(caller, reuse, request_key), self, start)
        action.note(task=task.id, outcome="reused" if task.reused else "ok")
        if task.reused:
            REUSED_CALLS.labels("joined" if task.reused.joined else "answered").inc()
        return task

    async def report_refused_call(self, caller: Caller, session_id: str | None, error: ErrorEnvelope) -> None:
        """Report a call that did not become a task to its session, if any. The session counts it as a failed task."""
        if session_id is not None:
            error = _without_values(error)
            refused = CallRefused(tool=error.tool, error=error, error_signature=signature(error))
            await self._starter.report_refused_call(caller.id, session_id, refused)

    async def describe(self, caller: Caller, task_id: str) -> Task:
        """The task as it is now. Readable while no worker is alive. Raises `TaskNotFound`."""
        return await self.viewed(await self.described(caller, task_id))

    async def look_at(self, principal: Principal, task_id: str) -> Task:
        """The caller's task, or the open approvals of another's that wait for the caller. Raises `TaskNotFound`."""
        return (await self._seen(principal, task_id))[0]

    async def to_approve(self, principal: Principal, *, tool: str | None = None) -> AsyncIterator[Task]:
        """Tasks of other callers that wait for the caller's approval, the newest first, as it sees them."""
        roles = self._approvers.roles_of(principal)
        if not roles:
            return
        query = approvals_query(principal.caller.id, roles, tool=tool)
        with temporal_errors():
            async for execution in self._client.list_workflows(query, page_size=MAX_PAGE):
                task = await self._listed(execution)
                shown = self._approvers.view_of(principal, owner_of(execution), task) if task is not None else None
                if shown is not None:
                    yield shown

    async def answer(self, caller: Caller, task_id: str, *, wait_seconds: float = 0) -> TaskAnswer:
        """The task's result, waiting for it at most `wait_seconds`. Raises `TaskNotFound`.

        It waits longer while the caller's clients have not read earlier results, see `unread_bytes`.
        """
        description = await self.described(caller, task_id)
        with temporal_errors():
            summary = await memo_model(description, memo.SUMMARY, TaskSummary)
        room = self._limits.unread.room_of(caller.id)
        async with room.hold(_EXPECTED_BYTES):
            result = await self.result_of(description)
        if result is None and wait_seconds > 0 and summary is not None:
            await self._await_handler(task_id, summary.executor, wait_seconds)
            description = await self.described(caller, task_id)
            async with room.hold(_EXPECTED_BYTES):
                result = await self.result_of(description)
        return TaskAnswer(task=await self.viewed(description), result=result)

    async def answer_or_question(self, caller: Caller, task_id: str, *, wait_seconds: float) -> TaskAnswer:
        """Like `answer`, but also returns as soon as the task asks its client something that a person or model can
        answer.
        """
        deadline = asyncio.get_running_loop().time() + wait_seconds
        position = (0, 0)
        while True:
            answer = await self.answer(caller, task_id)
            left = deadline - asyncio.get_running_loop().time()
            if answer.result is not None or answer.task.asks_people or left <= 0:
                return answer
            position = await self._await_change(task_id, left, after=position)

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
        self._starter.has_ended(caller.id, task.id)
        if self._limits.unread.room_of(caller.id).is_full:
            del ended
            return await self._answer_to(caller, task, 0)
        outcome, status = ended.outcome, _status_after(ended.outcome.result)
        finished = {
            "status": status,
            "status_message": outcome.result.headline,
            "finished_at": ended.at,
            "run": outcome.run,
            "cost_usd": outcome.cost_usd,
            "answered": status is not TaskStatus.CANCELLED,
        }
        task = await self._with_expiry(task.model_copy(update=finished))
        return TaskAnswer(task=task, result=outcome.result)

    async def _answer_to(self, caller: Caller, task: Task, wait_seconds: float) -> TaskAnswer:
        """The answer of a task that was just started, or that answers an identical call."""
        answer = await self.answer(caller, task.id, wait_seconds=wait_seconds)
        return answer.model_copy(update={"task": answer.task.model_copy(update={"reused": task.reused})})

    async def cancel(self, caller: Caller, task_id: str) -> Task:
        """Request cancellation. The task is `cancelled` once the platform reports that its run has ended.

        If the task is completed but its run still runs, the run is aborted. Raises `TaskFinished` when nothing is left
        to cancel, and `TaskNotFound`.
        """
        async with self._audit.action(AuditEvent.TASK_CANCELLED, caller, task=task_id):
            description = await self.described(caller, task_id)
            if not await is_cancellable(description):
                raise TaskFinished(f"Task {task_id} has ended; there is nothing left to cancel.")
            with temporal_errors():
                await cancel_workflow(self._client, description)
        return await self.describe(caller, task_id)

    async def cancel_if_open(self, caller: Caller, task_id: str) -> None:
        """Cancel the task unless it has ended already."""
        with suppress(TaskFinished):
            await self.cancel(caller, task_id)

    async def submit_input(self, principal: Principal, task_id: str, answers: dict[str, InputAnswer]) -> Task:
        """Answer questions of the caller's task, or of another's that waits for the caller's approval.

        Raises `InvalidCall` for an answer that breaks the question's schema, `AnswerNotTaken` when the question is not
        open, `ForbiddenScope`, `ApproverNeeded`, `TaskFinished`, `TaskNotFound`. Nothing changes then.
        """
        caller = principal.caller
        async with self._audit.action(AuditEvent.TASK_ANSWERED, caller, task=task_id) as action:
            task, maker = await self._seen(principal, task_id)
            action.event, about = answer_event(task, answers)
            action.note(**about)
            if maker != caller.id:
                action.note(detail=f"call of {maker}")
            require_answering(principal, task, maker, answers)
            if task.finished_at is not None or task.is_final:
                raise TaskFinished(f"Task {task_id} has ended; it asks nothing any more.")
            sealed = await sealed_answers(self._admission, caller, task, answers)
            await self._submit(task_id, SubmitInput(answers=sealed, answered_by=caller.id))
        return await self.describe(caller, task_id) if maker == caller.id else after_approval(task)

    async def _submit(self, task_id: str, submitted: SubmitInput) -> None:
        handle = self._client.get_workflow_handle_for(ToolCallWorkflow.run, task_id)
        try:
            with temporal_errors(missing=_task_not_found(task_id)):
                await answer_of_worker(
                    handle.execute_update(ToolCallWorkflow.submit_input, submitted),  # pyright: ignore[reportUnknownMemberType]  # a type is left open
                    "Get the task, and answer again if it still asks.",
                )
        except WorkflowUpdateFailedError as error:
            raise answer_error(task_id, error) from error
        except TaskNotFound:
            raise TaskFinished(f"Task {task_id} has ended; it asks nothing any more.") from None

    def check_front_door_tool(self, caller: Caller, tool: Tool) -> None:
        """Raise `InvalidCall` unless the operator's rules allow a tool that the entry point answers locally."""
        self._admission.check_front_door_tool(caller, tool)

    async def list(self, caller: Caller, listing: TaskListing) -> TaskPage:
        """The caller's tasks: open ones first, then those that ended last (the order of Temporal's visibility).

        Raises `BadRequest` for a page token that is not one of ours.
        """
        # A page of 200 takes the event loop 80 ms, and Temporal's database as long.
        async with self._limits.awaited_slot(caller.id, "concurrent_lists"):
            query, size = list_query(caller.id, listing), min(listing.page_size, MAX_PAGE)
            token = read_page_token(listing.page_token, query) if listing.page_token else None
            pages = self._client.list_workflows(query, page_size=size, next_page_token=token)
            with temporal_errors(invalid=BadRequest(_OLD_PAGE)):
                await pages.fetch_next_page(page_size=size)
            listed = [(execution, await self._listed(execution)) for execution in pages.current_page or ()]
            tasks = await self._facts.all_completed((execution, task) for execution, task in listed if task is not None)
            next_token = write_page_token(pages.next_page_token, query) if pages.next_page_token else None
            return TaskPage(tasks=tuple(tasks), next_page_token=next_token)

    async def events(self, caller: Caller, task_id: str, *, after: str | None = None) -> AsyncGenerator[TaskEvent]:
        """Events after the one with id `after`, as they happen. Raises `TaskNotFound`, or `BadRequest` for a bad id."""
        position = position_of(after)
        await self.described(caller, task_id)
        return self._stream(caller, task_id, position)

    async def readiness(self, *, timeout_seconds: float) -> tuple[bool, bool]:
        """Whether the Temporal server answers, and whether a worker polls for tool calls."""
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=TOOLS_TASK_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        try:
            async with asyncio.timeout(timeout_seconds):
                with temporal_errors():
                    described = await self._client.workflow_service.describe_task_queue(request, retry=False)
        except (RPCError, TemporalUnavailable, TimeoutError):
            return False, False
        return True, bool(described.pollers)

    async def count_open(self) -> int:
        """The number of open tasks of all callers."""
        with temporal_errors():
            query = f"WorkflowType = '{TASK_WORKFLOW}' AND ExecutionStatus = 'Running'"
            return (await self._client.count_workflows(query)).count

    async def count_near_deadline(self) -> int:
        """The number of tasks of all callers that wait for an answer and soon close without one."""
        with temporal_errors():
            return (await self._client.count_workflows(near_deadline_query(datetime.now(UTC)))).count

    async def _stream(self, caller: Caller, task_id: str, position: tuple[int, int]) -> AsyncGenerator[TaskEvent]:
        room = self._limits.unread.room_of(caller.id)
        with temporal_errors():
            async with aclosing(stream_events(self._client, task_id, after=position, room=room)) as events:
                async for event in events:
                    yield event
                    del event

    async def _existing(self, caller: Caller, task_id: str, fingerprints: tuple[str, ...]) -> Task:
        description = await self.described(caller, task_id)
        with temporal_errors():
            first = await memo_model(description, memo.SUMMARY, TaskSummary)
        if first is None or first.fingerprint not in fingerprints:
            raise IdempotencyKeyReused(
                f"This key started task {task_id} with another request. Use a new key for a new request."
            )
        return await self.viewed(description)

    async def described(self, caller: Caller, task_id: str) -> WorkflowExecutionDescription:
        """The workflow of the caller's task. Raises `TaskNotFound`."""
        description = await self._described_for_any(task_id)
        if owner_of(description) != caller.id:
            raise _task_not_found(task_id)
        return description

    async def _described_for_any(self, task_id: str) -> WorkflowExecutionDescription:
        with temporal_errors(missing=_task_not_found(task_id)):
            description = await self._client.get_workflow_handle(task_id).describe()
        # A caller also owns its sessions' workflows; those are not tasks.
        if description.workflow_type != TASK_WORKFLOW:
            raise _task_not_found(task_id)
        return description

    async def _seen(self, principal: Principal, task_id: str) -> tuple[Task, str | None]:
        """The task as the caller may see it, and whose it is. Raises `TaskNotFound`."""
        description = await self._described_for_any(task_id)
        maker, task = owner_of(description), await self.viewed(description)
        shown = task if maker == principal.caller.id else self._approvers.view_of(principal, maker, task)
        if shown is None:
            raise _task_not_found(task_id)
        return shown, maker

    async def viewed(self, description: WorkflowExecutionDescription) -> Task:
        """The task that a workflow is. Raises `TaskNotFound` for one that is none."""
        task = await self._listed(description)
        if task is None:
            raise _task_not_found(description.id)
        return await self._facts.completed(description, task)

    async def _listed(self, execution: WorkflowExecution) -> Task | None:
        """A task, also one that cannot be read: it is shown as such, and spoils no list."""
        try:
            return await self._view_or_none(execution)
        except UNREADABLE as error:
            return unreadable_task(execution, unreadable_words(error))

    async def _view_or_none(self, execution: Any) -> Task | None:
        task = await task_from(execution, ui_url=self._ui_url, namespace=self._client.namespace)
        return await self._with_expiry(task) if task is not None else None

    async def _with_expiry(self, task: Task) -> Task:
        if task.finished_at is None:
            return task
        retention = await self._retention()
        return task.model_copy(update={"expires_at": task.finished_at + retention}) if retention else task

    async def _retention(self) -> timedelta | None:
        """How long Temporal keeps ended workflows; None if it cannot be determined now."""
        if self._kept_for is None:
            request = DescribeNamespaceRequest(namespace=self._client.namespace)
            with suppress(RPCError):
                described = await self._client.workflow_service.describe_namespace(request)
                self._kept_for = described.config.workflow_execution_retention_ttl.ToTimedelta()
        return self._kept_for

    async def result_of(self, description: WorkflowExecutionDescription) -> ToolResult | None:
        """The handler's answer; None while the handler has not returned."""
        if description.status is WorkflowExecutionStatus.RUNNING:
            with temporal_errors():
                return await memo_model(description, memo.RESULT, ToolResult)
        ended = await self._end_within(description.id, None)
        if ended is not None and description.status is WorkflowExecutionStatus.COMPLETED:
            self._facts.learn(description.run_id, ended.outcome)
        return ended.outcome.result if ended else None

    async def _end_within(self, task_id: str, seconds: float | None) -> "_End | None":
        """How and when the workflow ended, or None when it has not within `seconds`."""
        handle = self._client.get_workflow_handle_for(ToolCallWorkflow.run, task_id)
        closed = handle.fetch_history_events(
            wait_new_event=True, event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT, skip_archival=True
        )
        ended_at: datetime | None = None
        try:
            with temporal_errors(missing=_task_not_found(task_id)):
                async with asyncio.timeout(seconds):
                    event = await anext(closed)
                    ended_at = event.event_time.ToDatetime(tzinfo=UTC)
                    if event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
                        outcome = await handle.result()  # raises the error with which it ended
                    else:
                        payloads = event.workflow_execution_completed_event_attributes.result.payloads
                        context = WorkflowSerializationContext(self._client.namespace, task_id)
                        converter = self._client.data_converter.with_context(context)
                        [outcome] = await converter.decode(payloads, [ToolOutcome])
                return _End(await whole_outcome(self._client, task_id, outcome), ended_at)
        except TimeoutError:
            return None
        except WorkflowFailureError as error:
            return _End(ToolOutcome(result=ToolResult.failed(abnormal(task_id, error))), ended_at)

    async def _await_handler(self, task_id: str, executor: str, seconds: float) -> None:
        """Return when the handler has returned, or after `seconds`."""
        if executor != "async":
            await self._end_within(task_id, seconds)
            return
        with temporal_errors(missing=_task_not_found(task_id)), suppress(TimeoutError):
            async with asyncio.timeout(seconds), aclosing(task_events(self._client, task_id)) as events:
                async for event in events:
                    if event.name == "task_completed":
                        return

    async def _await_change(self, task_id: str, seconds: float, *, after: tuple[int, int]) -> tuple[int, int]:
        """Wait at most `seconds` until the handler returns or asks something; the position up to which was read."""
        with temporal_errors(missing=_task_not_found(task_id)), suppress(TimeoutError):
            async with asyncio.timeout(seconds), aclosing(task_events(self._client, task_id, after=after)) as events:
                async for event in events:
                    after = position_of(event.id)
                    if event.name in ("task_completed", "input_required"):
                        return after
        return after

    def _started(self, task_id: str, admitted: AdmittedCall, status: TaskStatus) -> Task:
        """The task that has just been started, or queued."""
        call = admitted.call
        return task_of(
            task_id,
            admitted.summary,
            status,
            batch_id=call.batch_id,
            schedule_id=call.schedule_id,
            workflow_url=workflow_url(self._ui_url, self._client.namespace, task_id),
        )


@dataclass(frozen=True)
class _End:
    """The result of a task's workflow, and when the workflow ended."""

    outcome: ToolOutcome
    at: datetime | None


def _status_after(result: ToolResult) -> TaskStatus:
    """The status of a task that ended with `result`."""
    if result.error is not None and result.error.category is ErrorCategory.CANCELLED and not result.structured:
        return TaskStatus.CANCELLED
    return TaskStatus.FAILED if result.is_error else TaskStatus.COMPLETED


def _log_start(call: ToolCall, task_id: str, status: TaskStatus) -> None:
    log.info(MESSAGES["accepted"], extra=task_facts("accepted", call, task_id))
    if status is TaskStatus.QUEUED:
        log.info(MESSAGES["queued"], extra=task_facts("queued", call, task_id))


def _task_not_found(task_id: str) -> TaskNotFound:
    return TaskNotFound(f"You have no task {task_id!r}. Tasks are kept for as long as Temporal keeps their history.")


def _without_values(error: ErrorEnvelope) -> ErrorEnvelope:
    """`error` in a form that a history may hold: messages about wrong values repeat them, and they may be secret.

    The session keeps its latest events, so the size of each is limited.
    """
    found = (error.violations or ())[:_MAX_REPORTED_VIOLATIONS]
    places = tuple(Violation(path=one.path[:_MAX_REPORTED_PATH_CHARS], message="It does not fit.") for one in found)
    return error.model_copy(update={"violations": places or None})
