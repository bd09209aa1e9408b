"""`SessionCollection`: lists, reads, deletes, exports and imports a caller's sessions."""

import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from pydantic_core import to_json
from temporalio.client import Client, WorkflowExecution

from outlast.activities.contracts import Caller
from outlast.activities.conversations import contracts as stored
from outlast.activities.outputs.contracts import OutputScope
from outlast.activities.outputs.output_format import OutputManifest, locators_in
from outlast.activities.outputs.reader import Room
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import BadRequest, OutputRefusal, SessionDiffers, TaskRunning, TurnRunning
from outlast.api.outputs import OutputTooLarge, StoredOutputs
from outlast.api.sessions.client import KeptConversations, SessionClient
from outlast.api.temporal.errors import temporal_errors, unreadable_words
from outlast.api.temporal.task_view import memo_model
from outlast.api.temporal.visibility import is_running, page_of, running_tasks_query, sessions_query
from outlast.contracts import sessions as contracts
from outlast.worker.payloads import UNREADABLE
from outlast.workflows.contracts import memo
from outlast.workflows.contracts import sessions as recorded
from outlast.workflows.contracts.search_attributes import CALLER, SESSION
from outlast.workflows.contracts.sessions import KEPT_EVENTS
from outlast.workflows.session import SessionWorkflow

_TOO_LARGE = "too-large"
_COPIES = 6
"""Memory that an output takes on its way into the document, in multiples of its size."""
MAX_PAGE = 200


@dataclass(eq=False)
class SessionCollection:
    """Client of a caller's sessions. Methods about one session raise `SessionNotFound` and `SessionGone`."""

    client: Client
    sessions: SessionClient
    kept: KeptConversations
    outputs: StoredOutputs
    audit: AuditLog
    output_ttl: timedelta

    async def list(
        self, caller: Caller, *, every: bool = False, page_size: int = 50, page_token: str | None = None
    ) -> contracts.SessionPage:
        """The open sessions of the caller, or with `every` of all, newest first. Needs no worker."""
        size = min(page_size, MAX_PAGE)
        query = sessions_query(None if every else caller.id)
        found, token = await page_of(self.client, query, size=size, token=page_token)
        entries = [await _entry(execution) for execution in found]
        return contracts.SessionPage(sessions=tuple(entries), next_page_token=token)

    async def messages(
        self, caller: Caller, session_id: str, *, page_size: int = 50, page_token: str | None = None
    ) -> contracts.MessagePage:
        """The messages of the ended turns that lead to the latest one: the latest messages, or those before.

        A page token stays valid while the conversation continues: it counts from the message that was the last.
        Raises `BadRequest` for a malformed one.
        """
        overview = await self.sessions.overview(caller, session_id)
        position = stored.read_message_page_token(page_token) if page_token is not None else (overview.conversation, 0)
        if position is None:
            raise BadRequest("The page token is malformed; pass next_page_token of the previous page unchanged.")
        end, skipped = position
        wanted = min(page_size, MAX_PAGE)
        newest_first: list[contracts.SessionMessage] = []
        async for block in self.kept.newest_first(caller, session_id, end):
            newest_first += [_message(block, number) for number in reversed(range(len(block.messages)))]
            if len(newest_first) > skipped + wanted:
                break
        page = newest_first[skipped : skipped + wanted]
        more = len(newest_first) > skipped + wanted
        token = stored.message_page_token(end, skipped + wanted) if more else None
        return contracts.MessagePage(messages=page[::-1], next_page_token=token)

    async def delete(self, caller: Caller, session_id: str) -> None:
        """Delete a session: its conversation, its outputs, its turns and tasks.

        Raises `TurnRunning` and `TaskRunning` while one of them runs.
        """
        async with self.audit.action(AuditEvent.SESSION_DELETED, caller, session=session_id):
            overview = await self.sessions.overview(caller, session_id)
            # The session's workflow reports the running turn; a task outside of turns has to be listed.
            task_id = None if overview.running else await self._running_task(caller, session_id)
            if task_id is not None:
                message = f"Task {task_id} has not ended. Wait for it or cancel it, then delete the session again."
                raise TaskRunning(message)
            running = await self.sessions.delete(caller, session_id)
            if running is not None:
                raise TurnRunning(f"Turn {running.turn_id} has not ended. Wait for it or cancel it, then delete again.")

    async def _running_task(self, caller: Caller, session_id: str) -> str | None:
        """A running task of the session. Lists lag behind, so each listed task is described."""
        with temporal_errors():
            async for listed in self.client.list_workflows(running_tasks_query(caller.id, session_id)):
                if await is_running(self.client, listed.id):
                    return listed.id
        return None

    async def export(self, caller: Caller, session_id: str) -> contracts.SessionExport:
        """The whole conversation, as `import_` takes it, without the stored outputs: `with_outputs` adds them."""
        async with self.audit.action(AuditEvent.SESSION_EXPORTED, caller, session=session_id):
            overview = await self.sessions.overview(caller, session_id)
            blocks = self.kept.newest_first(caller, session_id, overview.conversation)
            turns = [_exported(block) async for block in blocks]
            settings = contracts.SessionRequest.model_validate((overview.profile or recorded.SessionProfile()).asked)
            return contracts.SessionExport(title=overview.title, settings=settings, turns=tuple(reversed(turns)))

    async def import_(self, caller: Caller, imported: contracts.SessionExport) -> contracts.Session:
        """Begin a session with a conversation. Raises `SessionDiffers` if the named session has one already.

        The costs of its turns and the signatures of its reasoning are left out: only the server that exported it can
        confirm them.
        """
        async with self.audit.action(AuditEvent.SESSION_IMPORTED, caller) as action:
            session = await self.sessions.create(caller, imported.settings)
            action.note(session=session.id)
            return await self._import(caller, imported, session)

    async def _import(
        self, caller: Caller, imported: contracts.SessionExport, session: contracts.Session
    ) -> contracts.Session:
        differs = SessionDiffers(f"Session {session.id!r} has a conversation already. Import under another id.")
        if session.turns:
            raise differs
        renamed = await restored_outputs(imported, self.outputs, caller, session.id, self.output_ttl)
        blocks = [partial(_block, turn, renamed) for turn in imported.turns]
        conversations = await self.kept.begin(caller, session.id, blocks)
        turns = _turn_refs(imported, conversations, session.began or datetime.now(UTC))
        adopted = recorded.AdoptConversation(
            title=imported.title,
            turns=turns[-KEPT_EVENTS:],
            turn_count=len(turns),
            conversation=conversations[-1] if conversations else stored.ConversationRef(),
        )
        if not await self.sessions.update(caller, session.id, SessionWorkflow.adopt, adopted):
            raise differs
        return await self.sessions.describe(caller, session.id)


