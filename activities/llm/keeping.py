"""Keeps the messages of a model's call while the model answers it: the next call then refers to them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from outlast.activities.conversations.contracts import Block
from outlast.activities.conversations.conversation_blocks import ConversationBlocks
from outlast.activities.conversations.references import ConversationRef
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.llm.contracts import CallModelInput

_PATIENCE_SECONDS = 5.0
"""How long an answer, which was paid for, waits for a store that is slower than the model."""

Kept = Callable[[], Awaitable[ConversationRef | None]]
"""Gives the conversation with the messages; None when they are not kept, and have to be sent again."""

log = logging.getLogger(__name__)


@asynccontextmanager
async def kept_meanwhile(blocks: ConversationBlocks | None, request: CallModelInput) -> AsyncGenerator[Kept]:
    """Write the messages of `request` as `request.keep` says, until the end of the block."""
    writing = asyncio.create_task(_kept(blocks, request))

    async def kept() -> ConversationRef | None:
        await asyncio.wait({writing}, timeout=_PATIENCE_SECONDS)
        return writing.result() if writing.done() else None

    try:
        yield kept
    finally:
        # When the model failed, nobody asks what became of the messages: without this, asyncio would log their error.
        writing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        writing.cancel()


async def _kept(blocks: ConversationBlocks | None, request: CallModelInput) -> ConversationRef | None:
    if blocks is None or request.keep is None:
        return None
    block = Block(
        messages=request.messages,
        about={"turn_id": request.turn_id},
        continues=request.keep.continues,
        repeated=request.keep.repeated,
    )
    try:
        return await blocks.append(request.owner, request.conversation, block)
    except (OSError, ToolFailure) as error:
        # Nothing is lost: they stay in the turn's history, and go to the store with the next ones.
        log.warning("Step %d of turn %s could not be stored yet: %s", request.step, request.turn_id, error)
        return None
