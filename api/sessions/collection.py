"""`SessionCollection`: a caller's sessions as things of their own: listed, read, deleted, exported and imported."""

import base64
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from pydantic_core import to_json
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from outlast.activities.contracts import Caller
from outlast.activities.conversations.contracts import (
    Block,
    ConversationRef,
    ModelMessage,
    ReasoningPart,
    message_page_token,
    read_message_page_token,
)
from outlast.activities.outputs.contracts import OutputScope
from outlast.activities.outputs.manifest import OutputManifest, locators_in
from outlast.activities.outputs.reader import Room
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.errors import BadRequest, OutputRefusal, SessionDiffers, TaskRunning, TurnRunning
from outlast.api.outputs import OutputTooLarge, StoredOutputs
from outlast.api.sessions.client import KeptConversations, SessionClient
from outlast.api.temporal.errors import temporal_errors, unreadable_words
from outlast.api.temporal.task_view import memo_model
from outlast.api.temporal.visibility import read_page_token, running_tasks_query, sessions_query, write_page_token
from outlast.contracts.sessions import (
    ExportedOutput,
    ExportedTurn,
    MessagePage,
    OutputLeftOut,
    Session,
    SessionEntry,
    SessionExport,
    SessionMessage,
    SessionPage,
    SessionRequest,
)
from outlast.worker.payloads.external_storage import UNREADABLE
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.search_attributes import SESSION
from outlast.workflows.contracts.sessions import KEPT_EVENTS
from outlast.workflows.contracts.turns import (
    AdoptConversation,
    SessionListing,
    SessionProfile,
    Spent,
    TurnRef,
    TurnReport,
)
from outlast.workflows.session import SessionWorkflow

_TOO_LARGE = "too-large"
_COPIES = 6
"""Memory that an output takes on its way into the document, in multiples of its size."""
MAX_PAGE = 200
_OLD_PAGE = "The page token is no longer valid; list again from the first page."


