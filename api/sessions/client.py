"""`SessionClient`: sessions over Temporal, their conversations in the output store, and views of sessions and turns."""

import logging
import secrets
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager
from typing import TypeVar

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError, TerminatedError
from temporalio.workflow import UpdateMethodMultiParam

from outlast.activities.contracts import Caller
from outlast.activities.conversations.blocks import BlockAfter, ConversationBlocks, ConversationDamaged
from outlast.activities.conversations.contracts import (
    Block,
    ConversationOwner,
    ConversationRef,
    ModelMessage,
    PromptHead,
)
from outlast.activities.conversations.removal import why_removed
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import Action, AuditLog
from outlast.api.catalog.catalog import Catalogue
from outlast.api.errors import (
    BadRequest,
    ConversationLost,
    OutputStoreUnavailable,
    SessionDiffers,
    SessionGone,
    SessionNotFound,
)
from outlast.api.sessions.model_options import check_allowed, check_session
from outlast.api.sessions.profile import profile_for
from outlast.api.settings import ApiSettings
from outlast.api.temporal.errors import answer_of_worker, temporal_errors
from outlast.api.temporal.history_details import was_cancelled
from outlast.api.temporal.session_starts import SessionStarts
from outlast.api.temporal.task_view import owner_of
from outlast.contracts.sessions import Session, SessionRequest, Turn, TurnSummary
from outlast.workflows.contracts.sessions import session_workflow_id
from outlast.workflows.contracts.turns import (
    BeginTurn,
    SessionOverview,
    SessionProfile,
    TurnPlace,
    TurnRef,
    TurnReport,
    TurnStatus,
)
from outlast.workflows.session import SessionWorkflow

log = logging.getLogger("outlast.api")
Answer = TypeVar("Answer")
Request = TypeVar("Request")


class KeptConversations:
    """What was said. Every method raises `OutputStoreUnavailable`, and `ConversationLost` for what is not there."""

    def __init__(self, objects: OutputObjects, blocks: ConversationBlocks) -> None:
        """Read from `blocks`, whose objects and tombstones are in `objects`."""
        self._objects = objects
        self._blocks = blocks

    async def turn(self, caller: Caller, session_id: str, conversation: ConversationRef | None) -> Block:
        """The last turn of a conversation, with all of its messages. Empty when there is none."""
        with _store_errors():
            found = await self._blocks.turn(_owner(caller, session_id), conversation or ConversationRef())
        return found or Block(messages=())

    async def newest_first(
        self, caller: Caller, session_id: str, conversation: ConversationRef
    ) -> AsyncGenerator[Block]:
        """All turns of a conversation, each as one block, those before a summary included."""
        with _store_errors():
            async with aclosing(self._blocks.newest_first(_owner(caller, session_id), conversation)) as blocks:
                async for block in blocks:
                    yield block

    async def begin(self, caller: Caller, session_id: str, blocks: Sequence[BlockAfter]) -> tuple[ConversationRef, ...]:
        """Keep an imported conversation; what it is after each block. Raises `BadRequest` when one is too large."""
        with _store_errors():
            try:
                return await self._blocks.begin(_owner(caller, session_id), blocks)
            except ConversationDamaged:
                raise
            except ToolFailure as error:
                raise BadRequest(str(error)) from error

    async def keep_prompt(self, caller: Caller, session_id: str, prompt: PromptHead) -> str | None:
        """Keep the beginning of a session's prompts; its digest, or None when the store takes nothing now."""
        try:
            return await self._blocks.keep_prompt(_owner(caller, session_id), prompt)
        except (OSError, ToolFailure) as error:
            # Nothing is lost: the session's profile has it then, and so has the history of each of its turns.
            log.warning("The prompt of session %s could not be stored: %s", session_id, error)
            return None

    async def check(self, caller: Caller, session_id: str, digest: str | None) -> None:
        """Raise `ConversationLost` when what a turn continues from, or needs for its prompt, is gone."""
        with _store_errors():
            if digest is not None and not await self._blocks.is_there(_owner(caller, session_id), digest):
                raise ConversationLost(
                    "The messages of this session are no longer in the store. Begin another session."
                )

    async def absence(self, caller: Caller, session_id: str) -> SessionGone | SessionNotFound:
        """The error for a session that Temporal does not know (any more)."""
        with _store_errors():
            reason = await why_removed(self._objects, self._blocks.namespace, _owner(caller, session_id))
        return session_gone(session_id, reason) if reason else session_not_found(session_id)


