"""`outlast sessions`: list, read, rename, delete, export and import conversations."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.markup import escape

from outlast.cli.args import json_object
from outlast.cli.errors import ExitCode
from outlast.cli.runner import Context, server_command
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, one_line
from outlast.client import Message

app = typer.Typer(no_args_is_help=True, help="List, read, rename, delete, export and import conversations.")

SessionIdArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.", show_default=False)]
_COLUMNS = (
    Column("SESSION"),
    Column("AGE", rank=3),
    Column("TURNS", rank=4, justify="right"),
    Column("MODEL", rank=2, least=8),
    Column("TITLE", rank=1, least=12),
)


@app.command()
@server_command()
async def ls(
    context: Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Sessions to list at most.")] = 20,
) -> ExitCode:
    """List your conversations, those first that began last."""
    return await _list(context, limit)


@app.command()
@server_command()
async def get(
    context: Context,
    session_id: SessionIdArgument,
) -> ExitCode:
    """Print what was said in a conversation, from its beginning."""
    return await _show_messages(context, session_id)


@app.command()
@server_command()
async def rename(
    context: Context,
    session_id: SessionIdArgument,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="Its new title.", show_default=False)],
) -> ExitCode:
    """Give a conversation another title."""
    return await _rename(context, session_id, title)


@app.command()
@server_command()
async def delete(
    context: Context,
    session_id: SessionIdArgument,
) -> ExitCode:
    """Delete a conversation and the stored outputs of its calls. It cannot be undone: export it first."""
    return await _delete(context, session_id)


@app.command()
@server_command(as_json=True)
async def export(
    context: Context,
    session_id: SessionIdArgument,
    outputs: Annotated[bool, typer.Option("--outputs", help="With the stored outputs that it refers to.")] = False,
) -> ExitCode:
    """Print a conversation as one JSON document: `outlast sessions export ID > chat.json`."""
    return await _export(context, session_id, outputs)


@app.command(name="import")
@server_command()
async def import_(
    context: Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `export` has printed.", show_default=False, dir_okay=False)
    ],
    session: Annotated[str | None, typer.Option(metavar="ID", help="Id of the new session.")] = None,
) -> ExitCode:
    """Begin a conversation with what was exported."""
    exported = json_object(file, "what `outlast sessions export` prints")
    return await _import(context, exported, session)


async def _list(context: Context, limit: int) -> ExitCode:

    async with context.client.sessions.list(limit=limit) as listed:
        entries = [entry async for entry in listed]
    if context.output.as_json:
        context.output.document({"sessions": [entry.document() for entry in entries]})
    elif not entries:
        context.output.note("You have no conversations. `outlast chat` begins one.")
    else:
        rows = [
            (
                escape(entry.id),
                ago(entry.began) if entry.began else "",
                str(entry.turns),
                escape(entry.model_id or ""),
                escape(one_line(entry.title)),
            )
            for entry in entries
        ]
        context.output.table(_COLUMNS, rows)
    return ExitCode.OK


async def _show_messages(context: Context, session_id: str) -> ExitCode:
    messages = await context.client.sessions.conversation(session_id)
    if context.output.as_json:
        context.output.document({"messages": [message.document() for message in messages]})
        return ExitCode.OK
    for message in messages:
        shown = _shown(message)
        if shown:
            context.output.show(f"[bold cyan]{escape(message.role)}[/] {shown}")
    return ExitCode.OK


async def _rename(context: Context, session_id: str, title: str) -> ExitCode:
    session = await context.client.sessions.rename(session_id, title)
    if context.output.as_json:
        context.output.document(session.document())
    else:
        context.output.note(f"{escape(session.id)} is now called {escape(session.title or '')}.")
    return ExitCode.OK


async def _delete(context: Context, session_id: str) -> ExitCode:
    await context.client.sessions.delete(session_id)
    if context.output.as_json:
        context.output.document({"deleted": session_id})
    else:
        context.output.note(f"{escape(session_id)} is deleted.")
    return ExitCode.OK


async def _export(context: Context, session_id: str, outputs: bool) -> ExitCode:
    context.output.document(await context.client.sessions.export(session_id, outputs=outputs))
    return ExitCode.OK


async def _import(context: Context, exported: "dict[str, JsonValue]", session_id: str | None) -> ExitCode:
    session = await context.client.sessions.import_(exported, session_id=session_id)
    if context.output.as_json:
        context.output.document(session.document())
    else:
        context.output.note(f"{escape(session.id)} has {len(session.turns)} turns.")
        context.output.command(f"go on  {context.options.command(f'chat --session {session.id}')}")
    return ExitCode.OK


def _shown(message: "Message") -> str:
    """The text, and what was called; results of tools are left to `--json`."""
    calls = ", ".join(part.name or "" for part in message.parts if part.type == "tool_call")
    text = escape(message.text)
    return f"{text} [dim]calls {escape(calls)}[/]".strip() if calls else text
