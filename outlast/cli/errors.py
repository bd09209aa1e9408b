"""Exit codes of `outlast`, and the errors that lead to them."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Exit codes, which scripts can rely on. `outlast --help` lists them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNAUTHENTICATED = 4
    SERVER_ERROR = 5
    NOT_DONE = 6
    INTERRUPTED = 130


class CliError(Exception):
    """A command cannot continue: `message` is the error, `hint` the remedy, `lines` the details."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: ExitCode,
        hint: str | None = None,
        lines: tuple[str, ...] = (),
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.hint = hint
        self.lines = lines
        self.problem = problem

    def document(self) -> dict[str, Any]:
        """Return what `--json` prints, with the server's problem document if there is one."""
        error: dict[str, Any] = {"message": self.message, "exit_code": int(self.exit_code)}
        error |= {"hint": self.hint} if self.hint else {}
        error |= {"problem": dict(self.problem)} if self.problem else {}
        return {"error": error}


class BadInput(CliError):
    """The input of the user is not valid; nothing was sent."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, exit_code=ExitCode.USAGE, hint=hint)
