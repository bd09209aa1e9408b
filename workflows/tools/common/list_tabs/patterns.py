"""Regular expressions of callers, evaluated by RE2: in time linear to the text, whatever the pattern.

A time limit around a backtracking engine would have to kill threads, and would judge the same call differently on a
busy machine. What RE2 cannot do (look-around, back-references) is refused when the arguments are checked.
"""

from typing import Annotated, Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs]  # the package has no types
from pydantic import AfterValidator, Field

MAX_PATTERN_CHARS = 200
MAX_PROGRAM_SIZE = 1_500
"""Instructions of RE2: each may look at each character. `[a-z]{20}` has about 40, one `\\pL` a thousand."""
_MAX_MEMORY_BYTES = 1024 * 1024
_Re2Error = cast(type[Exception], re2.error)  # pyright: ignore[reportUnknownMemberType]


class Pattern(Protocol):
    """A compiled pattern, as far as it is used here."""

    def search(self, text: str, /) -> object | None:
        """A match anywhere in `text`, or None."""
        ...


class _Compiled(Pattern, Protocol):
    programsize: int


def compiled(pattern: str) -> Pattern:
    """`pattern` without regard to case. Raises `ValueError` that says what is wrong with it."""
    options = re2.Options()
    options.case_sensitive = False
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        found = cast(_Compiled, re2.compile(pattern, options))  # pyright: ignore[reportUnknownMemberType]
    except _Re2Error as error:
        raise ValueError(f"not a regular expression in RE2's syntax: {_error_text(error)}") from error
    if found.programsize > MAX_PROGRAM_SIZE:
        raise ValueError("too large a regular expression: use fewer or smaller repetitions such as {500}")
    return found


def _checked(pattern: str) -> str:
    compiled(pattern)
    return pattern


def _error_text(error: Exception) -> str:
    reason: object = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


TabPattern = Annotated[
    str,
    Field(min_length=1, max_length=MAX_PATTERN_CHARS, json_schema_extra={"format": "regex"}),
    AfterValidator(_checked),
]
"""A regular expression as an argument: what is none is refused with the call's other violations."""
