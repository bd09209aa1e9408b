"""Runs the action of a command, and ends the process with its exit code."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import typer

from outlast.cli.connection import RETRIES, as_cli_errors, waiting_note
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.option_flags import read_flags
from outlast.cli.options import SHARED, Options, parameters_of, with_parameters
from outlast.cli.show.output import Output
from outlast.client import AsyncClient, find_connection

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
