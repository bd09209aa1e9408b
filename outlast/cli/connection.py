"""From the options of a command to a client for the server that they name."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus

import typer
from rich.markup import escape

from outlast.cli.errors import CliError, ExitCode
from outlast.cli.options import Options
from outlast.cli.show.output import Output
from outlast.client import (
    ApiError,
    AsyncClient,
    Client,
    ConnectionFailed,
    OutlastError,
    PermissionDenied,
    RateLimited,
    RetryPolicy,
    TaskFailed,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
    Waiting,
    WaitTimedOut,
    find_connection,
)

_SECONDS = 1.0
_NEWEST_TASKS = 50


def complete_tool(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Names of tools that begin so, with what they are."""

    try:
        with _client(ctx) as client:
            return [(tool.name, tool.title) for tool in client.tools() if tool.name.startswith(incomplete)]
    except OutlastError:
        return []


def complete_task(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of the newest tasks that begin so, with tool and state."""

    try:
        with _client(ctx) as client:
            tasks = client.list_page(page_size=_NEWEST_TASKS).tasks
            return [(task.id, f"{task.tool}, {task.status}") for task in tasks if task.id.startswith(incomplete)]
    except OutlastError:
        return []


def complete_asking(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of tasks that begin so and wait for the caller's answer, other callers' too, with tool and question."""

    try:
        with _client(ctx) as client:
            asking = {each.task_id: f"{each.tool}, {each.message.partition(chr(10))[0]}" for each in client.handoffs()}
            own = client.list_page(status="input_required", page_size=_NEWEST_TASKS).tasks
            asking |= {task.id: f"{task.tool}, {task.status}" for task in own if task.id not in asking}
            return [(task_id, words) for task_id, words in asking.items() if task_id.startswith(incomplete)]
    except OutlastError:
        return []


def _client(ctx: typer.Context) -> "Client":

    connection = find_connection(ctx.params.get("url"), ctx.params.get("token"), ctx.params.get("data_dir"))
    no_retries = RetryPolicy(first_contact_seconds=0, request_seconds=0)
    return Client(connection=connection, timeout_seconds=_SECONDS, retries=no_retries)


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


RETRIES = RetryPolicy(first_contact_seconds=0)
"""For a command with a person in front of it: when nothing has ever answered, it says so at once."""


_NO_RETRIES = RetryPolicy(first_contact_seconds=0, request_seconds=0)


def trying_once(options: Options) -> AsyncClient:
    """A client that repeats nothing: for a look at a server that may be down. Raises `BadSettings`, `NoServer`."""
    connection = find_connection(options.url, options.token, options.data_dir, environment={})
    return AsyncClient(connection=connection, retries=_NO_RETRIES)


def waiting_note(output: Output) -> Callable[[Waiting | None], None]:
    """Says on standard error what is being waited for, once per wait."""
    is_waiting = False

    def note(waiting: Waiting | None) -> None:
        nonlocal is_waiting
        if waiting is not None and not is_waiting:
            output.note(f"[yellow]…[/] {escape(waiting_text(waiting))}")
        is_waiting = waiting is not None

    return note


def waiting_text(waiting: Waiting) -> str:
    """The reason of a wait, and its length."""
    left = "" if waiting.seconds_left is None else f" for {waiting.seconds_left:.0f} s"
    return f"{waiting.reason} Trying again{left} …"
