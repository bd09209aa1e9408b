"""References to conversations, which histories hold: each names the last block, see `conversations.contracts`."""

import re
from typing import Annotated

from pydantic import Field

from outlast.activities.contracts import Contract

SESSION_WORKFLOW_PREFIX = "session:"

_PAGE_TOKEN = re.compile(r"([0-9a-f]{64})\.(\d{1,9})", re.ASCII)

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def caller_part(caller_id: str) -> str:
    """A caller's id as part of a workflow's, with no colon but that of its kind.

    The subject of an access token may have colons, and so may a session's id: without this, session `c` of `jwt:a:b`
    would be session `b:c` of `jwt:a`.
    """
    kind, colon, name = caller_id.partition(":")
    return f"{kind}{colon}{name.replace('%', '%25').replace(':', '%3A')}"


class ConversationOwner(Contract):
    """Whose conversation it is. A reference opens for its owner only."""

    caller_id: str
    session_id: str

    @property
    def workflow_id(self) -> str:
        """ID of the session's workflow. The same session id of two callers gives two workflows."""
        return f"{SESSION_WORKFLOW_PREFIX}{caller_part(self.caller_id)}:{self.session_id}"


class ConversationRef(Contract):
    """A conversation up to one of its blocks. Without `head` it is empty."""

    head: Digest | None = Field(default=None, description="SHA-256 of the last block.")
    messages: int = Field(default=0, ge=0, description="How many messages a model is sent of it.")
    size_bytes: int = Field(default=0, ge=0, description="Size of their JSON.")


def message_page_token(conversation: ConversationRef, skipped: int = 0) -> str | None:
    """The page token for a conversation's messages before its `skipped` latest ones; None for an empty one."""
    return f"{conversation.head}.{skipped}" if conversation.head else None


def read_message_page_token(token: str) -> tuple[ConversationRef, int] | None:
    """The conversation and the number of skipped messages that a token stands for; None for a malformed one."""
    match = _PAGE_TOKEN.fullmatch(token)
    return (ConversationRef(head=match[1]), int(match[2])) if match else None
