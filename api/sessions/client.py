"""`SessionClient`: sessions. Temporal is their store; what was said in them is in the output store."""

import secrets
from collections.abc import Sequence
from typing import TypeVar

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import TerminatedError
from temporalio.workflow import UpdateMethodMultiParam

from outlast.activities.contracts import Caller
from outlast.activities.conversations.contracts import PromptHead
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import Action, AuditLog
from outlast.api.errors import SessionDiffers, SessionNotFound
from outlast.api.offer.catalogue import Catalogue
from outlast.api.sessions.kept import KeptConversations, session_gone, session_not_found, session_stuck
from outlast.api.sessions.model_options import check_allowed, check_session
from outlast.api.sessions.profile import profile_for
from outlast.api.sessions.views import session_view
from outlast.api.settings import ApiSettings
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.session_starts import SessionStarts
from outlast.api.temporal.task_view import owner_of
from outlast.api.temporal.worker_answers import answer_of_worker
from outlast.contracts.sessions import Session, SessionRequest
from outlast.workflows.contracts.sessions import session_workflow_id
from outlast.workflows.contracts.turns import BeginTurn, SessionOverview, SessionProfile, TurnPlace, TurnRef
from outlast.workflows.session import SessionWorkflow

Answer = TypeVar("Answer")
Request = TypeVar("Request")


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
