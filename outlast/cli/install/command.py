"""`outlast mcp install` and `outlast mcp uninstall`: Outlast in the configuration of an MCP client."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer
from pydantic import JsonValue
from rich.markup import escape

from outlast.cli.commands.stack import stack_errors
from outlast.cli.install import clients, wrapping
from outlast.cli.install.config_files import Change, installed, planned
from outlast.cli.options import DEFAULT_DATA_DIR, BadInput, CliError, ExitCode
from outlast.cli.runner import local_command
from outlast.cli.show.output import Column, Output
from outlast.cli.stack_options import PANEL_OF_CONNECTION, ConnectionFlags, connection_query

if TYPE_CHECKING:
    from outlast.workflows.tools.framework.selection import SelectionRules

_of_connection = partial(typer.Option, rich_help_panel=PANEL_OF_CONNECTION)
_of_wrapping = partial(typer.Option, rich_help_panel="Servers that the client has")
_of_file = partial(typer.Option, rich_help_panel="Where it is written")

ClientArgument = Annotated[
    clients.ClientName | None,
    typer.Argument(metavar="CLIENT", help=f"One of {', '.join(clients.CLIENTS)}. Without it, list them."),
]
NamedClientArgument = Annotated[
    clients.ClientName, typer.Argument(metavar="CLIENT", help=f"One of {', '.join(clients.CLIENTS)}.")
]
NameOption = Annotated[str, _of_file(help="Name of the server in the file.")]
ProjectOption = Annotated[
    Path | None, _of_file(exists=True, file_okay=False, help="Write the file of the project in this folder.")
]
FileOption = Annotated[Path | None, _of_file(dir_okay=False, help="Write this file, in the client's format.")]
DryRunOption = Annotated[bool, _of_file("--dry-run", help="Show the difference; write nothing.")]


@local_command()
async def install(
    output: Output,
    client: ClientArgument = None,
    url: Annotated[
        str | None, typer.Option(help="Address of a running server. Without it, the client starts `outlast mcp`.")
    ] = None,
    data_dir: Annotated[Path | None, _of_connection(help="Data directory of the stack that the client starts.")] = None,
    token: Annotated[
        str | None,
        _of_connection(envvar="OUTLAST_TOKEN", help="API key, or Apify token, to write. Safer in the environment."),
    ] = None,
    token_env: Annotated[
        str | None,
        _of_connection(metavar="NAME", help="Variable with the token when the client starts; no token is written."),
    ] = None,
    header: Annotated[
        list[str] | None, _of_connection(help="With --url: a further header, 'Name: value'. Repeatable.")
    ] = None,
    env: Annotated[
        list[str] | None,
        _of_connection(
            metavar="NAME[=VALUE]",
            help="A variable for `outlast mcp`, such as APIFY_TOKEN; without a value, that of this shell. Repeatable.",
        ),
    ] = None,
    tools_from: Annotated[
        str | None,
        _of_connection(metavar="MODULE[,MODULE]", help="Modules with your tools, as of `outlast up --tools-from`."),
    ] = None,
    mcp_servers: Annotated[
        Path | None,
        _of_connection(
            dir_okay=False,
            metavar="FILE",
            help="File with MCP servers whose tools are offered; with --wrap, the file that servers move to.",
            show_default="none; with --wrap, mcp-servers.json in the data directory",
        ),
    ] = None,
    wrap: Annotated[
        bool, _of_wrapping("--wrap", help="Move the client's other servers behind Outlast, which offers their tools.")
    ] = False,
    leave: Annotated[
        list[str] | None,
        _of_wrapping(metavar="NAME", help="With --wrap: a server that stays in the client. Repeatable."),
    ] = None,
    undo: Annotated[bool, _of_wrapping("--undo", help="Move the servers back to the client.")] = False,
    name: NameOption = "outlast",
    project: ProjectOption = None,
    file: FileOption = None,
    dry_run: DryRunOption = False,
    **flags: Unpack[ConnectionFlags],
) -> None:
    """Add Outlast to the configuration of an MCP client; without CLIENT, list the clients and which are installed.

    The client starts `outlast mcp` of this installation, or uses the server at --url. The rest of the file does not
    change, and a copy of the old file is kept beside it. A second run changes nothing.
    """
    query = connection_query(flags)
    _check_query(output, query)
    if client is None:
        _list(output, name)
        return
    server = clients.Server(
        url=url,
        query=query,
        # A variable of this shell gives way to an explicit --token-env.
        token=None if token_env is not None and token == os.environ.get("OUTLAST_TOKEN") else token,
        token_variable=token_env,
        headers=clients.headers_of(header or ()),
        variables=clients.variables_of(env or (), os.environ),
        data_dir=data_dir,
        tools_from=await _own_tools(tools_from),
        mcp_servers=mcp_servers or (_servers_file(data_dir) if wrap else None),
    )
    path = _path(clients.CLIENTS[client], name, project, file)
    if undo:
        own = mcp_servers or wrapping.wrapped_into(clients.CLIENTS[client], path, name) or _servers_file(data_dir)
        _unwrap(output, wrapping.unwrapping(clients.CLIENTS[client], path, own.absolute()), dry_run=dry_run)
        return
    if server.mcp_servers is not None and (server.mcp_servers.exists() or not wrap):
        _check_servers_file(server.mcp_servers)
    if leave and not wrap:
        raise BadInput("--leave is only for --wrap.")
    if project is not None and (wrap or mcp_servers is not None):
        raise BadInput(
            "Everybody who works on a project uses its file: --wrap and --mcp-servers are for your own file."
        )
    if project is not None and (server.token is not None or server.headers or server.variables):
        raise BadInput(
            "Everybody who works on a project can read its file: no token, header or variable is written to it.",
            hint="Name the variable that holds the token: `--token-env NAME`.",
        )
    command = clients.outlast_command()
    if url is None and clients.is_temporary(command):
        output.note(
            "[yellow]![/] This Outlast is in a temporary environment of uv, which uv may remove. Install it: "
            "[bold]uv tool install 'outlast\\[embedded]'[/]"
        )
    if wrap:
        _wrap(output, clients.CLIENTS[client], path, name, server, command, leave or (), dry_run=dry_run)
        return
    change = planned(clients.CLIENTS[client], path, {name: clients.entry(clients.CLIENTS[client], server, command)})
    _apply(output, clients.CLIENTS[client], name, change, dry_run=dry_run)


@local_command()
async def uninstall(
    output: Output,
    client: NamedClientArgument,
    name: NameOption = "outlast",
    project: ProjectOption = None,
    file: FileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Remove Outlast from the configuration of an MCP client.

    The rest of the file does not change, and a copy of the old file is kept.
    """
    path = _path(clients.CLIENTS[client], name, project, file)
    own = wrapping.wrapped_into(clients.CLIENTS[client], path, name)
    if own is not None:
        raise CliError(
            f"The servers of {path} were moved to {own}.",
            exit_code=ExitCode.FAILED,
            hint=f"Move them back, and remove Outlast: `outlast mcp install {client} --undo`.",
        )
    change = planned(clients.CLIENTS[client], path, {name: None})
    _apply(output, clients.CLIENTS[client], name, change, dry_run=dry_run)


