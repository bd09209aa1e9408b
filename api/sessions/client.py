"""`SessionClient`: sessions over Temporal, their conversations in the output store, and views of sessions and turns."""

import logging
import secrets
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError, TerminatedError
from temporalio.workflow import UpdateMethodMultiParam

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.conversations.blocks import BlockAfter, ConversationBlocks, ConversationDamaged, why_removed
from outlast.activities.conversations.contracts import (
    Block,
    ConversationOwner,
    ConversationRef,
    ModelMessage,
    PromptHead,
)
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.object_store import OutputObjects
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.api import errors
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.log import Action, AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.catalog.catalog import Catalogue
from outlast.api.sessions.profile import check_allowed, check_session, profile_for
from outlast.api.settings import ApiSettings
from outlast.api.temporal.errors import answer_of_worker, temporal_errors
from outlast.api.temporal.history_details import was_cancelled
from outlast.api.temporal.session_starts import SessionStarts
from outlast.api.temporal.visibility import owned
from outlast.contracts.sessions import Session, SessionRequest, Turn, TurnSummary
from outlast.workflows.contracts.sessions import (
    SessionOverview,
    SessionProfile,
    TurnRef,
    TurnReport,
    TurnStatus,
    session_workflow_id,
)
from outlast.workflows.session import SessionWorkflow

log = logging.getLogger("outlast.api")
Answer = TypeVar("Answer")
Request = TypeVar("Request")


@dataclass(eq=False)
class KeptConversations:
    """Stored conversations. Methods raise `OutputStoreUnavailable`, and `ConversationLost` for missing messages."""

    objects: OutputObjects
    blocks: ConversationBlocks

    async def turn(self, caller: Caller, session_id: str, conversation: ConversationRef | None) -> Block:
        """The last turn of a conversation, with all of its messages; empty if there is none."""
        with _store_errors():
            found = await self.blocks.turn(_owner(caller, session_id), conversation or ConversationRef())
        return found or Block(messages=())

    async def newest_first(
        self, caller: Caller, session_id: str, conversation: ConversationRef
    ) -> AsyncGenerator[Block]:
        """All turns of a conversation, each as one block, those before a summary included."""
        with _store_errors():
            async with aclosing(self.blocks.newest_first(_owner(caller, session_id), conversation)) as blocks:
                async for block in blocks:
                    yield block

    async def begin(self, caller: Caller, session_id: str, blocks: Sequence[BlockAfter]) -> tuple[ConversationRef, ...]:
        """Store an imported conversation. Returns it after each block. Raises `BadRequest` if a block is too large."""
        with _store_errors():
            try:
                return await self.blocks.begin(_owner(caller, session_id), blocks)
            except ConversationDamaged:
                raise
            except ToolFailure as error:
                raise errors.BadRequest(str(error)) from error

    async def keep_prompt(self, caller: Caller, session_id: str, prompt: PromptHead) -> str | None:
        """Store the beginning of a session's prompts. Returns its digest, or None if the store does not answer."""
        try:
            return await self.blocks.keep_prompt(_owner(caller, session_id), prompt)
        except (OSError, ToolFailure) as error:
            # Nothing is lost: the session's profile and the history of each of its turns contain it then.
            log.warning("The prompt of session %s could not be stored: %s", session_id, error)
            return None

    async def check(self, caller: Caller, session_id: str, digest: str | None) -> None:
        """Raise `ConversationLost` if the messages or the prompt that a turn needs are gone."""
        with _store_errors():
            if digest is not None and not await self.blocks.is_there(_owner(caller, session_id), digest):
                message = "The messages of this session are no longer in the store. Start another session."
                raise errors.ConversationLost(message)

    async def absence(self, caller: Caller, session_id: str) -> errors.SessionGone | errors.SessionNotFound:
        """The error for a session that Temporal does not have."""
        with _store_errors():
            reason = await why_removed(self.objects, self.blocks.namespace, _owner(caller, session_id))
        return session_gone(session_id, reason) if reason else session_not_found(session_id)


