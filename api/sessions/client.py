"""`SessionClient`: sessions and their turns. Temporal is their only store.

A session's workflow puts its turns in order; each turn is a workflow whose result is the conversation up to its end.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
)
from temporalio.common import (
    Priority,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import CancelledError, WorkflowAlreadyStartedError

from outlast.activities.contracts import Caller
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.llm.contracts import ImagePart, ModelMessage, TextPart
from outlast.api.access.tool_masks import MaskGate
from outlast.api.contracts.events import TurnStreamEvent
from outlast.api.contracts.sessions import MessageRequest, Session, SessionRequest, Turn, TurnSummary
from outlast.api.errors import (
    BadRequest,
    BudgetUsedUp,
    ConversationLost,
    SessionNotFound,
    TemporalUnavailable,
    TurnFinished,
    TurnNotFound,
    TurnRunning,
)
from outlast.api.offer.catalogue import Catalogue
from outlast.api.permissions import PermissionRules
from outlast.api.sessions.model_options import model_options
from outlast.api.sessions.profile import carried_rules, profile_for
from outlast.api.settings import ApiSettings
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.session_starts import ensure_session
from outlast.api.temporal.task_view import owner_of
from outlast.api.temporal.turn_events import TurnEventLog, position_of
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import session_workflow_id
from outlast.workflows.contracts.turns import (
    BeginTurn,
    SessionOverview,
    SessionProfile,
    TurnInput,
    TurnPlace,
    TurnRef,
    TurnResult,
    TurnStatus,
    turn_workflow_id,
)
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.turn import TurnWorkflow, turn_attributes
from outlast.workflows.turns.budgets import left

Answer = TypeVar("Answer")
_WORKER_SECONDS = 30.0
_START_GRACE = timedelta(minutes=1)
"""A turn without a workflow after this long was never started: the process that reserved it has died."""


class SessionClient:
    """Starts, awaits, follows and cancels sessions' turns. Raises the `ApiError`s of `api.errors`."""

    def __init__(self, client: Client, catalogue: Catalogue, settings: ApiSettings) -> None:
        """Run turns as `settings` say."""
        self._client = client
        self._catalogue = catalogue
        self._settings = settings
        self._masks = MaskGate(settings)
        self._rules = PermissionRules.parse(settings.permissions)

    async def create(self, caller: Caller, request: SessionRequest) -> Session:
        """Start a session. An existing session is returned unchanged."""
        session_id = request.session_id or f"s-{secrets.token_hex(10)}"
        profile = await profile_for(
            request,
            self._catalogue,
            caller,
            skills_dir=self._settings.skills_dir,
            masking=self._settings.masks_are_heeded,
        )
        handle = self._client.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id(caller.id, session_id))
        with temporal_errors(missing=SessionNotFound(f"{session_id!r} cannot be the id of a session.")):
            await ensure_session(self._client, caller.id, session_id)
            await _answer_of_worker(
                handle.execute_update(SessionWorkflow.open, profile)  # pyright: ignore[reportUnknownMemberType]
            )
        return await self.describe(caller, session_id)

    async def describe(self, caller: Caller, session_id: str) -> Session:
        """The session as it is now. Raises `SessionNotFound`."""
        return _session_view(session_id, await self._overview(caller, session_id))

    async def send(self, caller: Caller, session_id: str, request: MessageRequest) -> str:
        """Start the turn that answers a message and return its ID. The same message ID gives the same turn.

        Raises `SessionNotFound`, `TurnRunning`, `BudgetUsedUp`, `BadRequest`, and `TurnNotFound` for an unknown turn to
        retry.
        """
        overview = await self._overview(caller, session_id)
        turn_id = _turn_id(session_id, request.message_id, request.retry_of_assistant_message_id)
        if request.message_id is not None and await self._is_there(caller, session_id, turn_id):
            return turn_id
        profile = overview.profile or await self._opened(caller, session_id)
        options = model_options(profile, request, self._settings.model_limits)
        retried = await self._retried(caller, session_id, request.retry_of_assistant_message_id)
        parts = _parts(request, retried)
        turn, place = await self._place(caller, session_id, turn_id, request)
        if retried is not None:
            conversation = retried.conversation[: retried.began_at]
        else:
            conversation = await self._conversation_until(caller, session_id, turn.parent)
        turn_input = TurnInput(
            caller=caller,
            session_id=session_id,
            turn_id=turn_id,
            message_id=turn.message_id,
            parts=parts,
            provider_id=options.provider_id,
            model_id=options.model_id,
            tool_mask=self._masks.effective(request.tool_mask or profile.tool_mask, _own_names(profile)),
            max_steps=request.max_steps or profile.max_steps,
            budgets=left(profile.budgets, place.spent, request.budgets)[0],
            system=profile.system,
            dynamic=request.dynamic,
            snapshot=profile.snapshot,
            conversation=conversation,
            output=self._settings.output_policy(request.output or profile.output),
            run_heartbeat_seconds=self._settings.run_heartbeat_seconds,
            rules=carried_rules(self._rules, caller),
            max_output_tokens=options.max_output_tokens,
            controls=options.controls,
            earlier_failures=place.failures,
        )
        await self._start(turn_input)
        return turn_id

    async def turn(self, caller: Caller, session_id: str, turn_id: str, *, wait_seconds: float = 0) -> Turn:
        """The turn, awaited at most `wait_seconds`. Readable while no worker is alive. Raises `TurnNotFound`."""
        description = await self._described(caller, session_id, turn_id)
        if description.status is WorkflowExecutionStatus.RUNNING and wait_seconds <= 0:
            return _running(session_id, turn_id)
        try:
            result = await asyncio.wait_for(self._result(caller, session_id, turn_id), wait_seconds or None)
        except TimeoutError:
            return _running(session_id, turn_id)
        except WorkflowFailureError as error:
            return _abnormal(session_id, turn_id, error)
        return _turn_view(session_id, result)

    async def events(
        self, caller: Caller, session_id: str, turn_id: str, *, after: str | None = None
    ) -> AsyncIterator[TurnStreamEvent]:
        """The turn's events after the one with id `after`, to its end. Raises `TurnNotFound`, `BadRequest`."""
        position = position_of(after)
        description = await self._described(caller, session_id, turn_id)
        first_run = description.raw_description.workflow_execution_info.first_run_id or description.run_id or ""
        return TurnEventLog(self._client, description.id, first_run).live(after=position)

    async def cancel(self, caller: Caller, session_id: str, turn_id: str) -> Turn:
        """Stop the turn, its tools and their paid runs. Raises `TurnFinished`, `TurnNotFound`."""
        description = await self._described(caller, session_id, turn_id)
        if description.status is not WorkflowExecutionStatus.RUNNING:
            raise TurnFinished(f"Turn {turn_id} has ended; there is nothing left to cancel.")
        with temporal_errors(missing=_turn_not_found(turn_id)):
            await self._client.get_workflow_handle(description.id).cancel()
        return await self.turn(caller, session_id, turn_id)

    async def _overview(self, caller: Caller, session_id: str) -> SessionOverview:
        handle = self._client.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id(caller.id, session_id))
        missing = SessionNotFound(f"You have no session {session_id!r}. Begin one with POST /v1/sessions.")
        with temporal_errors(missing=missing):
            described = await handle.describe()
            if owner_of(described) != caller.id or described.status is not WorkflowExecutionStatus.RUNNING:
                raise missing
            return await _answer_of_worker(handle.query(SessionWorkflow.overview))

    async def _opened(self, caller: Caller, session_id: str) -> SessionProfile:
        """The session's profile, created now if the session began with a tool call."""
        await self.create(caller, SessionRequest(session_id=session_id))
        overview = await self._overview(caller, session_id)
        return overview.profile or SessionProfile()

    async def _retried(self, caller: Caller, session_id: str, turn_id: str | None) -> TurnResult | None:
        if turn_id is None:
            return None
        description = await self._described(caller, session_id, turn_id)
        if description.status is WorkflowExecutionStatus.RUNNING:
            raise TurnRunning(f"Turn {turn_id} has not ended; cancel it before you retry it.")
        return await self._ended_result(caller, session_id, turn_id)

    async def _place(
        self, caller: Caller, session_id: str, turn_id: str, request: MessageRequest
    ) -> tuple[TurnRef, TurnPlace]:
        """The turn's place in the session. Raises `TurnRunning`, `BudgetUsedUp`."""
        asked = BeginTurn(
            turn_id=turn_id,
            message_id=request.message_id or turn_id,
            retry_of=request.retry_of_assistant_message_id,
        )
        place = await self._begin(caller, session_id, asked)
        if place.busy is not None:
            await self._refuse_running(caller, session_id, place.busy)
            place = await self._begin(caller, session_id, asked.model_copy(update={"over": place.busy.turn_id}))
        if place.over is not None:
            raise BudgetUsedUp(f"{place.over} of what the session may use. Begin another session.")
        if place.turn is None:
            raise TurnRunning("Another turn of this session began meanwhile; send the message again when it has ended.")
        return place.turn, place

    async def _begin(self, caller: Caller, session_id: str, asked: BeginTurn) -> TurnPlace:
        handle = self._client.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id(caller.id, session_id))
        with temporal_errors(missing=SessionNotFound(f"Session {session_id!r} has ended.")):
            return await _answer_of_worker(
                handle.execute_update(SessionWorkflow.begin_turn, asked)  # pyright: ignore[reportUnknownMemberType]
            )

    async def _refuse_running(self, caller: Caller, session_id: str, turn: TurnRef) -> None:
        """Raise `TurnRunning` unless the turn has certainly ended."""
        try:
            description = await self._described(caller, session_id, turn.turn_id)
        except TurnNotFound:
            running = datetime.now(UTC) - turn.began < _START_GRACE
        else:
            running = description.status is WorkflowExecutionStatus.RUNNING
        if running:
            raise TurnRunning(
                f"Turn {turn.turn_id} has not ended. Wait for it or cancel it, then send the message again."
            )

    async def _conversation_until(
        self, caller: Caller, session_id: str, parent: str | None
    ) -> tuple[ModelMessage, ...]:
        return (await self._ended_result(caller, session_id, parent)).conversation if parent else ()

    async def _ended_result(self, caller: Caller, session_id: str, turn_id: str) -> TurnResult:
        try:
            return await self._result(caller, session_id, turn_id)
        except (TurnNotFound, WorkflowFailureError) as error:
            raise ConversationLost(
                f"The conversation up to turn {turn_id} is no longer kept. Begin another session."
            ) from error

    async def _result(self, caller: Caller, session_id: str, turn_id: str) -> TurnResult:
        workflow_id = turn_workflow_id(caller.id, session_id, turn_id)
        with temporal_errors(missing=_turn_not_found(turn_id)):
            return await self._client.get_workflow_handle_for(TurnWorkflow.run, workflow_id).result()

    async def _is_there(self, caller: Caller, session_id: str, turn_id: str) -> bool:
        with suppress(TurnNotFound):
            await self._described(caller, session_id, turn_id)
            return True
        return False

    async def _described(self, caller: Caller, session_id: str, turn_id: str) -> WorkflowExecutionDescription:
        missing = _turn_not_found(turn_id)
        with temporal_errors(missing=missing):
            workflow_id = turn_workflow_id(caller.id, session_id, turn_id)
            described = await self._client.get_workflow_handle(workflow_id).describe()
        if owner_of(described) != caller.id:
            raise missing
        return described

    async def _start(self, turn_input: TurnInput) -> None:
        with temporal_errors(missing=_turn_not_found(turn_input.turn_id)), suppress(WorkflowAlreadyStartedError):
            caller_id = turn_input.caller.id
            await self._client.start_workflow(
                TurnWorkflow.run,
                turn_input,
                id=turn_workflow_id(caller_id, turn_input.session_id, turn_input.turn_id),
                task_queue=TOOLS_TASK_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                search_attributes=turn_attributes(turn_input),
                static_summary=f"turn of session {turn_input.session_id} of {caller_id}",
                priority=Priority(fairness_key=caller_id[:64]) if self._settings.fairness else Priority.default,
            )


