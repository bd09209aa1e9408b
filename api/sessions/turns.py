"""`TurnClient`: the turns of sessions. Each is a workflow whose result refers to the conversation up to its end.

The messages are in the output store, and stay readable when Temporal has removed the turn.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from textwrap import shorten

from pydantic import JsonValue
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.contracts import Caller
from outlast.activities.conversations.contracts import ConversationRef, ImagePart, ModelMessage, TextPart
from outlast.activities.outputs.reader import Room
from outlast.api import errors
from outlast.api.access.permissions import PermissionRules
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.log import Action, AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.catalog.catalog import Catalogue, MaskGate
from outlast.api.sessions.client import KeptConversations, SessionClient, abnormal_turn, running_turn, turn_view
from outlast.api.sessions.profile import ModelOptions, check_allowed, model_options, switched_off_rules
from outlast.api.settings import ApiSettings
from outlast.api.tasks.admission import carried_rules
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.session_events import TurnEventLog, position_of
from outlast.api.temporal.visibility import derived_id, owned
from outlast.api.webhooks.client import Listeners
from outlast.contracts.sessions import MessageRequest, Turn
from outlast.contracts.tasks import TurnStreamEvent
from outlast.worker.stuck_tasks import cancel_workflow
from outlast.workflows.contracts import sessions as recorded
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.turn import TurnWorkflow, turn_attributes
from outlast.workflows.turns.budgets import left

_OF_ONE_MESSAGE = {"message", "message_id", "retry_of_assistant_message_id", "stream"}
_TITLE_CHARS = 80
_START_GRACE = timedelta(minutes=1)
"""A turn without a workflow after this long was never started: the process that reserved it has died."""


@dataclass(frozen=True)
class Informed:
    """Recipients of what callers do: the operator's audit log, and the callers' webhooks."""

    audit: AuditLog
    listeners: Listeners


@dataclass(eq=False)
class TurnClient:
    """Client of turns. Its methods raise `ApiError`s."""

    client: Client
    sessions: SessionClient
    kept: KeptConversations
    catalogue: Catalogue
    settings: ApiSettings
    policy: PolicySource
    informed: Informed

    def __post_init__(self) -> None:
        self._audit = self.informed.audit
        self._listeners = self.informed.listeners
        self._masks = MaskGate(self.settings)

    async def send(self, caller: Caller, session_id: str, request: MessageRequest) -> str:
        """Start the turn that answers a message and return its ID. The same message ID gives the same turn.

        Raises `SessionNotFound`, `MessageDiffers`, `TurnRunning`, `BudgetUsedUp`, `BadRequest`, and `TurnNotFound` for
        an unknown turn to retry.
        """
        async with self._audit.action(AuditEvent.TURN_STARTED, caller, session=session_id) as action:
            return await self._send(caller, session_id, request, action)

    async def _send(self, caller: Caller, session_id: str, request: MessageRequest, action: Action) -> str:
        retry_of = request.retry_of_assistant_message_id
        turn_id = _turn_id(session_id, request.message_id, retry_of)
        named = (turn_id, retry_of) if retry_of else (turn_id,)
        overview = await self.sessions.overview(caller, session_id, turn_ids=named)
        action.note(turn=turn_id)
        _check_same_message(_turn_of(overview, turn_id), request)
        if request.message_id is not None and await self._has_begun(caller, session_id, turn_id, overview):
            action.note(outcome="repeated")
            return turn_id
        profile = overview.profile or await self.sessions.opened(caller, session_id)
        retried = await self._retried(caller, session_id, retry_of, overview)
        if retried is not None:
            request = as_before(request, retried.report.asked)
        options = model_options(profile, request, self.settings.model_limits, self.settings.model_prices)
        check_allowed(options.provider_id, options.model_id, self.policy.of(caller.id).models)
        allowed = await carried_rules(PermissionRules.of(self.policy.current), caller, self.catalogue)
        rules = (*switched_off_rules(profile, self.catalogue.builtin, self.catalogue.server_names), *allowed)
        parts = _parts(request, retried)
        before = retried.report.before if retried is not None else overview.conversation
        # Before the turn is registered, so that a conversation that cannot continue leaves no turn behind.
        await self.kept.check(caller, session_id, before.head or profile.prompt)
        turn, place = await self._place(caller, session_id, turn_id, request, before)
        turn_input = recorded.TurnInput(
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
            prompt=profile.prompt,
            conversation=turn.before,
            output=self.settings.output_policy(request.output or profile.output),
            run_heartbeat_seconds=self.settings.run_heartbeat_seconds,
            rules=rules,
            caps=self.policy.caps_of(caller.id),
            listeners=await self._listeners.of_call(caller),
            max_output_tokens=options.max_output_tokens,
            controls=options.controls,
            window_tokens=options.window_tokens,
            sees_pictures=options.sees_pictures,
            compaction=self.settings.compaction,
            earlier_failures=place.failures,
            asked=asked_options(request, profile, options),
        )
        await self._start(turn_input)
        return turn_id

    async def turn(self, caller: Caller, session_id: str, turn_id: str, *, wait_seconds: float = 0) -> Turn:
        """The turn, awaited at most `wait_seconds`. Raises `TurnNotFound`, `ConversationLost`.

        Needs a worker only if Temporal has removed the turn.
        """
        try:
            description = await self._described(caller, session_id, turn_id)
        except errors.TurnNotFound:
            overview = await self.sessions.overview(caller, session_id)
            removed = await self._removed_turn(caller, session_id, turn_id, overview)
            return turn_view(session_id, removed.report, removed.messages)
        if description.status is WorkflowExecutionStatus.RUNNING and wait_seconds <= 0:
            return running_turn(session_id, turn_id)
        try:
            result = await asyncio.wait_for(self._result(caller, session_id, turn_id), wait_seconds or None)
        except TimeoutError:
            return running_turn(session_id, turn_id)
        except WorkflowFailureError as error:
            return abnormal_turn(session_id, turn_id, error)
        block = await self.kept.turn(caller, session_id, result.conversation)
        return turn_view(session_id, result, block.messages)

    async def events(
        self, caller: Caller, session_id: str, turn_id: str, room: Room, *, after: str | None = None
    ) -> AsyncGenerator[TurnStreamEvent]:
        """The turn's events after the one with id `after`, to its end, read into `room`.

        Raises `TurnNotFound`, `BadRequest`, and `ConversationLost` when Temporal has removed them.
        """
        position = position_of(after)
        try:
            description = await self._described(caller, session_id, turn_id)
        except errors.TurnNotFound:
            if _turn_of(await self.sessions.overview(caller, session_id), turn_id) is None:
                raise
            message = f"The events of turn {turn_id} are no longer kept. Its messages are: get the turn itself."
            raise errors.ConversationLost(message) from None
        first_run = description.raw_description.workflow_execution_info.first_run_id or description.run_id or ""
        return TurnEventLog(self.client, description.id, first_run, room).live(after=position)

    async def cancel(self, caller: Caller, session_id: str, turn_id: str) -> Turn:
        """Stop the turn, its tools and their paid runs. Raises `TurnFinished`, `TurnNotFound`."""
        async with self._audit.action(AuditEvent.TURN_CANCELLED, caller, session=session_id, turn=turn_id):
            description = await self._described(caller, session_id, turn_id)
            if description.status is not WorkflowExecutionStatus.RUNNING:
                raise errors.TurnFinished(f"Turn {turn_id} has ended; there is nothing left to cancel.")
            with temporal_errors(missing=_turn_not_found(turn_id)):
                await cancel_workflow(self.client, description)
        return await self.turn(caller, session_id, turn_id)

    async def _retried(
        self, caller: Caller, session_id: str, turn_id: str | None, overview: recorded.SessionOverview
    ) -> "_EndedTurn | None":
        if turn_id is None:
            return None
        try:
            description = await self._described(caller, session_id, turn_id)
        except errors.TurnNotFound:
            return await self._removed_turn(caller, session_id, turn_id, overview)
        if description.status is WorkflowExecutionStatus.RUNNING:
            raise errors.TurnRunning(f"Turn {turn_id} has not ended; cancel it before you retry it.")
        try:
            result = await self._result(caller, session_id, turn_id)
        except WorkflowFailureError as error:
            raise errors.ConversationLost(f"Turn {turn_id} did not end by itself, and cannot be retried.") from error
        return _EndedTurn(result, (await self.kept.turn(caller, session_id, result.conversation)).messages)

    async def _removed_turn(
        self, caller: Caller, session_id: str, turn_id: str, overview: recorded.SessionOverview
    ) -> "_EndedTurn":
        """A turn that Temporal has removed, from the store. Raises `TurnNotFound`, `ConversationLost`."""
        turn = _turn_of(overview, turn_id)
        if turn is None:
            raise _turn_not_found(turn_id)
        if turn.conversation is None:
            raise errors.ConversationLost(f"The messages of turn {turn_id} are no longer kept.")
        block = await self.kept.turn(caller, session_id, turn.conversation)
        return _EndedTurn(recorded.TurnReport.model_validate(block.about), block.messages)

    async def _place(
        self, caller: Caller, session_id: str, turn_id: str, request: MessageRequest, before: ConversationRef
    ) -> tuple[recorded.TurnRef, recorded.TurnPlace]:
        """The turn's place in the session. Raises `TurnRunning`, `BudgetUsedUp`."""
        asked = recorded.BeginTurn(
            turn_id=turn_id,
            message_id=request.message_id or turn_id,
            retry_of=request.retry_of_assistant_message_id,
            retried_before=before,
            asked_digest=_digest_of(request),
            title=_beginning(request),
        )
        place = await self.sessions.update(caller, session_id, SessionWorkflow.begin_turn, asked)
        if place.busy is not None:
            await self._refuse_running(caller, session_id, place.busy)
            asked = asked.model_copy(update={"over": place.busy.turn_id})
            place = await self.sessions.update(caller, session_id, SessionWorkflow.begin_turn, asked)
        if place.over is not None:
            raise errors.BudgetUsedUp(f"{place.over} of what the session may use. Start another session.")
        if place.turn is None:
            raise errors.TurnRunning(
                "Another turn of this session has started; send the message again when it has ended."
            )
        return place.turn, place

    async def _refuse_running(self, caller: Caller, session_id: str, turn: recorded.TurnRef) -> None:
        """Raise `TurnRunning` unless the turn has certainly ended."""
        try:
            description = await self._described(caller, session_id, turn.turn_id)
        except errors.TurnNotFound:
            running = datetime.now(UTC) - turn.began < _START_GRACE
        else:
            running = description.status is WorkflowExecutionStatus.RUNNING
        if running:
            message = f"Turn {turn.turn_id} has not ended. Wait for it or cancel it, then send the message again."
            raise errors.TurnRunning(message)

    async def _result(self, caller: Caller, session_id: str, turn_id: str) -> recorded.TurnResult:
        workflow_id = recorded.turn_workflow_id(caller.id, session_id, turn_id)
        with temporal_errors(missing=_turn_not_found(turn_id)):
            return await self.client.get_workflow_handle_for(TurnWorkflow.run, workflow_id).result()

    async def _has_begun(
        self, caller: Caller, session_id: str, turn_id: str, overview: recorded.SessionOverview
    ) -> bool:
        """Return whether a message was sent before, also if Temporal has removed its turn."""
        known = _turn_of(overview, turn_id)
        if known is not None and known.ended:
            return True
        with suppress(errors.TurnNotFound):
            await self._described(caller, session_id, turn_id)
            return True
        return False

    async def _described(self, caller: Caller, session_id: str, turn_id: str) -> WorkflowExecutionDescription:
        workflow_id = recorded.turn_workflow_id(caller.id, session_id, turn_id)
        return await owned(self.client, workflow_id, caller, _turn_not_found(turn_id))

    async def _start(self, turn_input: recorded.TurnInput) -> None:
        with temporal_errors(missing=_turn_not_found(turn_input.turn_id)), suppress(WorkflowAlreadyStartedError):
            caller_id = turn_input.caller.id
            await self.client.start_workflow(
                TurnWorkflow.run,
                turn_input,
                id=recorded.turn_workflow_id(caller_id, turn_input.session_id, turn_input.turn_id),
                task_queue=TOOLS_TASK_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                search_attributes=turn_attributes(turn_input),
                static_summary=f"turn of session {turn_input.session_id} of {caller_id}",
                priority=Priority(fairness_key=caller_id[:64]) if self.settings.fairness else Priority.default,
            )