class SessionCollection:
    """Raises the `ApiError`s of `api.errors`; every method on one session `SessionNotFound` and `SessionGone`."""

    def __init__(
        self,
        client: Client,
        sessions: SessionClient,
        kept: KeptConversations,
        outputs: StoredOutputs,
        audit: AuditLog,
        *,
        output_ttl: timedelta,
    ) -> None:
        """List through `client`; read conversations from `kept`. Imported outputs live for `output_ttl`."""
        self._audit = audit
        self._outputs = outputs
        self._output_ttl = output_ttl
        self._client = client
        self._sessions = sessions
        self._kept = kept

    async def list(self, caller: Caller, *, page_size: int = 50, page_token: str | None = None) -> SessionPage:
        """The caller's sessions that go on, those first that began last. No worker is needed."""
        query = sessions_query(caller.id)
        token = read_page_token(page_token, query) if page_token else None
        size = min(page_size, MAX_PAGE)
        pages = self._client.list_workflows(query, page_size=size, next_page_token=token)
        with temporal_errors(invalid=BadRequest(_OLD_PAGE)):
            await pages.fetch_next_page(page_size=size)
        entries = [await _entry(execution) for execution in pages.current_page or ()]
        next_token = write_page_token(pages.next_page_token, query) if pages.next_page_token else None
        return SessionPage(sessions=tuple(entries), next_page_token=next_token)

    async def messages(
        self, caller: Caller, session_id: str, *, page_size: int = 50, page_token: str | None = None
    ) -> MessagePage:
        """The messages of turns that have ended and lead to the latest one: the latest messages, or those before.

        A page token stays valid while the conversation goes on: it counts from the message that was the last.
        """
        overview = await self._sessions.overview(caller, session_id)
        end, skipped = _position(page_token, overview.conversation)
        wanted = min(page_size, MAX_PAGE)
        newest_first: list[SessionMessage] = []
        async for block in self._kept.newest_first(caller, session_id, end):
            newest_first += [_message(block, number) for number in reversed(range(len(block.messages)))]
            if len(newest_first) > skipped + wanted:
                break
        page = newest_first[skipped : skipped + wanted]
        more = len(newest_first) > skipped + wanted
        return MessagePage(
            messages=page[::-1], next_page_token=message_page_token(end, skipped + wanted) if more else None
        )

    async def delete(self, caller: Caller, session_id: str) -> None:
        """Delete a session: its conversation, its outputs, its turns and tasks.

        Raises `TurnRunning` and `TaskRunning` while one of them runs.
        """
        async with self._audit.action(AuditEvent.SESSION_DELETED, caller, session=session_id):
            await self._delete(caller, session_id)

    async def _delete(self, caller: Caller, session_id: str) -> None:
        overview = await self._sessions.overview(caller, session_id)
        # The session's workflow says which turn runs; a task outside of turns has to be looked for.
        task_id = None if overview.running else await self._running_task(caller, session_id)
        if task_id is not None:
            raise TaskRunning(f"Task {task_id} has not ended. Wait for it or cancel it, then delete the session again.")
        running = await self._sessions.delete(caller, session_id)
        if running is not None:
            raise TurnRunning(f"Turn {running.turn_id} has not ended. Wait for it or cancel it, then delete again.")

    async def _running_task(self, caller: Caller, session_id: str) -> str | None:
        """A task of the session that has not ended. Lists lag behind, so each is asked itself."""
        with temporal_errors():
            async for listed in self._client.list_workflows(running_tasks_query(caller.id, session_id)):
                described = await self._client.get_workflow_handle(listed.id).describe()
                if described.status is WorkflowExecutionStatus.RUNNING:
                    return listed.id
        return None

    async def export(self, caller: Caller, session_id: str) -> SessionExport:
        """The whole conversation, as `import_` takes it, without the stored outputs: `with_outputs` adds them."""
        async with self._audit.action(AuditEvent.SESSION_EXPORTED, caller, session=session_id):
            return await self._export(caller, session_id)

    async def _export(self, caller: Caller, session_id: str) -> SessionExport:
        overview = await self._sessions.overview(caller, session_id)
        blocks = self._kept.newest_first(caller, session_id, overview.conversation)
        turns = [_exported(block) async for block in blocks]
        profile = overview.profile or SessionProfile()
        return SessionExport(
            title=overview.title, settings=SessionRequest.model_validate(profile.asked), turns=tuple(reversed(turns))
        )

    async def import_(self, caller: Caller, imported: SessionExport) -> Session:
        """Begin a session with a conversation. Raises `SessionDiffers` when the named one has one already.

        What only the server that held it can vouch for is not taken over: what its turns have spent, and reasoning as
        its provider signed it.
        """
        async with self._audit.action(AuditEvent.SESSION_IMPORTED, caller) as action:
            session = await self._sessions.create(caller, imported.settings)
            action.note(session=session.id)
            return await self._import(caller, imported, session)

    async def _import(self, caller: Caller, imported: SessionExport, session: Session) -> Session:
        if session.turns:
            raise SessionDiffers(f"Session {session.id!r} has a conversation already. Import under another id.")
        renamed = await restored_outputs(imported, self._outputs, caller, session.id, self._output_ttl)
        blocks = [partial(_block, turn, renamed) for turn in imported.turns]
        conversations = await self._kept.begin(caller, session.id, blocks)
        turns = _turn_refs(imported, conversations, session.began or datetime.now(UTC))
        adopted = AdoptConversation(
            title=imported.title,
            turns=turns[-KEPT_EVENTS:],
            turn_count=len(turns),
            conversation=conversations[-1] if conversations else ConversationRef(),
        )
        if not await self._sessions.update(caller, session.id, SessionWorkflow.adopt, adopted):
            raise SessionDiffers(f"Session {session.id!r} has a conversation already. Import under another id.")
        return await self._sessions.describe(caller, session.id)


async def _entry(execution: WorkflowExecution) -> SessionEntry:
    session_id = execution.typed_search_attributes.get(SESSION) or ""
    try:
        listing = await memo_model(execution, memo.SESSION, SessionListing) or SessionListing(
            began=execution.start_time
        )
    except UNREADABLE as error:
        return SessionEntry(id=session_id, began=execution.start_time, damaged=unreadable_words(error))
    return SessionEntry(id=session_id, **listing.model_dump())


def _position(page_token: str | None, conversation: ConversationRef) -> tuple[ConversationRef, int]:
    """The end from which messages are counted, and how many were shown. Raises `BadRequest`."""
    if page_token is None:
        return conversation, 0
    position = read_message_page_token(page_token)
    if position is None:
        raise BadRequest("The page token is malformed; pass next_page_token of the previous page unchanged.")
    return position


def _message(block: Block, number: int) -> SessionMessage:
    turn_id = block.about.get("turn_id")
    message = block.messages[number]
    return SessionMessage(turn_id=turn_id if isinstance(turn_id, str) else None, role=message.role, parts=message.parts)


def _exported(block: Block) -> ExportedTurn:
    report = TurnReport.model_validate(block.about)
    return ExportedTurn(
        id=report.turn_id,
        message_id=report.message_id,
        status=report.status,
        reason=report.reason,
        text=report.text,
        spent=report.spent,
        messages=block.messages,
    )


