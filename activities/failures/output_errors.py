"""Errors of stored outputs, with the same texts in REST, MCP and the CLI."""

from typing import Literal

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope

OutputErrorReason = Literal["malformed", "foreign", "unknown", "expired", "deleted", "damaged", "bad_selection"]

_CATEGORIES: dict[OutputErrorReason, ErrorCategory] = {
    "malformed": ErrorCategory.VALIDATION,
    "foreign": ErrorCategory.PERMISSION,
    "unknown": ErrorCategory.NOT_FOUND,
    "expired": ErrorCategory.NOT_FOUND,
    "deleted": ErrorCategory.NOT_FOUND,
    "damaged": ErrorCategory.FILESYSTEM,
    "bad_selection": ErrorCategory.VALIDATION,
}
_HINTS: dict[OutputErrorReason, str] = {
    "malformed": "Copy the locator exactly as it was given; it begins with `out_`.",
    "foreign": "Use the token of the caller whose call produced it, or call the tool again yourself.",
    "unknown": "Check that the locator comes from this server; call the tool again for a new output.",
    "expired": "Call the tool again for a new output; ask for a longer time to live if you need it longer.",
    "deleted": "Call the tool again for a new output.",
    "damaged": "Call the tool again for a new output, and report it to the operators: stored objects were changed.",
    "bad_selection": "Change the selection and try again.",
}


class OutputError(Exception):
    """A stored output cannot be read. The message gives the reason, `hint` a remedy."""

    def __init__(self, reason: OutputErrorReason, message: str, hint: str | None = None) -> None:
        """`hint` replaces the usual hint of `reason`."""
        super().__init__(message)
        self.reason: OutputErrorReason = reason
        self.message = message
        self.hint = hint or _HINTS[reason]

    def envelope(self, tool: str = "") -> ErrorEnvelope:
        """Return the error as a tool error, which is not retried."""
        return ErrorEnvelope.permanent(_CATEGORIES[self.reason], tool, self.message, hint=self.hint)


class OutputDamaged(OutputError):
    """The stored bytes are not the bytes that were written: truncated, changed, or not an output at all."""

    def __init__(self, problem: str) -> None:
        super().__init__("damaged", f"This output is damaged: {problem}")
        self.problem = problem


class StoreUnavailable(ConnectionError):
    """The object store did not respond, or failed in a way that a retry may solve."""


class ObjectUnavailable(StoreUnavailable):
    """This object cannot be read, and others can. The message is a sentence about the reason."""


class StoredKeyMissing(ObjectUnavailable):
    """The object was encrypted under a key that is not in the ring. It can be read when the key is back."""