async def _answer_of_worker(answer: Awaitable[Answer]) -> Answer:
    """Await an answer that only a worker can give. Raises `TemporalUnavailable` when no worker answers in time."""
    try:
        async with asyncio.timeout(_WORKER_SECONDS):
            return await answer
    except TimeoutError:
        raise TemporalUnavailable(
            f"No worker has answered within {_WORKER_SECONDS:g} seconds. Nothing is lost; ask again shortly."
        ) from None


def _turn_id(session_id: str, message_id: str | None, retry_of: str | None) -> str:
    """The turn's ID, derived from the message ID if there is one. A retry of the answer is another turn."""
    if message_id is None:
        return f"t-{secrets.token_hex(10)}"
    named = [session_id, message_id, *([retry_of] if retry_of else [])]
    return f"t-{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:20]}"


def _parts(request: MessageRequest, retried: TurnResult | None) -> tuple[TextPart | ImagePart, ...]:
    if isinstance(request.message, str) and request.message:
        return (TextPart(text=request.message),)
    if request.message and not isinstance(request.message, str):
        return request.message
    if retried is None:
        raise BadRequest("There is no message: give `message`, or the assistant's message to retry.")
    parts = retried.conversation[retried.began_at].parts
    return tuple(part for part in parts if isinstance(part, TextPart | ImagePart))


