"""What an output's own index says of it. It is written last: an output that can be found is whole."""

import hashlib
from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from activities.models import Contract

Kind = Literal["rows", "json", "text", "binary"]


class StoredPart(Contract):
    """One part of an output: its object and what is in it. Sizes in bytes."""

    key: str
    size: int
    raw_size: int
    rows: int
    digest: str


class OutputManifest(Contract):
    """An output: what it is, whose, of which call, where its parts are, and until when it is kept."""

    version: int = 1
    locator: str
    caller_id: str
    session_id: str | None = None
    message_id: str | None = None
    tool_call_id: str
    task_id: str | None = Field(default=None, description="The task that may still need it.")
    tool: str = ""
    kind: Kind
    content_type: str
    digest: str = Field(description="SHA-256 over the digests of the parts, in hex.")
    raw_size: int
    stored_size: int
    rows: int = Field(description="Rows; 0 for what has none.")
    parts: tuple[StoredPart, ...]
    created_at: datetime
    expires_at: datetime
    summary: dict[str, JsonValue] = Field(default_factory=dict)


def content_digest(parts: tuple[StoredPart, ...]) -> str:
    """One value that every part, and through it every frame, can be held against."""
    return hashlib.sha256(b"".join(bytes.fromhex(part.digest) for part in parts)).hexdigest()
