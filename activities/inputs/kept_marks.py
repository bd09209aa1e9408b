"""The mark that stands for a large part of a run's input in calls and histories. Pure.

    {"$kept": {"sha256": ..., "size_bytes": 7800000, "begin": "[{},{},..."}}

Workflow code decodes the mark instead of millions of values. See docs/decisions/0014-opaque-inputs.md.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.conversations.references import Digest

_MARK = "$kept"
_BEGIN_CHARS = 200


class KeptPart(Contract):
    """The JSON text that a mark stands for."""

    sha256: Digest
    size_bytes: int = Field(ge=0)
    begin: str = Field(default="", description="How the text begins, for people; empty for a secret.")
    secret: bool = Field(default=False, description="Whether the part is a sealed secret.")

    @property
    def as_mark(self) -> dict[str, JsonValue]:
        """The mark, as a document holds it."""
        return {_MARK: self.model_dump(mode="json")}

    @classmethod
    def of(cls, text: bytes, digest: str, *, secret: bool) -> "KeptPart":
        """The description of a JSON text with the SHA-256 `digest`."""
        begin = "" if secret else text[:_BEGIN_CHARS].decode(errors="ignore")
        return cls(sha256=digest, size_bytes=len(text), begin=begin, secret=secret)


def is_mark(value: object) -> bool:
    """Whether `value` has the form of a mark."""
    return isinstance(value, dict) and set(value) == {_MARK}  # pyright: ignore[reportUnknownArgumentType]


def hides_secret(value: Mapping[Any, Any]) -> bool:
    """Whether `value` is the mark of a sealed secret."""
    part = part_of(value)
    return part is not None and part.secret


def part_of(value: object) -> KeptPart | None:
    """The part that the mark `value` stands for; None for any other value, and for a mark that nobody here has made."""
    if not is_mark(value):
        return None
    try:
        return KeptPart.model_validate(value[_MARK])  # type: ignore[index]  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]
    except ValidationError:
        return None