@dataclass(eq=False)
class SessionClient:
    """Client of single sessions. Its methods raise `ApiError`s."""

    client: Client
    catalogue: Catalogue
    kept: KeptConversations
    starts: SessionStarts
    settings: ApiSettings
    policy: PolicySource
    audit: AuditLog

    async def create(self, caller: Caller, request: SessionRequest) -> Session:
        """Start a session, find the one with the same settings, or with `update` change an existing one.

        Raises `SessionDiffers`, `BadRequest` for an unknown provider, model or control, or a budget of money without a
        price, `ModelForbidden`, and `TooManyRequests` when the caller has too many sessions.
        """
        session_id = request.session_id or f"s-{secrets.token_hex(10)}"
        async with self.audit.action(AuditEvent.SESSION_CREATED, caller, session=session_id) as action:
            return await self._create(caller, session_id, request, action)

    async def _create(self, caller: Caller, session_id: str, request: SessionRequest, action: Action) -> Session:
        check_session(request, self.settings.model_limits, self.settings.model_prices)
        check_allowed(request.provider_id, request.model_id, self.policy.of(caller.id).models)
        profile = await self._profile(caller, request)
        kept = await self._open(caller, session_id, profile)
        if kept.asked != profile.asked:
            if not request.update:
                raise errors.SessionDiffers(
                    f"Session {session_id!r} has other settings. Send them, leave out its id for a new session, "
                    "or set `update` to change them."
                )
            action.event = AuditEvent.SESSION_UPDATED
            stored = await self._with_stored_prompt(caller, session_id, profile)
            await self.update(caller, session_id, SessionWorkflow.change_profile, stored)
        found = await self.describe(caller, session_id)
        if request.title is None or request.title == found.title or (found.title is not None and not request.update):
            return found
        return await self._rename(caller, session_id, request.title)

    async def rename(self, caller: Caller, session_id: str, title: str) -> Session:
        """Give a session another title. Raises `SessionNotFound`, `SessionGone`."""
        async with self.audit.action(AuditEvent.SESSION_UPDATED, caller, session=session_id):
            return await self._rename(caller, session_id, title)

    async def _rename(self, caller: Caller, session_id: str, title: str) -> Session:
        await self.overview(caller, session_id)
        await self.update(caller, session_id, SessionWorkflow.rename, title)
        return await self.describe(caller, session_id)

    async def describe(self, caller: Caller, session_id: str) -> Session:
        """The current session. Raises `SessionNotFound`, `SessionGone`."""
        return session_view(session_id, await self.overview(caller, session_id))

    async def overview(
        self, caller: Caller, session_id: str, *, turn_ids: Sequence[str] | None = None
    ) -> SessionOverview:
        """The state of the session with the turns of `turn_ids` (None: all).

        Raises `SessionNotFound`, `SessionGone`.
        """
        handle = self._handle(caller, session_id)
        missing = session_not_found(session_id)
        try:
            described = await owned(self.client, handle.id, caller, missing)
        except errors.SessionNotFound:
            raise await self.kept.absence(caller, session_id) from None
        if described.status is WorkflowExecutionStatus.TERMINATED:
            await _raise_if_stuck(handle, session_id)
        if described.status is not WorkflowExecutionStatus.RUNNING:
            reason = await self.kept.absence(caller, session_id)
            raise session_gone(session_id) if isinstance(reason, errors.SessionNotFound) else reason
        with temporal_errors(missing=missing):
            overview = await answer_of_worker(
                handle.query(SessionWorkflow.overview)
                if turn_ids is None
                else handle.query(SessionWorkflow.overview_for, list(turn_ids))
            )
        if overview.deleted:
            raise session_gone(session_id, "deleted")
        return overview

    async def opened(self, caller: Caller, session_id: str) -> SessionProfile:
        """The session's profile, created now if the session began with a tool call."""
        return await self._open(caller, session_id, await self._profile(caller, SessionRequest()))

    async def delete(self, caller: Caller, session_id: str) -> TurnRef | None:
        """Delete a session, or return the turn that is still running."""
        with temporal_errors(missing=session_gone(session_id)):
            return await answer_of_worker(
                self._handle(caller, session_id).execute_update(SessionWorkflow.delete)  # pyright: ignore[reportUnknownMemberType]
            )

    async def update(
        self,
        caller: Caller,
        session_id: str,
        update: UpdateMethodMultiParam[[SessionWorkflow, Request], Answer],
        request: Request,
    ) -> Answer:
        """Call an update of the session's workflow. Raises `SessionGone` if it has ended."""
        handle = self.client.get_workflow_handle(session_workflow_id(caller.id, session_id))
        with temporal_errors(missing=session_gone(session_id)):
            return await answer_of_worker(
                handle.execute_update(update, request)  # pyright: ignore[reportUnknownMemberType]
            )

    async def _profile(self, caller: Caller, request: SessionRequest) -> SessionProfile:
        return await profile_for(
            request, self.catalogue, caller, skills_dir=self.settings.skills_dir, masking=self.settings.masks_are_heeded
        )

    async def _open(self, caller: Caller, session_id: str, profile: SessionProfile) -> SessionProfile:
        """The profile of the session, which is started if there is none. The first profile is kept."""
        with temporal_errors(missing=errors.SessionNotFound(f"{session_id!r} cannot be the id of a session.")):
            await self.starts.ensure(caller.id, session_id)
            # After the session's start, so that the removal of an earlier session does not remove it.
            profile = await self._with_stored_prompt(caller, session_id, profile)
            return await answer_of_worker(
                self._handle(caller, session_id).execute_update(SessionWorkflow.open, profile)  # pyright: ignore[reportUnknownMemberType]
            )

    async def _with_stored_prompt(self, caller: Caller, session_id: str, profile: SessionProfile) -> SessionProfile:
        """The profile with a reference to the beginning of its prompts, which each of its turns would repeat."""
        head = PromptHead(system=profile.system, definitions_json=profile.snapshot.definitions_json)
        digest = await self.kept.keep_prompt(caller, session_id, head)
        if digest is None:
            return profile
        snapshot = profile.snapshot.model_copy(update={"definitions_json": "[]"})
        return profile.model_copy(update={"prompt": digest, "system": "", "snapshot": snapshot})

    def _handle(self, caller: Caller, session_id: str) -> "WorkflowHandle[SessionWorkflow, None]":
        return self.client.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id(caller.id, session_id))


