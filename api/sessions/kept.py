"""`KeptConversations`: the conversations in the output store, for the front doors."""

import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager

from outlast.activities.contracts import Caller
from outlast.activities.conversations.blocks import BlockAfter, ConversationBlocks, ConversationDamaged
from outlast.activities.conversations.contracts import Block, ConversationOwner, ConversationRef, PromptHead
from outlast.activities.conversations.removal import why_removed
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.object_store.objects import OutputObjects
from outlast.api.errors import BadRequest, ConversationLost, OutputStoreUnavailable, SessionGone, SessionNotFound

log = logging.getLogger("outlast.api")


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
