"""The command `outlast`: its commands, and the begin and end of its process."""

import gc
import inspect
import logging
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from outlast.cli.client_tools.command import client
from outlast.cli.commands import (
    admin,
    batch,
    bench,
    keys,
    mcp,
    outputs,
    saved,
    schedules,
    servers,
    sessions,
    tasks,
    tools,
    webhooks,
)
from outlast.cli.commands.backup import backup, restore
from outlast.cli.commands.demo import demo
from outlast.cli.commands.doctor import doctor
from outlast.cli.commands.sessions import chat, providers
from outlast.cli.commands.stack import dev, down, up
from outlast.cli.commands.tasks import call, run
from outlast.cli.commands.top import top
from outlast.cli.commands.usage import usage
from outlast.cli.options import SHARED_NAMES, ExitCode
from outlast.cli.show.output import Entries, Output, with_commands
from outlast.extras import command_that_adds, extra_of

EXIT_CODES = (
    "[bold]--json[/], [bold]--url[/], [bold]--token[/] and [bold]--data-dir[/] can also precede the command.\n\n"
    "Exit codes: [bold]0[/] success; [bold]1[/] the task failed or was cancelled, a check failed, or the stack could "
    "not run; [bold]2[/] bad input; [bold]3[/] the server cannot be reached; [bold]4[/] no valid credential; "
    "[bold]5[/] the server failed; [bold]6[/] no result yet; [bold]130[/] Ctrl-C (the task continues)."
)
_ALLOCATIONS = 50_000
"""Allocations between two garbage collections: more than most commands make."""
_LEADING = "outlast.leading"
"""Key of the shared options that precede the name of a command, in the context of the command line."""
_STARTING = frozenset({"up", "dev", "down", "demo", "backup", "restore", "mcp"})
"""Commands of the embedded stack."""
_Commands = tuple[typer.Typer | Callable[..., None], ...]
_GROUPS: dict[str, _Commands] = {
    "The stack": (up, dev, down, demo, doctor, top),
    "Tools and tasks": (
        call,
        run,
        tools.app,
        tasks.app,
        batch.app,
        schedules.app,
        saved.app,
        webhooks.app,
        outputs.app,
        usage,
    ),
    "Agents and models": (mcp.app, client, chat, sessions.app, providers),
    "Operation": (backup, restore, admin.app, servers.app, keys.app, admin.policy_app, admin.audit_app, bench.app),
}
"""Commands by the panel of the help that lists them."""
_FIRST_STEPS = (
    ("outlast demo", "See a tool call survive its worker."),
    ("outlast dev FILE", "Start everything, with tools of yours."),
    ("outlast call TOOL -a NAME=VALUE", "Call a tool."),
)


class CommandGroup(TyperGroup):
    """A group of commands that also takes the shared options before the name of a command: `outlast --json tasks ls`.

    The options are moved behind the name. A command without such an option refuses it, as at any other place.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set the leading shared options aside, except those that the group itself has."""
        own = {name for parameter in self.params for name in parameter.opts}
        end = 0
        while end < len(args):
            name, equals, _ = args[end].partition("=")
            if name not in SHARED_NAMES or name in own:
                break
            end += 2 if SHARED_NAMES[name] and not equals else 1
        ctx.meta[_LEADING] = args[:end]
        return super().parse_args(ctx, args[end:])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command, and its arguments, which begin with the options that were set aside."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, [*ctx.meta.pop(_LEADING, ()), *rest]


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
        cls=CommandGroup,
        help="Durable tool execution for AI agents: every tool call is a Temporal workflow.",
        epilog=EXIT_CODES,
        invoke_without_command=True,
        rich_markup_mode="rich",
        # A traceback with local variables could show a token.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(outlast)
    for panel, commands in _GROUPS.items():
        for command in commands:
            if isinstance(command, typer.Typer):
                app.add_typer(command, cls=CommandGroup, rich_help_panel=panel)
            else:
                app.command(rich_help_panel=panel)(command)
    return with_flowing_help(app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version("outlast"))
        raise typer.Exit


def outlast(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the command itself. Without a command, print where to start."""
    if context.invoked_subcommand is None and isinstance(context.command, TyperGroup):
        _show_start(context.command)


def _show_start(root: TyperGroup) -> None:
    """Print the first steps, and the names of all commands by group."""
    output = Output(as_json=False)
    output.show(f"{escape(root.help or '')}\n\nWhere to start:\n")
    output.show(Entries([(f"  [bold]{escape(step)}[/]", f"[dim]{escape(words)}[/]") for step, words in _FIRST_STEPS]))
    groups: dict[str, list[str]] = {}
    for name, command in root.commands.items():
        groups.setdefault(str(getattr(command, "rich_help_panel", "")), []).append(name)
    output.show("\nAll commands:\n")
    output.show(Entries([(f"  [dim]{escape(group)}[/]", " ".join(names)) for group, names in groups.items()]))
    output.show("\n" + with_commands("`outlast --help` describes them, `outlast COMMAND --help` their options."))


def _exit_code_of(app: typer.Typer) -> int:
    """Run the command of `sys.argv`, write all of its output, and return its exit code."""
    try:
        app(prog_name="outlast")
    except ModuleNotFoundError as error:
        extra = extra_of(error)
        if extra is None:
            raise
        adds = command_that_adds("embedded" if _STARTING.intersection(sys.argv[1:]) else extra)
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
