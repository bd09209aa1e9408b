"""Runs the action of a command: connects it to the server, and ends the process with its exit code."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from inspect import signature
from typing import Any

import typer
from rich.markup import escape

from outlast.cli.options import SHARED, CliError, ExitCode, Options, parameters_of, read_flags, with_parameters
from outlast.cli.show.output import Output
from outlast.client import AsyncClient, Client, RetryPolicy, Waiting, errors, find_connection
from outlast.suggestions import suggested

_NEWEST_TASKS = 50
RETRIES = RetryPolicy(first_contact_seconds=0)
"""For commands with a user who waits: a server that has never answered is reported at once."""
_NO_RETRIES = RetryPolicy(first_contact_seconds=0, request_seconds=0)
_Completions = list[tuple[str, str]]


def _completer(choices: Callable[[Client], Iterable[tuple[str, str]]]) -> Callable[[typer.Context, str], _Completions]:
    """Return a completion from pairs of a value and its description; it is empty if no server answers."""

    def complete(ctx: typer.Context, incomplete: str) -> _Completions:
        try:
            connection = find_connection(ctx.params.get("url"), ctx.params.get("token"), ctx.params.get("data_dir"))
            with Client(connection=connection, timeout_seconds=1, retries=_NO_RETRIES) as client:
                return [(value, words) for value, words in choices(client) if value.startswith(incomplete)]
        except errors.OutlastError:
            return []

    return complete


def _newest(client: Client, status: str | None = None) -> _Completions:
    tasks = client.list_page(status=status, page_size=_NEWEST_TASKS).tasks
    return [(task.id, f"{task.tool}, {task.status}") for task in tasks]


def _with_question(client: Client) -> _Completions:
    """Tasks that wait for the caller's answer, including those of other callers."""
    asking = {each.task_id: f"{each.tool}, {each.message.partition(chr(10))[0]}" for each in client.handoffs()}
    own = [(task_id, words) for task_id, words in _newest(client, "input_required") if task_id not in asking]
    return [*asking.items(), *own]


complete_tool = _completer(lambda client: [(tool.name, tool.title) for tool in client.tools()])
complete_task = _completer(_newest)
complete_asking = _completer(_with_question)


_EXIT_CODES: tuple[tuple[tuple[type[errors.OutlastError], ...], ExitCode], ...] = (
    ((errors.ConnectionFailed, errors.RateLimited, errors.Unavailable), ExitCode.UNREACHABLE),
    ((errors.Unauthenticated, errors.PermissionDenied), ExitCode.UNAUTHENTICATED),
    ((errors.UnexpectedAnswer,), ExitCode.SERVER_ERROR),
    ((errors.WaitTimedOut,), ExitCode.NOT_DONE),
    ((errors.TaskFailed,), ExitCode.FAILED),
)


@contextmanager
def as_cli_errors() -> Generator[None]:
    """Turn errors of the client that leave the block into `CliError`."""
    try:
        yield
    except errors.OutlastError as error:
        raise cli_error(error) from error


def cli_error(error: errors.OutlastError) -> CliError:
    """Return `error` in the form of the command line."""
    if not isinstance(error, errors.ApiError):
        return CliError(error.message, exit_code=_exit_code(error), hint=error.hint)
    lines = tuple(f"{violation.path or '(arguments)'}: {violation.message}" for violation in error.violations)
    is_named = error.hint is not None and error.hint.startswith("Did you mean ")
    tools = (f"Available tools: {suggested(error.allowed_tools)}",) if error.allowed_tools and not is_named else ()
    return CliError(
        error.message,
        exit_code=_exit_code(error),
        hint=error.hint or _hint(error),
        lines=lines + tools,
        problem=error.problem or {"status": error.status},
    )


def _exit_code(error: errors.OutlastError) -> ExitCode:
    for kinds, code in _EXIT_CODES:
        if isinstance(error, kinds):
            return code
    failed = isinstance(error, errors.ApiError) and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return ExitCode.SERVER_ERROR if failed else ExitCode.USAGE


def _hint(error: errors.ApiError) -> str | None:
    if isinstance(error, errors.Unauthenticated | errors.PermissionDenied):
        return "Set OUTLAST_TOKEN or --token to an API key of this server, or to your Apify token."
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "`outlast doctor` checks every part; the log of the server has details."
    return None


def trying_once(options: Options) -> AsyncClient:
    """Return a client without retries, for a server that may be down. Raises `BadSettings` and `NoServer`."""
    connection = find_connection(options.url, options.token, options.data_dir, environment={})
    return AsyncClient(connection=connection, retries=_NO_RETRIES)


