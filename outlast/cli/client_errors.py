"""The client's errors in the words and exit codes of the command line."""

from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus

from outlast.cli.errors import CliError, ExitCode
from outlast.client import (
    ApiError,
    ConnectionFailed,
    OutlastError,
    PermissionDenied,
    RateLimited,
    TaskFailed,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
    WaitTimedOut,
)

_EXIT_CODES: tuple[tuple[tuple[type[OutlastError], ...], ExitCode], ...] = (
    ((ConnectionFailed, RateLimited, Unavailable), ExitCode.UNREACHABLE),
    ((Unauthenticated, PermissionDenied), ExitCode.UNAUTHENTICATED),
    ((UnexpectedAnswer,), ExitCode.SERVER_ERROR),
    ((WaitTimedOut,), ExitCode.NOT_DONE),
    ((TaskFailed,), ExitCode.FAILED),
)


@contextmanager
def as_cli_errors() -> Generator[None]:
    """Turn the client's errors that leave the block into `CliError`."""
    try:
        yield
    except OutlastError as error:
        raise cli_error(error) from error


def cli_error(error: OutlastError) -> CliError:
    """`error` as the command line reports it."""
    if not isinstance(error, ApiError):
        return CliError(error.message, exit_code=_exit_code(error), hint=error.hint)
    lines = tuple(f"{violation.path or '(arguments)'}: {violation.message}" for violation in error.violations)
    tools = (f"Available tools: {', '.join(error.allowed_tools)}",) if error.allowed_tools else ()
    return CliError(
        error.message,
        exit_code=_exit_code(error),
        hint=error.hint or _hint(error),
        lines=lines + tools,
        problem=error.problem or {"status": error.status},
    )


def _exit_code(error: OutlastError) -> ExitCode:
    for kinds, code in _EXIT_CODES:
        if isinstance(error, kinds):
            return code
    failed = isinstance(error, ApiError) and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return ExitCode.SERVER_ERROR if failed else ExitCode.USAGE


def _hint(error: ApiError) -> str | None:
    if isinstance(error, Unauthenticated | PermissionDenied):
        return "Give an API key of this server, or your Apify token, in OUTLAST_TOKEN or with --token."
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "`outlast doctor` looks at every part; the server's log says more."
    return None
