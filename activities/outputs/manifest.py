"""Locators and manifests of outputs. The manifest is written last, so an output with a manifest is complete."""

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field, ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.failures.output_errors import OutputDamaged, OutputError
from outlast.activities.outputs.contracts import FieldSummary, OutputKind, OutputScope, StoredOutput

_FORM = re.compile(r"out_([a-z2-7]{13})_([a-z2-7]{32})_([a-z2-7]{6})")
_TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
MAX_LOCATOR_CHARS = 64


@dataclass(frozen=True)
class Locator:
    """The parts of a locator."""

    scope: str
    name: str

    def __str__(self) -> str:
        return f"out_{self.scope}_{self.name}_{_check(self.scope, self.name)}"


def scope_of(caller_id: str) -> str:
    """Return the part of a locator that identifies its owner: 13 characters."""
    return _digest("scope", caller_id)[:13]


def locator_for(scope: OutputScope, kind: OutputKind, digest: str) -> Locator:
    """Return the locator of an output, derived from its call, its kind and the digest of its content."""
    call = (scope.caller_id, scope.session_id, scope.message_id, scope.tool_call_id)
    name = _digest("name", *call, kind, digest)
    return Locator(scope_of(scope.caller_id), name[:32])


def upload_name(scope: OutputScope, what: str) -> str:
    """`<task id>.<16 hex>`: the same for every attempt to store `what` for this call, on any worker. A task id with
    characters that are not safe in a key is replaced by its digest.
    """
    is_safe = _TASK_ID.fullmatch(scope.task_id) is not None
    task = scope.task_id if is_safe else "task-" + _digest("task", scope.task_id)[:32]
    text = "\n".join([scope.session_id or "", scope.message_id or "", scope.tool_call_id, what])
    return f"{task}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def parse_locator(text: str, *, caller_id: str) -> Locator:
    """Parse a locator of the caller. Raises `OutputError`: malformed or foreign."""
    match = _FORM.fullmatch(text) if len(text) <= MAX_LOCATOR_CHARS else None
    if match is None or match[3] != _check(match[1], match[2]):
        raise OutputError("malformed", "This is not the locator of a stored output.")
    if match[1] != scope_of(caller_id):
        raise OutputError("foreign", "This output belongs to another caller.")
    return Locator(match[1], match[2])


def _check(scope: str, name: str) -> str:
    return _digest("check", scope, name)[:6]


def _digest(*parts: str | None) -> str:
    """SHA-256 over the parts in lower-case Base32. Each part's length is hashed too, so that no two lists collide."""
    encoded = b"".join(b"-" if part is None else b"%d:%s" % (len(part.encode()), part.encode()) for part in parts)
    return base64.b32encode(hashlib.sha256(encoded).digest()).decode().lower().rstrip("=")


REFERENCES_ATTRIBUTE = "OutlastLocators"
"""Search attribute of type KeywordList, set when a task starts."""

MAX_REFERENCES = 100
"""References beyond this number are not protected. Temporal allows 2 KB per search attribute: entries are short too."""

_LOCATOR = re.compile(r"out_[a-z2-7]{13}_([a-z2-7]{16})[a-z2-7]{16}_[a-z2-7]{6}")


def references_in(text: str) -> tuple[str, ...]:
    """Short names of the locators in a text, each once: the first 16 characters after the second underscore."""
    return tuple(dict.fromkeys(_LOCATOR.findall(text)))[:MAX_REFERENCES]


def locators_in(text: str) -> tuple[str, ...]:
    """Return the locators in a text, each once. Their check characters may be wrong, see `parse_locator`."""
    return tuple(dict.fromkeys(found[0] for found in _LOCATOR.finditer(text)))


def reference_to(locator: str) -> str:
    """Return the short name of one locator."""
    return locator.split("_")[2][:16]


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
    """Return the locator of an output: it follows from its call and its content, or from its series when it grows."""
    return locator_for(manifest.scope, manifest.kind, manifest.series or manifest.digest)


def content_digest(parts: tuple[StoredPart, ...]) -> str:
    """Return one digest over the digests of all parts, and through them of all frames."""
    found = hashlib.sha256(b"".join(bytes.fromhex(part.digest) for part in parts))
    return DIGEST_PREFIX + found.hexdigest()


def manifest_text(manifest: OutputManifest) -> bytes:
    """Return the manifest as it is stored: JSON whose first member is the checksum of the rest."""
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
    """Return the description of the output that answers contain instead of its content."""
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