async def _raise_if_stuck(handle: "WorkflowHandle[SessionWorkflow, None]", session_id: str) -> None:
    """Raise `SessionGone` for a session that a worker ended because it was stuck."""
    try:
        with temporal_errors(missing=session_gone(session_id)):
            await handle.result()
    except WorkflowFailureError as failure:
        ended = _error_of_stuck(failure)
        if ended is not None:
            message = f"Session {session_id!r} is over. {ended.message} Start another one with POST /v1/sessions."
            raise errors.SessionGone(message) from failure


def _error_of_stuck(failure: WorkflowFailureError) -> ErrorEnvelope | None:
    return error_of_end(failure.cause.details) if isinstance(failure.cause, TerminatedError) else None


def session_view(session_id: str, overview: SessionOverview) -> Session:
    """A session as callers see it."""
    profile = overview.profile or SessionProfile()
    turns = [
        TurnSummary(id=turn.turn_id, **turn.model_dump(include={"message_id", "parent", "retry_of", "began", "ended"}))
        for turn in overview.turns
    ]
    return Session(
        id=session_id,
        title=overview.title,
        began=overview.began,
        provider_id=profile.provider_id,
        model_id=profile.model_id,
        tools=tuple(tool.shown for tool in profile.snapshot.tools),
        max_steps=profile.max_steps,
        max_output_tokens=profile.max_output_tokens,
        controls=profile.controls,  # pyright: ignore[reportArgumentType]  # see MadeOf
        budgets=profile.budgets,
        spent=overview.spent,
        turns=tuple(turns),
        head=overview.head,
        running=overview.running,
    )


def turn_view(session_id: str, result: TurnReport, messages: tuple[ModelMessage, ...]) -> Turn:
    """A turn that has ended."""
    return Turn(
        id=result.turn_id,
        session_id=session_id,
        message_id=result.message_id,
        assistant_message_id=result.turn_id,
        status=result.status,
        reason=result.reason,
        text=result.text,
        messages=messages,
        steps=result.spent.steps,
        usage=result.spent.usage,
        cost_usd=result.spent.usd,
        error=result.error,
    )


def running_turn(session_id: str, turn_id: str) -> Turn:
    """A turn that has not ended."""
    return Turn(id=turn_id, session_id=session_id, assistant_message_id=turn_id, status=TurnStatus.RUNNING)


def abnormal_turn(session_id: str, turn_id: str, error: WorkflowFailureError) -> Turn:
    """A turn whose workflow did not end by itself."""
    stuck = _error_of_stuck(error)
    cancelled = isinstance(error.cause, CancelledError) or (stuck is not None and was_cancelled(stuck))
    envelope = stuck or ErrorEnvelope(
        tool="",
        message=f"The turn did not end by itself: {error.cause}"[:2_000],
        category=ErrorCategory.CANCELLED if cancelled else ErrorCategory.UNKNOWN,
        retryable=False,
    )
    status = TurnStatus.CANCELLED if cancelled else TurnStatus.FAILED
    return Turn(id=turn_id, session_id=session_id, assistant_message_id=turn_id, status=status, error=envelope)


def session_gone(session_id: str, reason: str = "expired") -> errors.SessionGone:
    """The error for a session that is over."""
    what = "was deleted" if reason == "deleted" else "has expired"
    return errors.SessionGone(f"Session {session_id!r} {what}. Start another one with POST /v1/sessions.")


def session_not_found(session_id: str) -> errors.SessionNotFound:
    """The error for a session that does not exist, or belongs to another caller."""
    return errors.SessionNotFound(f"You have no session {session_id!r}. Start one with POST /v1/sessions.")


def _owner(caller: Caller, session_id: str) -> ConversationOwner:
    return ConversationOwner(caller_id=caller.id, session_id=session_id)


@contextmanager
def _store_errors() -> Generator[None]:
    try:
        yield
    except ConversationDamaged as error:
        raise errors.ConversationLost(f"{error} Start another session.") from error
    except OSError as error:
        message = "The store of conversations does not answer. Nothing is lost; retry shortly."
        raise errors.OutputStoreUnavailable(message) from error
