"""The activity that keeps the messages of a turn."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.conversations.contracts import Block, KeepMessagesInput
from outlast.activities.conversations.conversation_blocks import ConversationBlocks
from outlast.activities.conversations.references import ConversationRef
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory

KEEP_ATTEMPT_TIMEOUT = timedelta(minutes=1)
KEEP_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), backoff_coefficient=2, maximum_interval=timedelta(seconds=30)
)
"""Without an end: a turn waits for its store, since what is not kept would be forgotten."""


class ConversationActivities:
    """Writes conversations."""

    def __init__(self, blocks: ConversationBlocks) -> None:
        """Write to `blocks`."""
        self._blocks = blocks

    @activity.defn
    async def keep_messages(self, request: KeepMessagesInput) -> ConversationRef:
        """Add messages to a conversation and return the longer one. A repeated attempt gives the same reference."""
        with as_activity_failure():
            block = Block(
                messages=request.messages,
                about=request.about,
                continues=request.continues,
                repeated=request.repeated,
            )
            with store_awaited():
                return await self._blocks.append(request.owner, request.conversation, block)


@contextmanager
def store_awaited() -> Generator[None]:
    """Make a store that cannot be written a retryable failure: elsewhere a full disk is permanent, a turn can wait."""
    try:
        yield
    except OSError as error:
        raise ToolFailure.of(
            ErrorCategory.FILESYSTEM, f"The conversation cannot be stored: {error}", retryable=True
        ) from error
