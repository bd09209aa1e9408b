"""What an output's own index says of it. It is written last: an output that can be found is whole."""

import hashlib
import json
import re
from datetime import datetime
from typing import Literal

from pydantic import Field, ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.outputs.contracts import FieldSummary, OutputKind, OutputScope, StoredOutput
from outlast.activities.outputs.format.errors import OutputDamaged
from outlast.activities.outputs.format.locators import locator_for

DIGEST_PREFIX = "sha256:"
_SEAL = re.compile(rb'\{"checksum":"sha256:([0-9a-f]{64})",')


class StoredPart(Contract):
    """One part of an output: its object and what is in it. Sizes in bytes."""

    key: str
    size: int = Field(ge=0)
    raw_size: int = Field(ge=0)
    rows: int = Field(ge=0)
    digest: str = Field(description="SHA-256 over the digests of the frames, in hex.", pattern="^[0-9a-f]{64}$")


class OutputManifest(Contract):
    """An output: what it is, whose, of which call, where its parts are, and until when it is kept."""

    version: Literal[1] = 1
    locator: str
    caller_id: str
    session_id: str | None = None
    message_id: str | None = None
    tool_call_id: str
    task_id: str = Field(description="The task that made it and may still need it.")
    kind: OutputKind
    content_type: str
    digest: str = Field(description="SHA-256 over the digests of the parts: `sha256:` and hexadecimal.")
    raw_size: int
    stored_size: int
    rows: int = Field(description="Rows; 0 for what has none.")
    count: int | None = Field(default=None, description="Number of rows, or of elements of a JSON list.")
    fields: tuple[FieldSummary, ...] = ()
    summary: str = ""
    parts: tuple[StoredPart, ...]
    created_at: datetime
    expires_at: datetime

    @property
    def scope(self) -> OutputScope:
        """Whose it is and which call made it."""
        return OutputScope(
            caller_id=self.caller_id,
            session_id=self.session_id,
            message_id=self.message_id,
            tool_call_id=self.tool_call_id,
            task_id=self.task_id,
        )


def content_digest(parts: tuple[StoredPart, ...]) -> str:
    """One value that every part, and through it every frame, can be held against."""
    found = hashlib.sha256(b"".join(bytes.fromhex(part.digest) for part in parts))
    return DIGEST_PREFIX + found.hexdigest()


def manifest_text(manifest: OutputManifest) -> bytes:
    """The manifest as it is stored: JSON whose first member is a checksum of the rest."""
    text = manifest.model_dump_json().encode()
    return b'{"checksum":"%s%s",%s' % (DIGEST_PREFIX.encode(), hashlib.sha256(text).hexdigest().encode(), text[1:])


def parse_manifest(text: bytes) -> OutputManifest:
    """The manifest from its text. Raises `OutputDamaged` when any byte is not what was written."""
    seal = _SEAL.match(text)
    if seal is None or hashlib.sha256(b"{" + text[seal.end() :]).hexdigest().encode() != seal[1]:
        raise OutputDamaged("Its manifest is not what was written.")
    try:
        manifest = OutputManifest.model_validate(json.loads(text))
    except (ValidationError, ValueError) as error:
        raise OutputDamaged("Its manifest cannot be read.") from error
    _check(manifest)
    return manifest


def _check(manifest: OutputManifest) -> None:
    """Everything that follows from something else must do so; the locator follows from call and content."""
    is_consistent = (
        content_digest(manifest.parts) == manifest.digest
        and sum(part.raw_size for part in manifest.parts) == manifest.raw_size
        and sum(part.rows for part in manifest.parts) == manifest.rows
        and str(locator_for(manifest.scope, manifest.kind, manifest.digest)) == manifest.locator
    )
    if not is_consistent:
        raise OutputDamaged("Its manifest contradicts itself.")


def stored_output(manifest: OutputManifest) -> StoredOutput:
    """What travels on instead of the output."""
    return StoredOutput(
        locator=manifest.locator,
        kind=manifest.kind,
        content_type=manifest.content_type,
        size_bytes=manifest.raw_size,
        stored_bytes=manifest.stored_size,
        count=manifest.count,
        digest=manifest.digest,
        created_at=manifest.created_at,
        expires_at=manifest.expires_at,
        fields=manifest.fields,
        summary=manifest.summary,
    )
