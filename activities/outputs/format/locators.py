"""Locators: opaque names of stored outputs. The same output of the same call always has the same locator.

    out_<scope>_<name>_<check>

`scope` identifies the owner, `name` is a digest over the call and the content, `check` distinguishes a typing error
from an output that was removed. A locator is not a secret: only its owner can use it.
"""

import base64
import hashlib
import re
from dataclasses import dataclass

from outlast.activities.outputs.contracts import OutputKind, OutputScope
from outlast.activities.outputs.format.errors import OutputError

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
    """The part of a locator that identifies its owner: 13 characters."""
    return _digest("scope", caller_id)[:13]


def locator_for(scope: OutputScope, kind: OutputKind, digest: str) -> Locator:
    """The locator of an output, derived from its call, its kind and the digest of its content."""
    call = (scope.caller_id, scope.session_id, scope.message_id, scope.tool_call_id)
    name = _digest("name", *call, kind, digest)
    return Locator(scope_of(scope.caller_id), name[:32])


def upload_name(scope: OutputScope, what: str) -> str:
    """`<task id>.<16 hex>`: the same for every attempt to store `what` for this call, on any worker.

    A task id with characters that are not safe in a key is replaced by its digest.
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
    """The locators in a text, each once. Their check may be wrong: `parse_locator` says so."""
    return tuple(dict.fromkeys(found[0] for found in _LOCATOR.finditer(text)))


def reference_to(locator: str) -> str:
    """The short name of one locator."""
    return locator.split("_")[2][:16]
