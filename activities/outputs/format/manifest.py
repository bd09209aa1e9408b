"""The manifest of an output. It is written last, so that an output with a manifest is complete."""

import hashlib
import json
import re
from datetime import datetime
from typing import Literal

from pydantic import Field, ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.outputs.contracts import FieldSummary, OutputKind, OutputScope, StoredOutput
from outlast.activities.outputs.format.errors import OutputDamaged
from outlast.activities.outputs.format.locators import Locator, locator_for

DIGEST_PREFIX = "sha256:"
_SEAL = re.compile(rb'\{"checksum":"sha256:([0-9a-f]{64})",')


class StoredPart(Contract):
    """One part of an output: its object and its content. Sizes in bytes."""

    key: str
    size: int = Field(ge=0)
    raw_size: int = Field(ge=0)
    rows: int = Field(ge=0)
    digest: str = Field(description="SHA-256 over the digests of the frames, in hex.", pattern="^[0-9a-f]{64}$")


class OutputManifest(Contract):
    """An output: its kind, its owner, its call, its parts and its expiry."""

    version: Literal[1] = 1
    locator: str
    caller_id: str
    session_id: str | None = None
    message_id: str | None = None
    tool_call_id: str
    task_id: str = Field(description="The task that produced it and may still need it.")
    kind: OutputKind
    content_type: str
    digest: str = Field(description="SHA-256 over the digests of the parts: `sha256:` and hexadecimal.")
    raw_size: int
    stored_size: int
    rows: int = Field(description="Number of rows; 0 for other kinds.")
    count: int | None = Field(default=None, description="Number of rows, or of elements of a JSON list.")
    fields: tuple[FieldSummary, ...] = ()
    summary: str = ""
    parts: tuple[StoredPart, ...]
    series: str | None = Field(
        default=None, description="Of an output that grows: what its locator follows from, instead of its digest."
    )
    created_at: datetime
    expires_at: datetime

    @property
    def scope(self) -> OutputScope:
        """The owner and the call that produced it."""
        return OutputScope(
            caller_id=self.caller_id,
            session_id=self.session_id,
            message_id=self.message_id,
            tool_call_id=self.tool_call_id,
            task_id=self.task_id,
        )


def locator_of(manifest: OutputManifest) -> Locator:
    """The locator of an output: it follows from its call and its content, or from its series when it grows."""
    return locator_for(manifest.scope, manifest.kind, manifest.series or manifest.digest)


def content_digest(parts: tuple[StoredPart, ...]) -> str:
    """One digest over the digests of all parts, and through them of all frames."""
    found = hashlib.sha256(b"".join(bytes.fromhex(part.digest) for part in parts))
    return DIGEST_PREFIX + found.hexdigest()


def manifest_text(manifest: OutputManifest) -> bytes:
    """The manifest as it is stored: JSON whose first member is the checksum of the rest."""
    text = manifest.model_dump_json().encode()
    return b'{"checksum":"%s%s",%s' % (DIGEST_PREFIX.encode(), hashlib.sha256(text).hexdigest().encode(), text[1:])


def parse_manifest(text: bytes) -> OutputManifest:
    """Parse a stored manifest. Raises `OutputDamaged` when any byte was changed."""
    seal = _SEAL.match(text)
    if seal is None or hashlib.sha256(b"{" + text[seal.end() :]).hexdigest().encode() != seal[1]:
        raise OutputDamaged("Its manifest was changed.")
    try:
        manifest = OutputManifest.model_validate(json.loads(text))
    except (ValidationError, ValueError) as error:
        raise OutputDamaged("Its manifest cannot be read.") from error
    _check_consistency(manifest)
    return manifest


def _check_consistency(manifest: OutputManifest) -> None:
    """Raise `OutputDamaged` when digest, sizes or locator do not match the parts and the call."""
    is_consistent = (
        content_digest(manifest.parts) == manifest.digest
        and sum(part.raw_size for part in manifest.parts) == manifest.raw_size
        and sum(part.rows for part in manifest.parts) == manifest.rows
        and str(locator_of(manifest)) == manifest.locator
    )
    if not is_consistent:
        raise OutputDamaged("Its manifest contradicts itself.")


def stored_output(manifest: OutputManifest) -> StoredOutput:
    """The description of the output that answers contain instead of its content."""
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