def _check_servers_file(file: Path) -> None:
    """Raises `BadInput` with a line for each problem."""
    from outlast.activities.mcp_servers.config import ServersFileError, read_servers  # noqa: PLC0415 (server)

    try:
        read_servers(file, os.environ)
    except ServersFileError as error:
        raise BadInput("\n".join(f"{file}: {problem}" for problem in error.problems)) from None


def _servers_file(data_dir: Path | None) -> Path:
    return (data_dir or DEFAULT_DATA_DIR).absolute() / "mcp-servers.json"


def _wrap(
    output: Output,
    client: clients.McpClient,
    path: Path,
    name: str,
    server: clients.Server,
    command: Sequence[str],
    leave: Sequence[str],
    *,
    dry_run: bool,
) -> None:
    """Move the servers of a client behind Outlast. Raises `CliError`."""
    from outlast.deploy.local.state import find_running  # noqa: PLC0415

    assert server.mcp_servers is not None
    plan = wrapping.wrapping(client, path, server.mcp_servers, name=name, leave=leave)
    asked = {**plan.variables, **server.variables}
    entry = clients.entry(client, replace(server, variables=asked), command)
    changes = plan.changes(name, entry)
    _apply(
        output,
        client,
        name,
        changes[1],
        dry_run=dry_run,
        make=lambda: plan.make(name, changes),
        more={"servers_file": str(plan.file), "moved": dict(plan.moved), "left": dict(plan.left)},
    )
    verb = "would move" if dry_run else "moved"
    if plan.moved:
        output.note(f"{escape(', '.join(plan.moved))} {verb} to {escape(str(plan.file))}.")
    else:
        output.note("No server moves.")
    for left, reason in plan.left.items():
        output.note(f"{escape(left)} stays in {escape(client.title)}: {escape(reason)}.")
    for note in plan.notes:
        output.note(f"[yellow]![/] {escape(note)}")
    running = find_running(server.data_dir or DEFAULT_DATA_DIR)
    if running is not None and running.mcp_servers_file != plan.file:
        output.note("[yellow]![/] The stack that is running does not have these servers: stop it with `outlast down`.")
    if not dry_run and plan.moved:
        output.note(f"To move them back: `outlast mcp install {client.id} --undo`")


def _unwrap(output: Output, plan: wrapping.Unwrapping, *, dry_run: bool) -> None:
    """Move the servers back."""
    more: dict[str, JsonValue] = {"servers_file": str(plan.file), "moved_back": list(plan.names)}
    _apply(output, plan.client, plan.name, plan.change, dry_run=dry_run, make=plan.make, more=more)
    for name in plan.kept:
        output.note(f"{escape(name)} is in {escape(plan.client.title)} again, and stays as it is.")


