"""Why an output, or a part of one, cannot be had. Every front door says it in the same words."""

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
    "foreign": "Use the token of the caller whose call made it, or call the tool again yourself.",
    "unknown": "Check that the locator was given by this server; call the tool again for a fresh output.",
    "expired": "Call the tool again for a fresh output; ask for a longer time to live if you need it longer.",
    "deleted": "Call the tool again for a fresh output.",
    "damaged": "Call the tool again for a fresh output, and tell the operators: stored objects were changed.",
    "bad_selection": "Change the selection and try again.",
}


class OutputError(Exception):
    """An expected refusal. Its text says what is wrong, `hint` says what to do."""

    def __init__(self, reason: OutputErrorReason, message: str, hint: str | None = None) -> None:
        """`hint` replaces the usual advice for `reason`."""
        super().__init__(message)
        self.reason: OutputErrorReason = reason
        self.message = message
        self.hint = hint or _HINTS[reason]

    def envelope(self, tool: str = "") -> ErrorEnvelope:
        """The refusal as the one form of a tool error; a retry would not help."""
        return ErrorEnvelope(
            tool=tool, message=self.message, category=_CATEGORIES[self.reason], retryable=False, hint=self.hint
        )


class OutputDamaged(OutputError):
    """Stored bytes are not what was written: truncated, changed, or no output at all."""

    def __init__(self, problem: str) -> None:
        """`problem` is a sentence."""
        super().__init__("damaged", f"This output is damaged: {problem}")
        self.problem = problem


class StoreUnavailable(ConnectionError):
    """The object store did not answer, or refused for a reason that may pass."""