def waiting_note(output: Output) -> Callable[[Waiting | None], None]:
    """Return a function that prints the reason of a wait on standard error, once per wait."""
    is_waiting = False

    def note(waiting: Waiting | None) -> None:
        nonlocal is_waiting
        if waiting is not None and not is_waiting:
            output.note(f"[yellow]…[/] {escape(waiting_text(waiting))}")
        is_waiting = waiting is not None

    return note


def waiting_text(waiting: Waiting) -> str:
    """Return the reason of a wait and its length."""
    left = "" if waiting.seconds_left is None else f" for {waiting.seconds_left:.0f} s"
    return f"{waiting.reason} Trying again{left} …"


_INTERRUPT_AGAIN_SECONDS = 1

Ending = Coroutine[None, None, ExitCode | None]
"""The run of a command, with its exit code; None is success."""
Command = Callable[..., None]


@dataclass(slots=True)
class Context:
    """The context of an action."""

    output: Output
    client: AsyncClient
    options: Options

    def suggest(self, **commands: str) -> None:
        """Print commands that the user can type next, with their names: `watch="tasks watch ID"`."""
        for line in self.options.commands(**commands):
            self.output.command(line)


@asynccontextmanager
async def connected(output: Output, options: Options) -> AsyncGenerator[Context]:
    """Connect to the server that `options` name. The client's errors leave the block as `CliError`."""
    with as_cli_errors():
        connection = find_connection(options.url, options.token, options.data_dir, environment={})
        async with AsyncClient(connection=connection, retries=RETRIES, on_waiting=waiting_note(output)) as client:
            yield Context(output, client, options)


def server_command(
    app: typer.Typer | None = None, name: str | None = None, *, as_json: bool | None = None
) -> Callable[[Callable[..., Ending]], Command]:
    """Decorator: make an action a command, of `app` if given, with `--json --url --token --data-dir`.

    The action gets a `Context`, and its arguments and options by name. `as_json` is the fixed form of the output of a
    command without `--json`.
    """
    shared = {flag: one for flag, one in SHARED.items() if flag != "as_json" or as_json is None}

    def decorate(action: Callable[..., Ending]) -> Command:
        own = signature(action).parameters

        def command(**given: Any) -> None:
            fixed: dict[str, Any] = {} if as_json is None else {"as_json": as_json}
            options = Options(**fixed, **{flag: given.pop(flag) for flag in shared})
            output = Output(as_json=options.as_json)

            async def act() -> ExitCode | None:
                async with connected(output, options) as context:
                    named = {name: value for name, value in given.items() if name in own}
                    flags = {name: value for name, value in given.items() if name not in own}
                    return await action(context, **named, **read_flags(flags))

            finish(output, act)

        return _registered(app, name, with_parameters(command, action, parameters_of(action)[1:], shared.values()))

    return decorate


def local_command(
    app: typer.Typer | None = None, name: str | None = None, *, with_server: bool = False
) -> Callable[[Callable[..., Ending]], Command]:
    """Decorator: make an action that can do without a server a command, of `app` if given, with `--json`.

    The action gets an `Output`, its `Options` if `with_server`, and its arguments and options by name.
    """
    shared = SHARED if with_server else {"as_json": SHARED["as_json"]}

    def decorate(action: Callable[..., Ending]) -> Command:
        def command(**given: Any) -> None:
            options = Options(**{flag: given.pop(flag) for flag in shared})
            output = Output(as_json=options.as_json)
            first = (output, options) if with_server else (output,)
            finish(output, lambda: action(*first, **given))

        own = parameters_of(action)[2 if with_server else 1 :]
        return _registered(app, name, with_parameters(command, action, own, shared.values()))

    return decorate


def _registered(app: typer.Typer | None, name: str | None, command: Command) -> Command:
    return command if app is None else app.command(name)(command)


def finish(output: Output, act: Callable[[], Ending]) -> None:
    """Run `act` and leave the process with its exit code (`typer.Exit`)."""
    try:
        code = asyncio.run(_until_interrupted(act)) or ExitCode.OK
    except CliError as error:
        output.error(error)
        code = error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        output.error(output.interrupted)
        code = ExitCode.INTERRUPTED
    raise typer.Exit(int(code))


async def _until_interrupted(act: Callable[[], Ending]) -> ExitCode | None:
    """Run `act`. Ctrl-C cancels it, and again every second until it has ended: a library can lose a cancellation."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def interrupt() -> None:
        if task is not None:
            task.cancel()
        loop.call_later(_INTERRUPT_AGAIN_SECONDS, interrupt)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    return await act()