def _block(turn: ExportedTurn, renamed: Mapping[str, str], before: ConversationRef) -> Block:
    """The block of an imported turn."""
    report = TurnReport(
        turn_id=turn.id,
        message_id=turn.message_id,
        status=turn.status,
        reason=turn.reason,
        text=turn.text,
        before=before,
        spent=Spent(),
    )
    messages = tuple(_unsigned(message) for message in with_locators(turn.messages, renamed))
    return Block(messages=messages, about=report.model_dump(mode="json", exclude_none=True))


def _unsigned(message: ModelMessage) -> ModelMessage:
    """The message without reasoning that is to be sent back: a provider refuses what it has not signed itself."""
    if not any(isinstance(part, ReasoningPart) for part in message.parts):
        return message
    parts = (
        part.model_copy(update={"provider_id": "", "model_id": "", "block": {}})
        if isinstance(part, ReasoningPart)
        else part
        for part in message.parts
    )
    return message.model_copy(update={"parts": tuple(parts)})


def _turn_refs(
    imported: SessionExport, conversations: Sequence[ConversationRef], began: datetime
) -> tuple[TurnRef, ...]:
    turns: list[TurnRef] = []
    for turn, conversation in zip(imported.turns, conversations, strict=True):
        before = turns[-1] if turns else None
        turns.append(
            TurnRef(
                turn_id=turn.id,
                message_id=turn.message_id,
                parent=before.turn_id if before else None,
                began=began,
                ended=True,
                before=before.conversation if before and before.conversation else ConversationRef(),
                conversation=conversation,
            )
        )
    return tuple(turns)


async def with_outputs(
    exported: SessionExport, outputs: StoredOutputs, caller: Caller, room: Room, limit_bytes: int
) -> AsyncGenerator[bytes]:
    """The JSON of `exported` with the outputs that its messages name, as far as the document keeps to the limit.

    One output at a time is in memory, and in the caller's `room`. Those that do not fit, or are gone, are named in
    `left_out`.
    """
    document = exported.model_dump_json(by_alias=True, exclude={"outputs", "left_out"}).encode()
    del exported
    left, left_out, separator = limit_bytes - len(document), list[OutputLeftOut](), b""
    locators = list(locators_in(document.decode()))
    async with room.hold(2 * len(document)):
        yield document[:-1] + b',"outputs":['
        del document
    for locator in locators:
        try:
            async with outputs.whole(caller, locator, most_bytes=left, copies=_COPIES) as (manifest, content):
                found = _exported_output(locator, manifest, content)
                del content
                if len(found) >= left:
                    left_out.append(OutputLeftOut(locator=locator, reason=_TOO_LARGE))
                    continue
                left -= len(found) + 1
                yield separator + found
                del found
                separator = b","
        except OutputRefusal as error:
            left_out.append(OutputLeftOut(locator=locator, reason=error.slug))
        except OutputTooLarge:
            left_out.append(OutputLeftOut(locator=locator, reason=_TOO_LARGE))
    yield b'],"left_out":' + to_json(left_out) + b"}"


async def restored_outputs(
    imported: SessionExport, outputs: StoredOutputs, caller: Caller, session_id: str, ttl: timedelta
) -> dict[str, str]:
    """Store the outputs of an import as the session's own; their new locators by the old ones."""
    renamed: dict[str, str] = {}
    for output in imported.outputs:
        scope = OutputScope(
            caller_id=caller.id,
            session_id=session_id,
            tool_call_id=output.tool_call_id,
            task_id=f"import-of-{session_id}",
        )
        content = output.base64 if output.base64 is not None else (output.text or "").encode(errors="replace")
        if output.kind == "rows" and content and not content.endswith(b"\n"):
            content += b"\n"
        renamed[output.locator] = await outputs.store(
            scope, content, what=f"import {output.locator}", kind=output.kind, content_type=output.content_type, ttl=ttl
        )
    return renamed


def with_locators(messages: Iterable[ModelMessage], renamed: Mapping[str, str]) -> tuple[ModelMessage, ...]:
    """The messages with other locators."""
    return tuple(_renamed(message, renamed) for message in messages)


def _renamed(message: ModelMessage, renamed: Mapping[str, str]) -> ModelMessage:
    text = message.model_dump_json()
    named = [locator for locator in locators_in(text) if locator in renamed]
    for locator in named:
        text = text.replace(locator, renamed[locator])
    return ModelMessage.model_validate_json(text) if named else message


def _exported_output(locator: str, manifest: OutputManifest, content: bytes) -> bytes:
    is_binary = manifest.kind == "binary"
    exported = ExportedOutput.model_construct(
        locator=locator,
        tool_call_id=manifest.tool_call_id,
        kind=manifest.kind,
        content_type=manifest.content_type,
        text=None if is_binary else content.decode(errors="replace"),
    ).model_dump(mode="json", exclude_none=True)
    return to_json(exported | ({"base64": base64.b64encode(content).decode()} if is_binary else {}))