class SessionClient:
    """Starts and describes sessions. Raises the `ApiError`s of `api.errors`."""

    def __init__(
        self,
        client: Client,
        catalogue: Catalogue,
        kept: KeptConversations,
        starts: SessionStarts,
        settings: ApiSettings,
        policy: PolicySource,
        audit: AuditLog,
    ) -> None:
        """Begin sessions with `starts`, run them as `settings` and the `policy` in force say.

        What callers do is recorded in `audit`.
        """
        self._policy = policy
        self._audit = audit
        self._client = client
        self._catalogue = catalogue
        self._kept = kept
        self._starts = starts
        self._settings = settings

    async def create(self, caller: Caller, request: SessionRequest) -> Session:
        """Start a session, or find the one with the same settings.

        With `update`, a session that has other settings takes these. Raises `SessionDiffers` without it, and
        `BadRequest` for a provider, a model or controls that do not exist, or a budget of money without a price,
        `ModelForbidden`, and `TooManyRequests` when the caller has as many sessions as it may.
        """
        session_id = request.session_id or f"s-{secrets.token_hex(10)}"
        async with self._audit.action(AuditEvent.SESSION_CREATED, caller, session=session_id) as action:
            return await self._create(caller, session_id, request, action)

    async def _create(self, caller: Caller, session_id: str, request: SessionRequest, action: Action) -> Session:
        check_session(request, self._settings.model_limits, self._settings.model_prices)
        check_allowed(request.provider_id, request.model_id, self._policy.of(caller.id).models)
        profile = await self._profile(caller, request)
        kept = await self._open(caller, session_id, profile)
        if kept.asked != profile.asked:
            if not request.update:
                raise SessionDiffers(
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
        async with self._audit.action(AuditEvent.SESSION_UPDATED, caller, session=session_id):
            return await self._rename(caller, session_id, title)

    async def _rename(self, caller: Caller, session_id: str, title: str) -> Session:
        await self.overview(caller, session_id)
        await self.update(caller, session_id, SessionWorkflow.rename, title)
        return await self.describe(caller, session_id)

    async def describe(self, caller: Caller, session_id: str) -> Session:
        """The session as it is now. Raises `SessionNotFound`, `SessionGone`."""
        return session_view(session_id, await self.overview(caller, session_id))

    async def overview(
        self, caller: Caller, session_id: str, *, turn_ids: Sequence[str] | None = None
    ) -> SessionOverview:
        """The session as it is, with the turns of `turn_ids` (None: all). Raises `SessionNotFound`, `SessionGone`."""
        handle = self._handle(caller, session_id)
        missing = session_not_found(session_id)
        try:
            with temporal_errors(missing=missing):
                described = await handle.describe()
        except SessionNotFound:
            raise await self._kept.absence(caller, session_id) from None
        if owner_of(described) != caller.id:
            raise missing
        if described.status is WorkflowExecutionStatus.TERMINATED:
            await _raise_if_stuck(handle, session_id)
        if described.status is not WorkflowExecutionStatus.RUNNING:
            reason = await self._kept.absence(caller, session_id)
            raise session_gone(session_id) if isinstance(reason, SessionNotFound) else reason
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

    async def begin_turn(self, caller: Caller, session_id: str, asked: BeginTurn) -> TurnPlace:
        """The turn's place in the session."""
        return await self.update(caller, session_id, SessionWorkflow.begin_turn, asked)

    async def delete(self, caller: Caller, session_id: str) -> TurnRef | None:
        """Delete a session, unless a turn still runs: then that one."""
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
        """Have the session's workflow carry out one of its updates. Raises `SessionGone` when it has ended."""
        handle = self._client.get_workflow_handle(session_workflow_id(caller.id, session_id))
        with temporal_errors(missing=session_gone(session_id)):
            return await answer_of_worker(
                handle.execute_update(update, request)  # pyright: ignore[reportUnknownMemberType]
            )

    async def _profile(self, caller: Caller, request: SessionRequest) -> SessionProfile:
        return await profile_for(
            request,
            self._catalogue,
            caller,
            skills_dir=self._settings.skills_dir,
            masking=self._settings.masks_are_heeded,
        )

    async def _open(self, caller: Caller, session_id: str, profile: SessionProfile) -> SessionProfile:
        """The profile of the session, which is started if there is none: the first profile counts."""
        with temporal_errors(missing=SessionNotFound(f"{session_id!r} cannot be the id of a session.")):
            await self._starts.ensure(caller.id, session_id)
            # Not before its session runs: what of an earlier one is being removed must not take it along.
            profile = await self._with_stored_prompt(caller, session_id, profile)
            return await answer_of_worker(
                self._handle(caller, session_id).execute_update(SessionWorkflow.open, profile)  # pyright: ignore[reportUnknownMemberType]
            )

    async def _with_stored_prompt(self, caller: Caller, session_id: str, profile: SessionProfile) -> SessionProfile:
        """The profile with a reference to the beginning of its prompts, which each of its turns would repeat."""
        head = PromptHead(system=profile.system, definitions_json=profile.snapshot.definitions_json)
        digest = await self._kept.keep_prompt(caller, session_id, head)
        if digest is None:
            return profile
        snapshot = profile.snapshot.model_copy(update={"definitions_json": "[]"})
        return profile.model_copy(update={"prompt": digest, "system": "", "snapshot": snapshot})

    def _handle(self, caller: Caller, session_id: str) -> "WorkflowHandle[SessionWorkflow, None]":
        return self._client.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id(caller.id, session_id))


