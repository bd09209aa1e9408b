"""`outlast servers`: the MCP servers whose tools an installation offers."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from outlast.cli.options import ExitCode
from outlast.cli.runner import Context, server_command
from outlast.cli.show.output import Column, Rows, ago, counted, local_time, one_line
from outlast.client import McpServer, McpServerDetails, McpServerTool

app = typer.Typer(
    name="servers", no_args_is_help=True, help="Show the MCP servers whose tools are offered, and their tools."
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server in the file.")]
_COLUMNS = (
    Column("NAME", style="bold"),
    Column("STATE", least=7),
    Column("KIND", rank=3),
    Column("TOOLS", rank=2),
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
    context.output.item(await context.client.server(name), _sheet)
    context.suggest(its_tools=f"servers tools {name}")


@server_command(app)
async def tools(context: Context, name: NameArgument) -> None:
    """List the tools of a server, and what happens to a call whose answer is lost."""
    server = await context.client.server(name)
    context.output.listing("tools", server.offered, _TOOL_COLUMNS, _tool_row, f"{escape(name)} has no tools.")
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


def _row(server: McpServer) -> Sequence[str]:
    return (
        escape(server.name),
        _STATES.get(server.state, escape(server.state)),
        escape(server.kind),
        str(server.tools),
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
        ("instructions", escape(server.instructions or "")),
    ]
