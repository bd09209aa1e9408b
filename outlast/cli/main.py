"""`outlast`, the command."""

from outlast.loading import loading

with loading():
    import gc
    import logging
    import os
    import sys
    from collections.abc import Iterable
    from importlib import import_module
    from typing import Annotated

    import typer

    from outlast.cli.show.help_text import with_flowing_help

_ALLOCATIONS = 50_000
"""Between two searches for garbage. Most commands make fewer objects that are not those of modules."""
EXIT_CODES = (
    "Exit codes: [bold]0[/] it worked; [bold]1[/] the task failed or was cancelled, a check failed, or the stack could "
    "not run; [bold]2[/] bad input; [bold]3[/] the server cannot be reached; [bold]4[/] no valid credential; "
    "[bold]5[/] the server failed; [bold]6[/] there is no result yet; [bold]130[/] Ctrl-C (the task goes on)."
)
_STACK = "The stack"
_TASKS = "Tools and tasks"
_COMMANDS = {
    "up": ("commands.up", "up", _STACK),
    "down": ("commands.down", "down", _STACK),
    "demo": ("commands.demo", "demo", _STACK),
    "backup": ("commands.backup", "backup", _STACK),
    "restore": ("commands.backup", "restore", _STACK),
    "doctor": ("commands.doctor", "doctor", _STACK),
    "top": ("commands.top", "top", _STACK),
    "mcp": ("commands.mcp", "app", _STACK),
    "call": ("commands.call", "call", _TASKS),
    "chat": ("commands.chat", "chat", _TASKS),
    "client": ("client_tools.command", "client", _TASKS),
    "providers": ("commands.providers", "providers", _TASKS),
    "usage": ("commands.usage", "usage", _TASKS),
    "sessions": ("commands.sessions", "app", _TASKS),
    "tasks": ("commands.tasks", "app", _TASKS),
    "batch": ("batches.command", "app", _TASKS),
    "schedules": ("schedules.command", "app", _TASKS),
    "saved": ("saved_calls.command", "app", _TASKS),
    "webhooks": ("webhooks.command", "app", _TASKS),
    "output": ("commands.outputs", "app", _TASKS),
    "tools": ("commands.tools", "app", _TASKS),
    "admin": ("commands.admin", "app", _STACK),
    "keys": ("commands.keys", "app", _STACK),
    "policy": ("commands.policy", "app", _STACK),
    "audit": ("commands.audit", "app", _STACK),
    "bench": ("commands.bench_tools", "app", _STACK),
}
"""The module of each command, its function or its own commands there, and where the help shows it."""
_ASKING = frozenset(
    {"batch", "call", "output", "providers", "saved", "schedules", "sessions", "tasks", "tools", "usage", "webhooks"}
)
"""Commands that ask a server and do no more: they start no process, and run no code of the user's."""


def command_line(names: Iterable[str] = _COMMANDS) -> typer.Typer:
    """The command line with these commands, whose modules are loaded; with all of them by default."""
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
    for name in names:
        module, attribute, panel = _COMMANDS[name]
        part = getattr(import_module(f"outlast.cli.{module}"), attribute)
        if isinstance(part, typer.Typer):
            app.add_typer(part, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(part)
    return with_flowing_help(app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415 (20 ms)

        typer.echo(version("outlast"))
        raise typer.Exit


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
    gc.set_threshold(_ALLOCATIONS)
    named = sys.argv[1] if len(sys.argv) > 1 else None
    if named in _ASKING:
        # To look for plugins, pydantic reads what every installed package says about itself: 13 ms.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with loading():
        # A command loads no other one; only the help of all, and an unknown command, need all.
        app = command_line([named] if named in _COMMANDS else _COMMANDS)
    # An end in order takes 20 ms, and threads of the Temporal SDK may abort it (a known race).
    os._exit(exit_code_of(app))


def exit_code_of(app: typer.Typer) -> int:
    """Run the command of `sys.argv` to its end, with everything written that it has said."""
    try:
        app(prog_name="outlast")
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
