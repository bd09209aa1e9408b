"""Locators: opaque names of stored outputs. The same output of the same call always has the same one.

    out_<scope>_<name>_<check>

`scope` tells whose it is, `name` is a digest over the call and the content, `check` tells a typing error from an output
that is gone. Knowing a locator is not enough: it is looked up under its caller's scope only.
"""

import base64
import hashlib
import re
from dataclasses import dataclass

_FORM = re.compile(r"out_([a-z2-7]{13})_([a-z2-7]{32})_([a-z2-7]{6})")
MAX_LOCATOR_CHARS = 64


class LocatorMalformed(Exception):
    """The text is no locator."""


class LocatorForeign(Exception):
    """The locator belongs to another caller."""


@dataclass(frozen=True)
class OutputOrigin:
    """Which call an output is of."""

    caller_id: str
    session_id: str | None
    message_id: str | None
    tool_call_id: str


@dataclass(frozen=True)
class Locator:
    """A locator taken apart."""

    scope: str
    name: str

    def __str__(self) -> str:
        return f"out_{self.scope}_{self.name}_{_check(self.scope, self.name)}"


def scope_of(caller_id: str) -> str:
    """The part of a locator that tells whose it is."""
    return _digest("scope", caller_id)[:13]


def locator_for(origin: OutputOrigin, content_digest: str) -> Locator:
    """The locator of an output, from its call and its content."""
    name = _digest("name", origin.caller_id, origin.session_id, origin.message_id, origin.tool_call_id, content_digest)
    return Locator(scope_of(origin.caller_id), name[:32])


def parse_locator(text: str, *, caller_id: str) -> Locator:
    """The locator that `text` is, for a caller who may use it. Raises `LocatorMalformed` or `LocatorForeign`."""
    match = _FORM.fullmatch(text) if len(text) <= MAX_LOCATOR_CHARS else None
    if match is None or match[3] != _check(match[1], match[2]):
        raise LocatorMalformed("This is no locator; pass it exactly as it was given.")
    if match[1] != scope_of(caller_id):
        raise LocatorForeign("This output belongs to somebody else.")
    return Locator(match[1], match[2])


def _check(scope: str, name: str) -> str:
    return _digest("check", scope, name)[:6]


def _digest(*parts: str | None) -> str:
    """Base32, lower case, of a SHA-256 over the parts, each with its length, so that no two lists meet."""
    encoded = b"".join(b"-" if part is None else b"%d:%s" % (len(part.encode()), part.encode()) for part in parts)
    return base64.b32encode(hashlib.sha256(encoded).digest()).decode().lower().rstrip("=")