async def _own_tools(tools_from: str | None) -> tuple[str, ...]:
    """Return the names of the modules as the client needs them, which starts in another folder. Raises `BadInput`, and
    `CliError` for modules that cannot be loaded.
    """
    from outlast.deploy.local.config import StackConfig  # noqa: PLC0415
    from outlast.deploy.local.tool_reload import check_tool_modules  # noqa: PLC0415

    config = StackConfig(tools_from=tools_from or "")
    for name in config.tool_modules:
        file = Path(*name.split(".")).with_suffix(".py")
        if file.is_file() and find_spec(name.partition(".")[0]) is None:
            raise BadInput(
                f"--tools-from: the client starts Outlast in another folder, and {name!r} is only in this one.",
                hint=f"Name the file: --tools-from {file}",
            )
    with stack_errors():
        await check_tool_modules(config)
    return config.tool_modules


def _check_query(output: Output, query: Mapping[str, str]) -> None:
    """Print a note about unknown values: only the process that loads a user's module knows its modes.

    Raises `BadInput` for a payment that the mode does not have: calls would be charged to the account.
    """
    if not query.keys() & {"mode", "ui", "payment"}:
        return
    from outlast.workflows.tools.registry import (  # noqa: PLC0415 (server)
        MODES,
        normalised_mode,
        selection_rules,
    )

    mode = normalised_mode(query["mode"]) if "mode" in query else None
    if mode is None:
        if "payment" in query and not any(_payment_of(selection_rules(each), query) for each in MODES):
            output.note(f"[yellow]![/] No mode of Outlast has the payment {escape(repr(query['payment']))}.")
        return  # The mode of the server decides.
    if mode not in MODES:
        output.note(
            f"[yellow]![/] Outlast has no mode {escape(repr(mode))}, only {', '.join(MODES)}. "
            "It must be a mode of the server's own tools."
        )
        return
    rules = selection_rules(mode)
    if "ui" in query and not rules.reads_ui:
        output.note(f"[yellow]![/] In the mode {mode}, --ui has no effect.")
    if "payment" in query and not _payment_of(rules, query):
        raise BadInput(f"--payment: the mode {mode} has no payment {query['payment']!r}.")


def _payment_of(rules: "SelectionRules", query: Mapping[str, str]) -> bool:
    try:
        return rules.read("", {"payment": [query["payment"]]}).payment is not None
    except ValueError:
        return False


def _path(client: clients.McpClient, name: str, project: Path | None, file: Path | None) -> Path:
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise BadInput(f"--name: {name!r} is not a valid name of a server. Use letters, digits, - and _.")
    if project is not None and file is not None:
        raise BadInput("--project and --file exclude each other.")
    if file is not None:
        return file.absolute()
    if project is None:
        return client.path(clients.this_machine())
    if client.project_file is None:
        raise BadInput(f"{client.title} has no file for a project. Leave --project out.")
    return project.absolute() / client.project_file


def _apply(
    output: Output,
    client: clients.McpClient,
    name: str,
    change: Change,
    *,
    dry_run: bool,
    make: Callable[[], Path | None] | None = None,
    more: Mapping[str, JsonValue] | None = None,
) -> None:
    """Make and show a change. `make` does it together with others; `more` is shown with `--json`."""
    path = escape(str(change.file.path))
    created = change.file.content is None
    backup = None if dry_run else (make or change.make)()
    if output.as_json:
        output.document(
            {
                "client": client.id,
                "file": str(change.file.path),
                "name": name,
                "changed": change.is_needed and not dry_run,
                "difference": list(change.lines),
                "backup": str(backup) if backup else None,
                **(more or {}),
            }
        )
        return
    if not change.is_needed:
        output.show(f"{path}: nothing to change.")
        return
    verb = "would be" if dry_run else "is"
    output.show(f"{path} {verb} {'created' if created else 'changed'}:")
    for line in change.lines:
        output.text(f"  {line}")
    if backup:
        output.show(f"The old file is {escape(str(backup))}")
    if not dry_run:
        output.show(f"[cyan]→[/] {escape(client.then)}")


def _list(output: Output, name: str) -> None:
    machine = clients.this_machine()
    rows = [
        {
            "client": client.id,
            "title": client.title,
            "found": client.is_found(machine),
            "installed": installed(client, client.path(machine), name),
            "file": str(client.path(machine)),
        }
        for client in clients.CLIENTS.values()
    ]
    if output.as_json:
        output.document({"clients": rows})
        return
    columns = [Column("CLIENT"), Column("NAME", rank=1), Column("FOUND"), Column("INSTALLED"), Column("FILE", rank=2)]
    shown = [["yes" if value is True else escape(str(value or "")) for value in row.values()] for row in rows]
    output.table(columns, shown)
    output.note("Add Outlast to one: `outlast mcp install CLIENT`; `--dry-run` only shows what would change.")
