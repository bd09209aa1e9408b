"""From the options of a command to a client for the server that they name."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rich.markup import escape

from outlast.cli.client_errors import as_cli_errors
from outlast.cli.options import Options
from outlast.cli.running import Context
from outlast.cli.show.output import Output
from outlast.client import AsyncClient, RetryPolicy, Waiting, find_connection

RETRIES = RetryPolicy(first_contact_seconds=0)
"""For a command with a person in front of it: when nothing has ever answered, it says so at once."""


_NO_RETRIES = RetryPolicy(first_contact_seconds=0, request_seconds=0)


@asynccontextmanager
async def connected(output: Output, options: Options) -> AsyncGenerator[Context]:
    """The context of an action. The client's errors leave the block as `CliError`."""
    with as_cli_errors():
        connection = find_connection(options.url, options.token, options.data_dir, environment={})
        async with AsyncClient(connection=connection, retries=RETRIES, on_waiting=waiting_note(output)) as client:
            yield Context(output, client, options)


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