async def _entry(execution: WorkflowExecution) -> contracts.SessionEntry:
    attributes = execution.typed_search_attributes
    session_id, caller = attributes.get(SESSION) or "", attributes.get(CALLER)
    try:
        listing = await memo_model(execution, memo.SESSION, recorded.SessionListing) or recorded.SessionListing(
            began=execution.start_time
        )
    except UNREADABLE as error:
        words = unreadable_words(error)
        return contracts.SessionEntry(id=session_id, caller=caller, began=execution.start_time, damaged=words)
    return contracts.SessionEntry(id=session_id, caller=caller, **listing.model_dump())


def _message(block: stored.Block, number: int) -> contracts.SessionMessage:
    turn_id = block.about.get("turn_id")
    message = block.messages[number]
    return contracts.SessionMessage(
        turn_id=turn_id if isinstance(turn_id, str) else None, role=message.role, parts=message.parts
    )


def _exported(block: stored.Block) -> contracts.ExportedTurn:
    report = recorded.TurnReport.model_validate(block.about)
    return contracts.ExportedTurn(
        id=report.turn_id,
        message_id=report.message_id,
        status=report.status,
        reason=report.reason,
        text=report.text,
        spent=report.spent,
        messages=block.messages,
    )


def _block(turn: contracts.ExportedTurn, renamed: Mapping[str, str], before: stored.ConversationRef) -> stored.Block:
    """The block of an imported turn."""
    report = recorded.TurnReport(
        turn_id=turn.id,
        message_id=turn.message_id,
        status=turn.status,
        reason=turn.reason,
        text=turn.text,
        before=before,
        spent=recorded.Spent(),
    )
    messages = tuple(_unsigned(with_locators(message, renamed)) for message in turn.messages)
    return stored.Block(messages=messages, about=report.model_dump(mode="json", exclude_none=True))


