"""The command `outlast`: its commands, and the begin and end of its process."""

import gc
import inspect
import logging
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from outlast.cli.client_tools.command import client
from outlast.cli.commands import (
    admin,
    audit,
    batch,
    bench,
    keys,
    mcp,
    outputs,
    policy,
    saved,
    schedules,
    sessions,
    tasks,
    tools,
    webhooks,
)
from outlast.cli.commands.backup import backup, restore
from outlast.cli.commands.call import call
from outlast.cli.commands.chat import chat
from outlast.cli.commands.demo import demo
from outlast.cli.commands.doctor import doctor
from outlast.cli.commands.providers import providers
from outlast.cli.commands.stack import down, up
from outlast.cli.commands.top import top
from outlast.cli.commands.usage import usage
from outlast.cli.errors import ExitCode
from outlast.extras import command_that_adds, extra_of

EXIT_CODES = (
    "Exit codes: [bold]0[/] success; [bold]1[/] the task failed or was cancelled, a check failed, or the stack could "
    "not run; [bold]2[/] bad input; [bold]3[/] the server cannot be reached; [bold]4[/] no valid credential; "
    "[bold]5[/] the server failed; [bold]6[/] no result yet; [bold]130[/] Ctrl-C (the task continues)."
)
_ALLOCATIONS = 50_000
"""Allocations between two garbage collections: more than most commands make."""
_STARTING = frozenset({"up", "down", "demo", "backup", "restore", "mcp"})
"""Commands of the embedded stack."""
_Commands = tuple[typer.Typer | Callable[..., None], ...]
_STACK: _Commands = (up, down, demo, backup, restore, doctor, top, mcp.app)
_CALLS: _Commands = (call, chat, client, providers, usage)
_STORED: _Commands = (sessions.app, tasks.app, batch.app, schedules.app, saved.app, webhooks.app, outputs.app)
_OPERATION: _Commands = (admin.app, keys.app, policy.app, audit.app, bench.app)


def main() -> None:
    """Run the command line. Ends the process with one of `ExitCode`."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe that cannot show a character gets a replacement, not an exception.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    gc.set_threshold(_ALLOCATIONS)
    # A regular exit takes 20 ms, and threads of the Temporal SDK can abort it (a known race).
    os._exit(_exit_code_of(command_line()))


def command_line() -> typer.Typer:
    """Return the command line with all commands."""
    app = typer.Typer(
        name="outlast",
        help="Durable tool execution for AI agents: every tool call is a Temporal workflow.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        rich_markup_mode="rich",
        # A traceback with local variables could show a token.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(outlast)
    for panel, commands in (
        ("The stack", _STACK),
        ("Tools and tasks", (*_CALLS, *_STORED, tools.app)),
        ("The stack", _OPERATION),
    ):
        for command in commands:
            if isinstance(command, typer.Typer):
                app.add_typer(command, rich_help_panel=panel)
            else:
                app.command(rich_help_panel=panel)(command)
    return with_flowing_help(app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version("outlast"))
        raise typer.Exit


def outlast(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the command itself."""


def _exit_code_of(app: typer.Typer) -> int:
    """Run the command of `sys.argv`, write all of its output, and return its exit code."""
    try:
        app(prog_name="outlast")
    except ModuleNotFoundError as error:
        extra = extra_of(error)
        if extra is None:
            raise
        adds = command_that_adds("embedded" if sys.argv[1] in _STARTING else extra)
        typer.echo(f"✗ This command needs packages that are not installed. Add them with:\n  {adds}", err=True)
        code = ExitCode.USAGE
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    else:
        code = 0
    logging.shutdown()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed by the shell
        stream.flush()
    return code


def with_flowing_help(app: typer.Typer) -> typer.Typer:
    """Remove the line breaks within paragraphs of help texts, so that the terminal wraps them."""
    for command in app.registered_commands:
        command.help = flowing(command.help or inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_flowing_help(group.typer_instance)
    callback = app.registered_callback
    if callback is not None and not isinstance(app.info.help, str):
        callback.help = flowing(inspect.getdoc(callback.callback) or "")
    return app


def flowing(text: str) -> str:
    """Return `text` without line breaks within paragraphs, except those with indented lines, such as examples."""
    return "\n\n".join(
        paragraph if "\n " in paragraph else paragraph.replace("\n", " ")
        for paragraph in inspect.cleandoc(text).split("\n\n")
    )