@dataclass(frozen=True)
class _EndedTurn:
    """A turn that has ended, and its messages."""

    report: recorded.TurnReport
    messages: tuple[ModelMessage, ...]


def _turn_of(overview: recorded.SessionOverview, turn_id: str) -> recorded.TurnRef | None:
    return next((turn for turn in overview.turns if turn.turn_id == turn_id), None)


def _check_same_message(known: recorded.TurnRef | None, request: MessageRequest) -> None:
    """Raise `MessageDiffers` if another message was sent with this id."""
    if known is not None and known.asked_digest not in (None, _digest_of(request)):
        message = f"Message {request.message_id!r} was sent with another text or other parts. Send it with a new id."
        raise errors.MessageDiffers(message)


def _digest_of(request: MessageRequest) -> str:
    """The digest of a message's text or parts, without its options."""
    parts = request.message
    content = parts if isinstance(parts, str | None) else [part.model_dump(mode="json") for part in parts]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _beginning(request: MessageRequest) -> str | None:
    """A title for the session, of the first words of its first message."""
    texts = (request.message,) if isinstance(request.message, str) else (request.message or ())
    words = " ".join(part if isinstance(part, str) else part.text for part in texts if not isinstance(part, ImagePart))
    return shorten(words, _TITLE_CHARS, placeholder="…") or None


