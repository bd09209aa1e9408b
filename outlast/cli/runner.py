"""From a command's action to the exit code of the process."""

import asyncio
import functools
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import typer

from outlast.cli.connection import RETRIES, as_cli_errors, waiting_note
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.option_flags import read_flags
from outlast.cli.options import Options, declared_flags, server_options
from outlast.cli.show.output import Output
from outlast.client import AsyncClient, find_connection

_INTERRUPT_AGAIN_SECONDS = 1


@dataclass(slots=True)
class Context:
    """The context of an action."""

    output: Output
    client: "AsyncClient"
    options: Options
    interrupted: CliError | None = None
    """The message when Ctrl-C ends the action; None for the usual one."""


@asynccontextmanager
async def connected(output: Output, options: Options) -> AsyncGenerator[Context]:
    """The context of an action. The client's errors leave the block as `CliError`."""
    with as_cli_errors():
        connection = find_connection(options.url, options.token, options.data_dir, environment={})
        async with AsyncClient(connection=connection, retries=RETRIES, on_waiting=waiting_note(output)) as client:
            yield Context(output, client, options)


Action = Callable[[Context], Coroutine[None, None, ExitCode]]


def server_command(
    *, as_json: bool | None = None
) -> Callable[[Callable[..., Coroutine[None, None, ExitCode]]], Callable[..., None]]:
    """Decorator: make an action a command with the options of `server_options`.

    The action gets a `Context` and its own arguments and options, by name. Its exit code is that of the process.
    """

    def decorate(action: Callable[..., Coroutine[None, None, ExitCode]]) -> Callable[..., None]:
        flags = [one.name for one in declared_flags(action)]

        @server_options(as_json=as_json)
        @functools.wraps(action)
        def command(options: Options, **given: Any) -> None:
            async def act(context: Context) -> ExitCode:
                own = {name: value for name, value in given.items() if name not in flags}
                return await action(context, **own, **read_flags({name: given[name] for name in flags}))

            run_action(options, act)

        return command

    return decorate


def run_action(options: Options, action: Action) -> None:
    """Run `action` against the server, and leave the process with its exit code (`typer.Exit`)."""
    output = Output(as_json=options.as_json)
    interrupted: list[CliError] = []

    async def act() -> ExitCode:

        async with connected(output, options) as context:
            try:
                return await action(context)
            except asyncio.CancelledError:
                interrupted.extend([context.interrupted] if context.interrupted else [])
                raise

    finish(output, act, interrupted)


def finish(
    output: Output, act: Callable[[], Coroutine[None, None, ExitCode]], interrupted: list[CliError] | None = None
) -> None:
    """Run `act` and turn its end, whatever it is, into the exit code (`typer.Exit`)."""

    try:
        code = asyncio.run(_until_interrupted(act))
    except CliError as error:
        output.error(error)
        code = error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        for error in interrupted or [CliError("Interrupted.", exit_code=ExitCode.INTERRUPTED)]:
            output.error(error)
        code = ExitCode.INTERRUPTED
    raise typer.Exit(int(code))


async def _until_interrupted(act: Callable[[], Coroutine[None, None, ExitCode]]) -> ExitCode:
    """Run `act`; Ctrl-C cancels it, and again every second until it has ended.

    Once is not enough: a cancellation that meets a library at the wrong moment can get lost in it.
    """

    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def interrupt() -> None:
        if task is not None:
            task.cancel()
        loop.call_later(_INTERRUPT_AGAIN_SECONDS, interrupt)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    return await act()
