"""Tombstones of removed conversations, so that a session answers why it is gone.

The sweep deletes tombstones after 30 days, with those of outputs.
"""

import hashlib
from datetime import UTC, datetime
from typing import Literal

from pydantic import ValidationError

from outlast.activities.conversations.conversation_blocks import ConversationBlocks
from outlast.activities.conversations.references import ConversationOwner
from outlast.activities.outputs.format.locators import scope_of
from outlast.activities.outputs.store.access import Tombstone
from outlast.activities.outputs.store.object_store import OutputObjects

Reason = Literal["expired", "deleted"]


async def remove_conversation(
    objects: OutputObjects, blocks: ConversationBlocks, owner: ConversationOwner, *, reason: Reason
) -> None:
    """Remove all that a session has kept. The tombstone is written first: a reader in between learns the reason."""
    await leave_tombstone(objects, blocks.namespace, owner, reason)
    await blocks.remove(owner)


async def leave_tombstone(objects: OutputObjects, namespace: str, owner: ConversationOwner, reason: Reason) -> None:
    """Write why a session's conversation is gone."""
    tombstone = Tombstone(reason=reason, at=datetime.now(UTC))
    await objects.put(_tombstone_key(namespace, owner), tombstone.model_dump_json().encode())


async def why_removed(objects: OutputObjects, namespace: str, owner: ConversationOwner) -> Reason | None:
    """Why a session's conversation was removed; None when it was not, or too long ago."""
    text = await objects.get(_tombstone_key(namespace, owner))
    if text is None:
        return None
    try:
        return Tombstone.model_validate_json(text).reason
    except ValidationError:
        return "expired"


def _tombstone_key(namespace: str, owner: ConversationOwner) -> str:
    name = hashlib.sha256(f"{namespace}\n{owner.workflow_id}".encode()).hexdigest()[:32]
    return f"tombstones/{scope_of(owner.caller_id)}/session-{name}.json"
