"""`outlast mcp install` and `outlast mcp uninstall`: Outlast in the configuration of an MCP client."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.errors import BadInput, ExitCode
from outlast.cli.install.clients import (
    CLIENTS,
    ClientName,
    Machine,
    McpClient,
    Server,
    entry,
    headers_of,
    is_temporary,
    outlast_command,
    this_machine,
    variables_of,
)
from outlast.cli.install.config_files import Change, installed, planned
from outlast.cli.options import JsonOption
from outlast.cli.runner import finish
from outlast.cli.show.output import Output
from outlast.cli.show.tables import Column

if TYPE_CHECKING:
    from outlast.workflows.tools.framework.selection import SelectionRules

_WHAT = "What the client is told"
_WHERE = "Where it is written"

ClientArgument = Annotated[
    ClientName | None, typer.Argument(metavar="CLIENT", help=f"One of {', '.join(CLIENTS)}. Without it: list them.")
]
NamedClientArgument = Annotated[ClientName, typer.Argument(metavar="CLIENT", help=f"One of {', '.join(CLIENTS)}.")]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="Address of a server that runs. Without it the client starts `outlast mcp`."),
]
ModeOption = Annotated[str | None, typer.Option("--mode", help="The mode of the tools.", rich_help_panel=_WHAT)]
UiOption = Annotated[
    str | None,
    typer.Option(
        "--ui", help="In mode apify, whether tools come with widgets: apps, default or auto.", rich_help_panel=_WHAT
    ),
]
PaymentOption = Annotated[
    str | None,
    typer.Option("--payment", help="How calls are paid: skyfire, in mode apify also x402.", rich_help_panel=_WHAT),
]
TelemetryOption = Annotated[
    str | None,
    typer.Option(
        "--telemetry-enabled",
        help="In mode apify: true or false, whether report-problem is offered. Nothing is sent to anybody.",
        rich_help_panel=_WHAT,
    ),
]
ToolsOption = Annotated[
    str | None, typer.Option("--tools", help="Categories, tools and Actors to offer.", rich_help_panel=_WHAT)
]
ActorsOption = Annotated[
    str | None, typer.Option("--actors", help="Actors to offer as additional tools.", rich_help_panel=_WHAT)
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data directory of the stack that the client starts.", rich_help_panel=_WHAT),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="OUTLAST_TOKEN",
        help="API key, or Apify token, to write into the file. Safer in the environment than here.",
        rich_help_panel=_WHAT,
    ),
]
TokenVariableOption = Annotated[
    str | None,
    typer.Option(
        "--token-env",
        metavar="NAME",
        help="Write the name of a variable that holds the token when the client starts, and no token.",
        rich_help_panel=_WHAT,
    ),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", help="Another header, 'Name: value', with --url. Repeatable.", rich_help_panel=_WHAT),
]
VariableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="A variable for `outlast mcp`, such as APIFY_TOKEN; without a value that of this shell. Repeatable.",
        rich_help_panel=_WHAT,
    ),
]
NameOption = Annotated[str, typer.Option("--name", help="Name of the server in the file.", rich_help_panel=_WHERE)]
ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        exists=True,
        file_okay=False,
        help="Write the file of this project's folder, not that of your user.",
        rich_help_panel=_WHERE,
    ),
]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", dir_okay=False, help="Write this file, in the client's form.", rich_help_panel=_WHERE),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the difference; write nothing.", rich_help_panel=_WHERE)
]


@dataclass(frozen=True, slots=True)
class Place:
    """Which server of which file is meant."""

    client: McpClient
    path: Path
    name: str


def install(
    client: ClientArgument = None,
    url: UrlOption = None,
    mode: ModeOption = None,
    ui: UiOption = None,
    tools: ToolsOption = None,
    actors: ActorsOption = None,
    payment: PaymentOption = None,
    telemetry_enabled: TelemetryOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    token_env: TokenVariableOption = None,
    header: HeaderOption = None,
    env: VariableOption = None,
    name: NameOption = "outlast",
    project: ProjectOption = None,
    file: FileOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add Outlast to the configuration of an MCP client; without CLIENT, list the clients and which of them are here.

    The client starts this installation's `outlast mcp`, or uses the server at --url. The rest of the file stays as it
    is, character by character, and a copy of the old one is kept beside it. A second run changes nothing.
    """
    output = Output(as_json=as_json)
    machine = this_machine()

    async def act() -> ExitCode:
        words = {"mode": mode, "ui": ui, "tools": tools, "actors": actors, "payment": payment}
        words["telemetry-enabled"] = telemetry_enabled
        query = {key: value for key, value in words.items() if value is not None}
        _note_unknown_words(output, query)
        if client is None:
            return _list(output, machine, name)
        server = Server(
            url=url,
            query=query,
            # A variable of this shell gives way to what was asked for.
            token=None if token_env is not None and token == os.environ.get("OUTLAST_TOKEN") else token,
            token_variable=token_env,
            headers=headers_of(header or ()),
            variables=variables_of(env or (), os.environ),
            data_dir=data_dir,
        )
        place = _place(CLIENTS[client], machine, name, project, file)
        _refuse_shared_secrets(server, project)
        command = outlast_command()
        if url is None and is_temporary(command):
            output.note(
                "[yellow]![/] This Outlast is in a temporary environment of uv, which uv may remove. Install it: "
                "[bold]uv tool install 'outlast\\[embedded]'[/]"
            )
        change = planned(place.client, place.path, name, entry(place.client, server, command))
        return _carried_out(output, place, change, dry_run=dry_run)

    finish(output, act)


