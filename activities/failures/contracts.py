"""Contracts of tool errors: one form for REST, events and models."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from outlast.activities.contracts import OPEN, Contract
from outlast.activities.unicode_text import ValidText


class ErrorCategory(StrEnum):
    """The category of a tool error. The values are part of the public contract."""

    NETWORK = "network"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    CAPACITY = "capacity"
    PERMISSION = "permission"
    AUTHENTICATION = "authentication"
    PAYMENT = "payment"
    VALIDATION = "validation"
    NOT_FOUND = "not_found"
    FILESYSTEM = "filesystem"
    CONFLICT = "conflict"
    PLATFORM = "platform"
    CANCELLED = "cancelled"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UNKNOWN = "unknown"


_DICTIONARY: Final = re.compile(r"a valid dictionary(?: or instance of \w+)?")
"""What pydantic calls an object of JSON."""


class Violation(Contract):
    """One way in which arguments break a schema."""

    path: ValidText = Field(
        description="JSON Pointer (RFC 6901) to the offending value; empty for the arguments themselves."
    )
    message: ValidText

    @classmethod
    def at(cls, parts: Iterable[str | int], message: str) -> "Violation":
        """Return the violation at the value that `parts` lead to: names and indices, the outermost first."""
        escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
        return cls(path="".join(f"/{part}" for part in escaped), message=_DICTIONARY.sub("an object", message))


class ErrorEnvelope(Contract):
    """A tool error, in REST, in events and in answers to a model."""

    tool: ValidText = Field(description="Name of the tool; empty where no tool is known.")
    message: ValidText = Field(description="What failed, in at most 2,000 characters and without secrets.")
    category: Annotated[ErrorCategory, OPEN] = Field(description="What kind of failure it is.")
    retryable: bool = Field(description="Whether the same call may succeed later.")
    attempt: int = Field(default=1, description="Which attempt failed; the first is 1.")
    hint: ValidText | None = Field(default=None, description="What to do about it.")
    allowed_tools: tuple[str, ...] | None = Field(
        default=None, description="For an unknown tool: the names of all tools that can be called instead."
    )
    violations: tuple[Violation, ...] | None = Field(
        default=None, description="For arguments that break the tool's schema: each violation."
    )

    @classmethod
    def permanent(
        cls,
        category: ErrorCategory,
        tool: str,
        message: str,
        *,
        hint: str | None = None,
        violations: tuple[Violation, ...] | None = None,
        allowed_tools: tuple[str, ...] | None = None,
    ) -> "ErrorEnvelope":
        """Return an error that the same call would have again."""
        return cls(
            tool=tool,
            message=message,
            category=category,
            retryable=False,
            hint=hint,
            violations=violations,
            allowed_tools=allowed_tools,
        )

    @classmethod
    def transient(cls, category: ErrorCategory, tool: str, message: str, *, hint: str | None = None) -> "ErrorEnvelope":
        """Return an error that may be gone when the same call is repeated."""
        return cls(tool=tool, message=message, category=category, retryable=True, hint=hint)
