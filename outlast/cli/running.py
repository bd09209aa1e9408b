"""From a command's action to the exit code of the process."""

import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from outlast.cli.errors import CliError, ExitCode
from outlast.cli.options import Options
from outlast.cli.show.output import Output
from outlast.loading import loading

if TYPE_CHECKING:
    from outlast.client import AsyncClient

_INTERRUPT_AGAIN_SECONDS = 1


@dataclass(slots=True)
class Context:
    """The context of an action."""

    output: Output
    client: "AsyncClient"
    options: Options
    interrupted: CliError | None = None
    """The message when Ctrl-C ends the action; None for the usual one."""


Action = Callable[[Context], Coroutine[None, None, ExitCode]]


def run_action(options: Options, action: Action) -> None:
    """Run `action` against the server, and leave the process with its exit code (`typer.Exit`)."""
    output = Output(as_json=options.as_json)
    interrupted: list[CliError] = []

    async def act() -> ExitCode:
        # Costs 0.1 s (httpx), which `--help` must not pay.
        with loading():
            import asyncio  # noqa: PLC0415

            from outlast.cli.connecting import connected  # noqa: PLC0415

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
    import asyncio  # noqa: PLC0415 (40 ms)

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
    import asyncio  # noqa: PLC0415 (40 ms)

    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def interrupt() -> None:
        if task is not None:
            task.cancel()
        loop.call_later(_INTERRUPT_AGAIN_SECONDS, interrupt)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    return await act()
