"""The one form of a tool error, wherever it is seen."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from outlast.activities.contracts import Contract


class ErrorCategory(StrEnum):
    """What kind of failure a tool error is. The values are part of the public contract."""

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
    UNKNOWN = "unknown"


class Violation(Contract):
    """One way in which arguments break a schema."""

    path: str = Field(description="JSON Pointer (RFC 6901) to the offending value; empty for the arguments themselves.")
    message: str

    @classmethod
    def at(cls, parts: Iterable[str | int], message: str) -> "Violation":
        """The violation of the value that `parts`, names and indices from the outside in, lead to."""
        escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
        return cls(path="".join(f"/{part}" for part in escaped), message=message)


class ErrorEnvelope(Contract):
    """The one form of a tool error, wherever it is seen: REST, events, answers to a model.

    `message` carries no secret and at most 2,000 characters.
    """

    tool: str
    message: str
    category: ErrorCategory
    retryable: bool
    attempt: int = Field(default=1, description="Which attempt failed; the first is 1.")
    hint: str | None = Field(default=None, description="What to do about it.")
    allowed_tools: tuple[str, ...] | None = None
    violations: tuple[Violation, ...] | None = None
