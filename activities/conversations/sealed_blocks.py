"""The bytes of a block in the store: a line that names its owner, then the sealed, compressed JSON of the block.

    conversations/<namespace>/<owner>/<sha256 of the JSON>

The owner's line is in the clear, as in the id of the session's workflow: the sweep asks Temporal whether the session
still exists. The rest is sealed with the key ring, for the owner alone. The digest is checked on every read.
"""

import hashlib

import zstandard
from pydantic import ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.conversations.contracts import Block
from outlast.activities.conversations.references import ConversationOwner
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.secrets.sealer import SealError, SecretSealer
from outlast.fingerprints import as_folder

CONVERSATIONS = "conversations"
MAX_BLOCK_BYTES = 64 * 1024 * 1024
"""Largest JSON of a block. What a request and its tools may bring is far less."""


class ConversationDamaged(ToolFailure):
    """A block is missing, was changed, or was sealed with a key that is no longer in the ring."""

    def __init__(self, problem: str) -> None:
        """`problem` is a sentence."""
        super().__init__(ErrorEnvelope.permanent(ErrorCategory.FILESYSTEM, "", problem, hint="Begin another session."))


class _OwnerLine(Contract):
    version: int = 1
    owner: ConversationOwner
    key_id: str


def digest_of(block_json: bytes) -> str:
    """The name of a block."""
    return hashlib.sha256(block_json).hexdigest()


def conversation_prefix(namespace: str, owner: ConversationOwner) -> str:
    """The folder of an owner's blocks. A session's id may be longer than a folder's name, so it is a digest.

    Its first two characters are a folder of their own, so that a sweep lists a 256th of all sessions at a time.
    """
    name = hashlib.sha256(_purpose(owner).encode()).hexdigest()[:32]
    return f"{conversations_prefix(namespace)}/{name[:2]}/{name[2:]}"


def conversations_prefix(namespace: str) -> str:
    """The folder of all conversations of a Temporal namespace."""
    return f"{CONVERSATIONS}/{as_folder(namespace)}"


def sealed(sealer: SecretSealer, owner: ConversationOwner, block_json: bytes) -> bytes:
    """The object of a block."""
    key_id, secret = sealer.seal_bytes(zstandard.compress(block_json), purpose=_purpose(owner))
    return _OwnerLine(owner=owner, key_id=key_id).model_dump_json().encode() + b"\n" + secret


def opened(sealer: SecretSealer, owner: ConversationOwner, digest: str, data: bytes) -> Block:
    """The block of an object. Raises `ConversationDamaged`."""
    line, _, secret = data.partition(b"\n")
    try:
        key_id = _OwnerLine.model_validate_json(line).key_id
        packed = sealer.open_bytes(key_id, secret, purpose=_purpose(owner))
        plain = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_BLOCK_BYTES)
        if digest_of(plain) != digest:
            raise ConversationDamaged("A part of the conversation was changed in the store.")
        return Block.model_validate_json(plain)
    except SealError as error:
        raise ConversationDamaged(f"A part of the conversation cannot be opened: {error}") from error
    except (ValidationError, zstandard.ZstdError) as error:
        raise ConversationDamaged("A part of the conversation cannot be read.") from error


def owner_of(data: bytes) -> ConversationOwner | None:
    """The owner that an object names; None when it is no block."""
    try:
        return _OwnerLine.model_validate_json(data.partition(b"\n")[0]).owner
    except ValidationError:
        return None


def _purpose(owner: ConversationOwner) -> str:
    return f"conversation:{len(owner.caller_id)}:{owner.caller_id}:{owner.session_id}"
