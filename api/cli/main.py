"""`outlast`, the command."""

import logging
import os
import sys
from typing import Annotated

import typer

from outlast.api.cli.client_tools import command as client_tools
from outlast.api.cli.commands import (
    admin,
    audit,
    backup,
    bench_tools,
    call,
    chat,
    demo,
    doctor,
    down,
    keys,
    mcp,
    outputs,
    policy,
    providers,
    sessions,
    tasks,
    tools,
    top,
    up,
    usage,
)

_TEMPORAL_RUNTIME = "temporalio.bridge.runtime"
EXIT_CODES = (
    "Exit codes: [bold]0[/] it worked; [bold]1[/] the task failed or was cancelled, a check failed, or the stack could "
    "not run; [bold]2[/] bad input; [bold]3[/] the server cannot be reached; [bold]4[/] no valid credential; "
    "[bold]5[/] the server failed; [bold]6[/] there is no result yet; [bold]130[/] Ctrl-C (the task goes on)."
)

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
app.command(rich_help_panel="The stack")(up.up)
app.command(rich_help_panel="The stack")(down.down)
app.command(rich_help_panel="The stack")(demo.demo)
app.command(rich_help_panel="The stack")(backup.backup)
app.command(rich_help_panel="The stack")(backup.restore)
app.command(rich_help_panel="The stack")(doctor.doctor)
app.command(rich_help_panel="The stack")(top.top)
app.command(rich_help_panel="The stack")(mcp.mcp)
app.command(rich_help_panel="Tools and tasks")(call.call)
app.command(rich_help_panel="Tools and tasks")(chat.chat)
app.command(rich_help_panel="Tools and tasks")(client_tools.client)
app.command(rich_help_panel="Tools and tasks")(providers.providers)
app.command(rich_help_panel="Tools and tasks")(usage.usage)
app.add_typer(sessions.app, name="sessions", rich_help_panel="Tools and tasks")
app.add_typer(tasks.app, name="tasks", rich_help_panel="Tools and tasks")
app.add_typer(outputs.app, name="output", rich_help_panel="Tools and tasks")
app.add_typer(tools.app, name="tools", rich_help_panel="Tools and tasks")
app.add_typer(admin.app, name="admin", rich_help_panel="The stack")
app.add_typer(keys.app, name="keys", rich_help_panel="The stack")
app.add_typer(policy.app, name="policy", rich_help_panel="The stack")
app.add_typer(audit.app, name="audit", rich_help_panel="The stack")
app.add_typer(bench_tools.app, name="bench", rich_help_panel="The stack")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415 (20 ms)

        typer.echo(version("outlast"))
        raise typer.Exit


@app.callback()
def outlast(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command line; leaves the process with one of `ExitCode`."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe that cannot show a character gets a replacement, not an exception.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    try:
        app(prog_name="outlast")
    except SystemExit as ended:
        if _TEMPORAL_RUNTIME in sys.modules and isinstance(ended.code, int):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            # The threads of the Temporal SDK may abort the process when the interpreter ends (a known race).
            os._exit(ended.code)
        raise