def _turn_id(session_id: str, message_id: str | None, retry_of: str | None) -> str:
    """The turn's ID, derived from the message ID if there is one. A retry of the answer is another turn."""
    if message_id is None:
        return f"t-{secrets.token_hex(10)}"
    return derived_id("t", session_id, message_id, *([retry_of] if retry_of else []), chars=20)


def _parts(request: MessageRequest, retried: _EndedTurn | None) -> tuple[TextPart | ImagePart, ...]:
    if isinstance(request.message, str) and request.message:
        return (TextPart(text=request.message),)
    if request.message and not isinstance(request.message, str):
        return request.message
    if retried is None:
        raise errors.BadRequest("There is no message: give `message`, or the assistant's message to retry.")
    return tuple(part for part in retried.messages[0].parts if isinstance(part, TextPart | ImagePart))


def _own_names(profile: recorded.SessionProfile) -> dict[str, str]:
    return {tool.shown: tool.name for tool in profile.snapshot.tools if tool.shown != tool.name}


def _turn_not_found(turn_id: str) -> errors.TurnNotFound:
    return errors.TurnNotFound(f"The session has no turn {turn_id!r}. A session lists its latest 200 turns.")


def asked_options(
    request: MessageRequest, profile: recorded.SessionProfile, options: ModelOptions
) -> dict[str, JsonValue]:
    """The options of a turn, of its message or else its session, under the names of `MessageRequest`, for a retry."""
    requested = request.model_dump(
        mode="json", by_alias=True, exclude=_OF_ONE_MESSAGE, exclude_unset=True, exclude_none=True
    )
    mask = request.tool_mask or profile.tool_mask
    return {
        **requested,
        "providerId": options.provider_id,
        "modelId": options.model_id,
        "maxSteps": request.max_steps or profile.max_steps,
        **({"toolMask": dict[str, JsonValue](mask)} if mask else {}),
    }


def as_before(request: MessageRequest, asked: Mapping[str, JsonValue]) -> MessageRequest:
    """`request` with the `asked` options of the turn that it retries, unless it sets its own.

    With another provider, or for an option set to null, the session's value applies.
    """
    before = MessageRequest.model_validate(dict(asked))
    kept = before.model_fields_set - request.model_fields_set
    if request.provider_id not in (None, before.provider_id):
        kept -= {"model_id"}
    changes: dict[str, object] = {name: getattr(before, name) for name in kept}
    if "controls" in request.model_fields_set:
        changes["controls"] = request.controls.over(before.controls)
    return request.model_copy(update=changes)