def uninstall(
    client: NamedClientArgument,
    name: NameOption = "outlast",
    project: ProjectOption = None,
    file: FileOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take Outlast out of the configuration of an MCP client.

    The rest of the file stays, and a copy of the old one is kept.
    """
    output = Output(as_json=as_json)

    async def act() -> ExitCode:
        place = _place(CLIENTS[client], this_machine(), name, project, file)
        return _carried_out(output, place, planned(place.client, place.path, name, None), dry_run=dry_run)

    finish(output, act)


def _note_unknown_words(output: Output, query: Mapping[str, str]) -> None:
    """Note the words that no mode here has: modes of a user's module are known only to the process that loads it.

    Raises `BadInput` for a payment that the named mode does not have: it would leave the account to pay.
    """
    if not query.keys() & {"mode", "ui", "payment"}:
        return
    from outlast.workflows.tools.loader import normalised_mode  # noqa: PLC0415 (server)
    from outlast.workflows.tools.registry import MODES, selection_rules  # noqa: PLC0415 (server)

    mode = normalised_mode(query["mode"]) if "mode" in query else None
    if mode is None:
        if "payment" in query and not any(_payment_of(selection_rules(each), query) for each in MODES):
            output.note(f"[yellow]![/] Outlast itself knows no payment {escape(repr(query['payment']))}.")
        return  # The server's own mode decides what the words mean.
    if mode not in MODES:
        output.note(
            f"[yellow]![/] Outlast itself has no mode {escape(repr(mode))}, but {', '.join(MODES)}. "
            "It must be one of the server's own."
        )
        return
    rules = selection_rules(mode)
    if "ui" in query and not rules.reads_ui:
        output.note(f"[yellow]![/] In the mode {mode}, --ui says nothing.")
    if "payment" in query and not _payment_of(rules, query):
        raise BadInput(f"--payment: the mode {mode} has no payment {query['payment']!r}.")


def _payment_of(rules: "SelectionRules", query: Mapping[str, str]) -> bool:
    try:
        return rules.read("", {"payment": [query["payment"]]}).payment is not None
    except ValueError:
        return False


def _place(client: McpClient, machine: Machine, name: str, project: Path | None, file: Path | None) -> Place:
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise BadInput(f"--name: {name!r} is no name of a server. Use letters, digits, - and _.")
    if project is not None and file is not None:
        raise BadInput("--project and --file exclude each other.")
    if file is not None:
        return Place(client, file.absolute(), name)
    if project is None:
        return Place(client, client.path(machine), name)
    if client.project_file is None:
        raise BadInput(f"{client.title} has no file for a project. Leave --project out.")
    return Place(client, project.absolute() / client.project_file, name)


def _refuse_shared_secrets(server: Server, project: Path | None) -> None:
    """A project's file is for all who work there, and is often committed."""
    if project is not None and (server.token is not None or server.headers or server.variables):
        raise BadInput(
            "A project's file is read by all who work there: no token, header or variable is written into it.",
            hint="Name the variable that holds the token: `--token-env NAME`.",
        )


def _carried_out(output: Output, place: Place, change: Change, *, dry_run: bool) -> ExitCode:
    created = change.file.content is None
    backup = None if dry_run else change.make()
    if output.as_json:
        output.document(
            {
                "client": place.client.id,
                "file": str(place.path),
                "name": place.name,
                "changed": change.is_needed and not dry_run,
                "difference": list(change.lines),
                "backup": str(backup) if backup else None,
            }
        )
        return ExitCode.OK
    if not change.is_needed:
        output.show(f"{escape(str(place.path))}: nothing to change.")
        return ExitCode.OK
    verb = "would be" if dry_run else "is"
    output.show(f"{escape(str(place.path))} {verb} {'created' if created else 'changed'}:")
    for line in change.lines:
        output.text(f"  {line}")
    if backup:
        output.show(f"The old file is {escape(str(backup))}")
    if not dry_run:
        output.show(f"[cyan]→[/] {escape(place.client.then)}")
    return ExitCode.OK


def _list(output: Output, machine: Machine, name: str) -> ExitCode:
    rows = [
        {
            "client": client.id,
            "title": client.title,
            "found": client.is_found(machine),
            "installed": installed(client, client.path(machine), name),
            "file": str(client.path(machine)),
        }
        for client in CLIENTS.values()
    ]
    if output.as_json:
        output.document({"clients": rows})
        return ExitCode.OK
    columns = [Column("CLIENT"), Column("NAME", rank=1), Column("FOUND"), Column("INSTALLED"), Column("FILE", rank=2)]
    output.table(columns, [_row(row) for row in rows])
    output.note("Add Outlast to one: `outlast mcp install CLIENT`; `--dry-run` only shows what would change.")
    return ExitCode.OK


def _row(row: Mapping[str, object]) -> list[str]:
    yes = {True: "yes", False: ""}
    return [
        str(row["client"]),
        escape(str(row["title"])),
        yes[bool(row["found"])],
        yes[bool(row["installed"])],
        escape(str(row["file"])),
    ]
