"""`outlast servers`: the MCP servers whose tools an installation offers."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.options import CliError, ExitCode
from outlast.cli.runner import Context, server_command
from outlast.cli.show.output import Column, Rows, ago, local_time, one_line, printable
from outlast.cli.stack_options import McpServersOption
from outlast.client import McpPinChange, McpQuarantinedTool, McpServer, McpServerDetails, McpServerTool
from outlast.suggestions import suggested
from outlast.wording import counted

if TYPE_CHECKING:
    from outlast.activities.mcp_servers.pins import PinChange
    from outlast.cli.pinning import PinState

app = typer.Typer(
    name="servers", no_args_is_help=True, help="Show the MCP servers whose tools are offered, and their tools."
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server in the file.")]
NamesArgument = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Servers; default: all.")]
ToolsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[TOOL]...", help="Names of tools on the server; default: everything.")
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Write nothing; the exit code is 1 if a server differs or is not pinned.")
]
_COLUMNS = (
    Column("NAME", style="bold"),
    Column("STATE", least=7),
    Column("KIND", rank=3),
    Column("TOOLS", rank=2),
    Column("PINNED", rank=7),
    Column("SESSIONS", rank=4),
    Column("RESTARTS", rank=5),
    Column("SINCE", rank=6),
    Column("ERROR", rank=1, least=16),
)
_TOOL_COLUMNS = (
    Column("TOOL", style="bold"),
    Column("IF ITS ANSWER IS LOST", rank=1, least=10),
    Column("SESSION", rank=3),
    Column("PURPOSE", rank=2, least=24),
)
_STATES = {"up": "[green]up[/]", "down": "[red]down[/]"}


@server_command(app)
async def ls(context: Context) -> None:
    """List the servers and their states. Needs a key with the scope `admin`."""
    found = await context.client.servers()
    context.output.listing(
        "servers", found.servers, _COLUMNS, _row, "No MCP servers. Give a file: outlast up --mcp-servers FILE"
    )
    if found.problem:
        context.output.note(f"[red]The file is not used as it is now:[/] {escape(found.problem)}")


@server_command(app)
async def show(context: Context, name: NameArgument) -> None:
    """Show the state of a server, and its instructions for models."""
    server = await context.client.server(name)
    context.output.item(server, _sheet)
    if server.quarantine or server.package_change:
        context.suggest(difference=f"servers diff {name}")
    context.suggest(its_tools=f"servers tools {name}")


@server_command(app)
async def tools(context: Context, name: NameArgument) -> None:
    """List the tools of a server, and what happens to a call whose answer is lost."""
    server = await context.client.server(name)
    context.output.listing("tools", server.offered, _TOOL_COLUMNS, _tool_row, f"{escape(name)} has no tools.")
    for tool in server.quarantine:
        context.output.note(f"[red]quarantined[/] {_quarantined(tool)}")
    for line in _flag_lines(server):
        context.output.note(f"[yellow]suspicious[/] {line}")
    for note in server.notes:
        context.output.note(escape(one_line(note)))


@server_command(app)
async def test(context: Context, name: NameArgument) -> ExitCode:
    """Start or reach a server now and list its tools. The exit code is 1 if that fails."""
    begun = time.monotonic()
    server = await context.client.server(name, max_age_seconds=0)
    seconds = time.monotonic() - begun
    is_up = server.error is None
    if context.output.as_json:
        context.output.document({**server.document(), "seconds": round(seconds, 3)})
    elif is_up:
        tools = counted(len(server.offered), "tool")
        context.output.show(f"[green]✓[/] {escape(name)} answered in {seconds:.1f} s, with {tools}.")
    else:
        context.output.show(f"[red]✗[/] {escape(name)}: {escape(one_line(server.error or ''))}")
    return ExitCode.OK if is_up else ExitCode.FAILED


@server_command(app)
async def pin(
    context: Context, names: NamesArgument = None, mcp_servers: McpServersOption = None, check: CheckOption = False
) -> ExitCode:
    """Record the tools of servers in the lock file, beside the servers file.

    From then on, a tool of these servers that is new or has changed is neither offered nor called until you approve it.
    A server that is pinned already keeps its record. The exit code is 1 if a server has changed or cannot be listed.

    Examples:
      outlast servers pin
      outlast servers pin git --mcp-servers mcp.json
      outlast servers pin --check
    """
    from outlast.cli.pinning import OwnLockFile  # noqa: PLC0415 (models that other commands do not need)

    lock = OwnLockFile.of(context, mcp_servers)
    named = names or [server.name for server in (await context.client.servers()).servers]
    states = {name: await lock.state(context, name) for name in named}
    added = {name: state.listed for name, state in states.items() if state.state == "new" and state.listed is not None}
    if added and not check:
        lock.write(added)
    if context.output.as_json:
        found = {name: state.document() for name, state in states.items()}
        context.output.document({"lock": str(lock.path), "servers": found})
    else:
        for name, state in states.items():
            context.output.show(_pin_line(name, state, is_written=not check))
            _show_changes(context, state.changes)
    changed = next((name for name, state in states.items() if state.state == "changed"), None)
    if changed is not None:
        context.suggest(approve=f"servers approve {changed}")
    good = ("unchanged",) if check else ("unchanged", "new")
    return ExitCode.OK if all(state.state in good for state in states.values()) else ExitCode.FAILED


@server_command(app)
async def diff(context: Context, name: NameArgument) -> None:
    """Show how a server differs from the pins in force: the reasons why tools are in quarantine."""
    found = await context.client.server_pin(name)
    if context.output.as_json:
        context.output.document({"name": name, "changes": [change.document() for change in found.changes]})
    elif found.pinned is None:
        context.output.note(f"{escape(name)} is not pinned.")
        context.suggest(pin=f"servers pin {name}")
    elif not found.changes:
        context.output.note(f"{escape(name)} is as it was pinned.")
    else:
        _show_changes(context, found.changes)
        context.suggest(approve=f"servers approve {name}")


@server_command(app)
async def approve(
    context: Context, name: NameArgument, tools: ToolsArgument = None, mcp_servers: McpServersOption = None
) -> None:
    """Accept a pinned server as it is now, or only some of its tools, and show what that changes.

    Examples:
      outlast servers approve git
      outlast servers approve git git_log git_diff
    """
    from outlast.activities.mcp_servers.pins import accepted  # noqa: PLC0415 (see `pin`)
    from outlast.cli.pinning import OwnLockFile  # noqa: PLC0415

    lock = OwnLockFile.of(context, mcp_servers)
    state = await lock.state(context, name)
    if state.state == "new":
        raise CliError(
            f"{name} is not pinned.", exit_code=ExitCode.USAGE, hint=f"`outlast servers pin {name}` pins it."
        )
    if state.listed is None:
        raise CliError(state.error or f"{name} cannot be listed.", exit_code=ExitCode.FAILED)
    wanted = tuple(tools or ())
    known = {*state.listed.tools, *(change.tool for change in state.changes if change.tool is not None)}
    for tool in wanted:
        if tool not in known:
            names = suggested(sorted(known), tool)
            raise CliError(f"{name} has no tool {tool}.", exit_code=ExitCode.USAGE, hint=f"Its tools: {names}.")
    changes = tuple(change for change in state.changes if not wanted or change.tool in wanted)
    if changes:
        lock.write({name: accepted(state.pinned, state.listed, wanted)})
    if context.output.as_json:
        context.output.document({"name": name, "approved": [change.model_dump(mode="json") for change in changes]})
        return
    _show_changes(context, changes)
    approved = f"approved in {lock.path}" if changes else "there was nothing to approve"
    context.output.note(f"[green]✓[/] {escape(name)}: {escape(approved)}.")


def _pin_line(name: str, state: "PinState", *, is_written: bool) -> str:
    tools = counted(len(state.listed.tools), "tool") if state.listed is not None else ""
    match state.state:
        case "new" if is_written:
            return f"[green]✓[/] {escape(name)}: {tools} pinned"
        case "new":
            return f"[red]✗[/] {escape(name)}: not pinned"
        case "unchanged":
            return f"[green]✓[/] {escape(name)}: {tools}, as pinned"
        case "changed":
            return f"[red]✗[/] {escape(name)}: not as pinned"
        case "failed":
            return f"[red]✗[/] {escape(name)}: {escape(one_line(state.error or ''))}"


_LINE_STYLES = {"-": "red", "+": "green"}


def _show_changes(context: Context, changes: "Sequence[PinChange | McpPinChange]") -> None:
    for change in changes:
        what = f"tool {change.tool}" if change.tool is not None else change.part
        context.output.show(f"[bold]{escape(printable(what))}[/] {escape(change.kind)}")
        for line in change.lines:
            style = _LINE_STYLES.get(line[:1], "dim")
            context.output.show(f"  [{style}]{escape(printable(line))}[/]")


def _pinned(server: McpServer) -> str:
    if server.quarantined:
        return f"[red]{server.quarantined} in quarantine[/]"
    return "yes" if server.pinned else "no"


def _quarantined(tool: McpQuarantinedTool) -> str:
    reasons = {"changed": "has changed since it was pinned", "new": "is new since the server was pinned"}
    return f"{escape(one_line(tool.called))} {reasons.get(tool.reason, 'has hidden characters in its arguments')}"


def _flag_lines(server: McpServerDetails) -> list[str]:
    found = [("the instructions", flag) for flag in server.instruction_flags]
    found += [(tool.called, flag) for tool in (*server.offered, *server.quarantine) for flag in tool.flags]
    return [f"{escape(one_line(what))} {escape(one_line(flag))}" for what, flag in found]


def _row(server: McpServer) -> Sequence[str]:
    return (
        escape(server.name),
        _STATES.get(server.state, escape(server.state)),
        escape(server.kind),
        str(server.tools),
        _pinned(server),
        str(server.sessions),
        str(server.restarts),
        ago(server.since) if server.since else "",
        escape(one_line(server.error or "")),
    )


def _tool_row(tool: McpServerTool) -> Sequence[str]:
    purpose, dot, _ = one_line(tool.description).partition(". ")
    return (escape(tool.called), _if_lost(tool), escape(tool.session), escape(purpose + ("." if dot else "")))


def _if_lost(tool: McpServerTool) -> str:
    """Return what happens to a call that may have been executed and whose answer is lost."""
    if tool.repeats_safely:
        return "call again"
    if tool.idempotency_argument:
        return f"call again with the same {escape(tool.idempotency_argument)}"
    return f"check with {escape(tool.verified_by)}" if tool.verified_by else "outcome_unknown"


def _sheet(server: McpServerDetails) -> Rows:
    return [
        ("name", escape(server.name)),
        ("kind", escape(server.kind)),
        ("state", _STATES.get(server.state, escape(server.state))),
        ("error", escape(one_line(server.error or ""))),
        ("since", local_time(server.since) if server.since else ""),
        ("tools", str(len(server.offered))),
        ("sessions", str(server.sessions)),
        ("restarts", str(server.restarts)),
        ("protocol", escape(server.protocol or "")),
        ("listed", local_time(server.listed_at) if server.listed_at else ""),
        ("pinned", _pinned(server)),
        *((("quarantine" if not at else ""), _quarantined(tool)) for at, tool in enumerate(server.quarantine)),
        ("package", escape(one_line(server.package or ""))),
        ("", f"[red]it was:[/] {escape(one_line(server.package_change))}" if server.package_change else ""),
        *((("suspicious" if not at else ""), line) for at, line in enumerate(_flag_lines(server))),
        ("instructions", escape(printable(server.instructions or ""))),
    ]