async def _raise_if_stuck(handle: "WorkflowHandle[SessionWorkflow, None]", session_id: str) -> None:
    """Raise `SessionGone` for a session that was ended since it could not go on."""
    try:
        with temporal_errors(missing=session_gone(session_id)):
            await handle.result()
    except WorkflowFailureError as failure:
        ended = error_of_end(failure.cause.details) if isinstance(failure.cause, TerminatedError) else None
        if ended is not None:
            raise session_stuck(session_id, ended.message) from failure


def session_view(session_id: str, overview: SessionOverview) -> Session:
    """A session."""
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
    stuck = error_of_end(error.cause.details) if isinstance(error.cause, TerminatedError) else None
    cancelled = isinstance(error.cause, CancelledError) or (stuck is not None and was_cancelled(stuck))
    envelope = stuck or ErrorEnvelope(
        tool="",
        message=f"The turn did not end by itself: {error.cause}"[:2_000],
        category=ErrorCategory.CANCELLED if cancelled else ErrorCategory.UNKNOWN,
        retryable=False,
    )
    status = TurnStatus.CANCELLED if cancelled else TurnStatus.FAILED
    return Turn(id=turn_id, session_id=session_id, assistant_message_id=turn_id, status=status, error=envelope)


def session_gone(session_id: str, reason: str = "expired") -> SessionGone:
    """The error for a session that is over."""
    what = "was deleted" if reason == "deleted" else "has expired"
    return SessionGone(f"Session {session_id!r} {what}. Begin another one with POST /v1/sessions.")


def session_stuck(session_id: str, why: str) -> SessionGone:
    """The error for a session that a worker has ended."""
    return SessionGone(f"Session {session_id!r} is over. {why} Begin another one with POST /v1/sessions.")


def session_not_found(session_id: str) -> SessionNotFound:
    """The error for a session that never was, or of another caller."""
    return SessionNotFound(f"You have no session {session_id!r}. Begin one with POST /v1/sessions.")


def _owner(caller: Caller, session_id: str) -> ConversationOwner:
    return ConversationOwner(caller_id=caller.id, session_id=session_id)


@contextmanager
def _store_errors() -> Generator[None]:
    try:
        yield
    except ConversationDamaged as error:
        raise ConversationLost(f"{error} Begin another session.") from error
    except OSError as error:
        raise OutputStoreUnavailable(
            "The store of conversations does not answer. Nothing is lost; ask again."
        ) from error