def _unsigned(message: stored.ModelMessage) -> stored.ModelMessage:
    """The message without signed reasoning, because a provider refuses reasoning that it has not signed itself."""
    unsigned: dict[str, object] = {"provider_id": "", "model_id": "", "block": {}}
    parts = (
        part.model_copy(update=unsigned) if isinstance(part, stored.ReasoningPart) else part for part in message.parts
    )
    return message.model_copy(update={"parts": tuple(parts)})


def _turn_refs(
    imported: contracts.SessionExport, conversations: Sequence[stored.ConversationRef], began: datetime
) -> tuple[recorded.TurnRef, ...]:
    turns: list[recorded.TurnRef] = []
    for turn, conversation in zip(imported.turns, conversations, strict=True):
        before = turns[-1] if turns else None
        turns.append(
            recorded.TurnRef(
                turn_id=turn.id,
                message_id=turn.message_id,
                parent=before.turn_id if before else None,
                began=began,
                ended=True,
                before=before.conversation if before and before.conversation else stored.ConversationRef(),
                conversation=conversation,
            )
        )
    return tuple(turns)


async def with_outputs(
    exported: contracts.SessionExport, outputs: StoredOutputs, caller: Caller, room: Room, limit_bytes: int
) -> AsyncGenerator[bytes]:
    """The JSON of `exported` with the outputs that its messages name, within the limit; others are in `left_out`.

    One output at a time is in memory, and in the caller's `room`.
    """
    document = exported.model_dump_json(by_alias=True, exclude={"outputs", "left_out"}).encode()
    del exported
    left, left_out, separator = limit_bytes - len(document), list[contracts.OutputLeftOut](), b""
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
                    left_out.append(contracts.OutputLeftOut(locator=locator, reason=_TOO_LARGE))
                    continue
                left -= len(found) + 1
                yield separator + found
                del found
                separator = b","
        except OutputRefusal as error:
            left_out.append(contracts.OutputLeftOut(locator=locator, reason=error.slug))
        except OutputTooLarge:
            left_out.append(contracts.OutputLeftOut(locator=locator, reason=_TOO_LARGE))
    yield b'],"left_out":' + to_json(left_out) + b"}"


async def restored_outputs(
    imported: contracts.SessionExport, outputs: StoredOutputs, caller: Caller, session_id: str, ttl: timedelta
) -> dict[str, str]:
    """Store the outputs of an import for the session. Returns their new locators by the old ones."""
    renamed: dict[str, str] = {}
    task_id = f"import-of-{session_id}"
    for output in imported.outputs:
        scope = OutputScope(
            caller_id=caller.id, session_id=session_id, tool_call_id=output.tool_call_id, task_id=task_id
        )
        content = output.base64 if output.base64 is not None else (output.text or "").encode(errors="replace")
        if output.kind == "rows" and content and not content.endswith(b"\n"):
            content += b"\n"
        renamed[output.locator] = await outputs.store(
            scope, content, what=f"import {output.locator}", kind=output.kind, content_type=output.content_type, ttl=ttl
        )
    return renamed


def with_locators(message: stored.ModelMessage, renamed: Mapping[str, str]) -> stored.ModelMessage:
    """The message with other locators."""
    text = message.model_dump_json()
    named = [locator for locator in locators_in(text) if locator in renamed]
    for locator in named:
        text = text.replace(locator, renamed[locator])
    return stored.ModelMessage.model_validate_json(text) if named else message


def _exported_output(locator: str, manifest: OutputManifest, content: bytes) -> bytes:
    is_binary = manifest.kind == "binary"
    exported = contracts.ExportedOutput.model_construct(
        locator=locator,
        tool_call_id=manifest.tool_call_id,
        kind=manifest.kind,
        content_type=manifest.content_type,
        text=None if is_binary else content.decode(errors="replace"),
    ).model_dump(mode="json", exclude_none=True)
    return to_json(exported | ({"base64": base64.b64encode(content).decode()} if is_binary else {}))