def _own_names(profile: SessionProfile) -> dict[str, str]:
    return {tool.shown: tool.name for tool in profile.snapshot.tools if tool.shown != tool.name}


def _session_view(session_id: str, overview: SessionOverview) -> Session:
    profile = overview.profile or SessionProfile()
    turns = (
        TurnSummary(
            id=turn.turn_id,
            message_id=turn.message_id,
            parent=turn.parent,
            retry_of=turn.retry_of,
            began=turn.began,
            ended=turn.ended,
        )
        for turn in overview.turns
    )
    return Session(
        id=session_id,
        provider_id=profile.provider_id,
        model_id=profile.model_id,
        tools=tuple(tool.shown for tool in profile.snapshot.tools),
        max_steps=profile.max_steps,
        max_output_tokens=profile.max_output_tokens,
        controls=profile.controls,
        budgets=profile.budgets,
        spent=overview.spent,
        turns=tuple(turns),
        head=overview.head,
        running=overview.running,
    )


def _turn_view(session_id: str, result: TurnResult) -> Turn:
    return Turn(
        id=result.turn_id,
        session_id=session_id,
        message_id=result.message_id,
        assistant_message_id=result.turn_id,
        status=result.status,
        reason=result.reason,
        text=result.text,
        messages=result.conversation[result.began_at :],
        steps=result.spent.steps,
        usage=result.spent.usage,
        cost_usd=result.spent.usd,
        error=result.error,
    )


def _running(session_id: str, turn_id: str) -> Turn:
    return Turn(id=turn_id, session_id=session_id, assistant_message_id=turn_id, status=TurnStatus.RUNNING)


def _abnormal(session_id: str, turn_id: str, error: WorkflowFailureError) -> Turn:
    cancelled = isinstance(error.cause, CancelledError)
    envelope = ErrorEnvelope(
        tool="",
        message=f"The turn did not end by itself: {error.cause}"[:2_000],
        category=ErrorCategory.CANCELLED if cancelled else ErrorCategory.UNKNOWN,
        retryable=False,
    )
    status = TurnStatus.CANCELLED if cancelled else TurnStatus.FAILED
    return Turn(id=turn_id, session_id=session_id, assistant_message_id=turn_id, status=status, error=envelope)


def _turn_not_found(turn_id: str) -> TurnNotFound:
    return TurnNotFound(f"The session has no turn {turn_id!r}. Turns are kept for as long as Temporal keeps histories.")
