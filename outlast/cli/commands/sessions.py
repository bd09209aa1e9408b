"""`outlast sessions`: list, read, rename, delete, export and import conversations; `outlast providers`: models."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from outlast.cli.options import json_object
from outlast.cli.runner import Context, server_command
from outlast.cli.show.output import Column, ago, one_line
from outlast.client import Model, Provider
from outlast.contracts.sessions import SessionEntry

app = typer.Typer(
    name="sessions", no_args_is_help=True, help="List, read, rename, delete, export and import conversations."
)

SessionIdArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.", show_default=False)]
_COLUMNS = (
    Column("SESSION"),
    Column("AGE", rank=3),
    Column("TURNS", rank=4, justify="right"),
    Column("MODEL", rank=2, least=8),
    Column("TITLE", rank=1, least=12),
)


@server_command(app)
async def ls(
    context: Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of sessions.")] = 20,
) -> None:
    """List your conversations, the newest first."""
    async with context.client.sessions.list(limit=limit) as listed:
        found = [entry async for entry in listed]
    none = "You have no conversations. `outlast chat` begins one."
    context.output.listing("sessions", found, _COLUMNS, _row, none)


@server_command(app)
async def get(context: Context, session_id: SessionIdArgument) -> None:
    """Print the messages of a conversation, the oldest first."""
    messages = await context.client.sessions.conversation(session_id)
    if context.output.as_json:
        context.output.document({"messages": [message.document() for message in messages]})
        return
    for message in messages:
        # Results of tools are only in the JSON.
        calls = ", ".join(part.name or "" for part in message.parts if part.type == "tool_call")
        shown = f"{escape(message.text)}{f' [dim]calls {escape(calls)}[/]' if calls else ''}".strip()
        if shown:
            context.output.show(f"[bold cyan]{escape(message.role)}[/] {shown}")


@server_command(app)
async def rename(
    context: Context,
    session_id: SessionIdArgument,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="Its new title.", show_default=False)],
) -> None:
    """Change the title of a conversation."""
    session = await context.client.sessions.rename(session_id, title)
    context.output.done(session.document(), f"{escape(session.id)} is now called {escape(session.title or '')}.")


@server_command(app)
async def delete(context: Context, session_id: SessionIdArgument) -> None:
    """Delete a conversation and the stored outputs of its calls. This cannot be undone: export it first."""
    await context.client.sessions.delete(session_id)
    context.output.done({"deleted": session_id}, f"{escape(session_id)} is deleted.")


@server_command(app, as_json=True)
async def export(
    context: Context,
    session_id: SessionIdArgument,
    outputs: Annotated[bool, typer.Option("--outputs", help="Include the stored outputs that it refers to.")] = False,
) -> None:
    """Print a conversation as one JSON document: `outlast sessions export ID > chat.json`."""
    context.output.document(await context.client.sessions.export(session_id, outputs=outputs))


@server_command(app, "import")
async def import_(
    context: Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Output of `export`.", show_default=False, dir_okay=False)
    ],
    session: Annotated[str | None, typer.Option(metavar="ID", help="Id of the new session.")] = None,
) -> None:
    """Create a conversation from an export."""
    exported = json_object(file, "the output of `outlast sessions export`")
    imported = await context.client.sessions.import_(exported, session_id=session)
    context.output.done(imported.document(), f"{escape(imported.id)} has {len(imported.turns)} turns.")
    context.suggest(chat=f"chat --session {imported.id}")


def _row(entry: SessionEntry) -> Sequence[str]:
    return (
        escape(entry.id),
        ago(entry.began) if entry.began else "",
        str(entry.turns),
        escape(entry.model_id or ""),
        escape(one_line(entry.title)),
    )


_PROVIDER_COLUMNS = (
    Column("PROVIDER", style="bold"),
    Column("KEY"),
    Column("CONTROLS", rank=1, least=12),
    Column("OTHER MODELS", rank=2),
)
_MODEL_COLUMNS = (
    Column("MODEL", style="bold"),
    Column("WINDOW", rank=1, justify="right"),
    Column("OUTPUT", rank=2, justify="right"),
    Column("PRICE", rank=4),
    Column("WITHOUT", rank=3, least=8),
)


@server_command()
async def providers(context: Context) -> None:
    """List the model providers: whether a worker has their keys, and their known models.

    A name that ends with * stands for all models whose names begin with it.
    """
    found = await context.client.providers()
    if context.output.as_json:
        context.output.document({"providers": [provider.document() for provider in found]})
        return
    context.output.table(_PROVIDER_COLUMNS, [_provider_row(provider) for provider in found])
    models = [_model_row(provider, model) for provider in found for model in provider.models]
    if models:
        context.output.show("")
        context.output.table(_MODEL_COLUMNS, models)


def _provider_row(provider: Provider) -> Sequence[str]:
    key = {True: "set", False: "[dim]not set[/]", None: "[dim]unknown[/]"}[provider.configured]
    others = "accepted" if provider.takes_any_model else "refused"
    return (escape(provider.id), key, escape(", ".join(provider.controls)), others)


def _model_row(provider: Provider, model: Model) -> Sequence[str]:
    return (
        escape(f"{provider.id}/{model.name}{'*' if model.is_family else ''}"),
        f"{model.window_tokens:,}" if model.window_tokens else "",
        f"{model.output_tokens:,}" if model.output_tokens else "",
        "yes" if model.has_price else "",
        escape(", ".join(model.lacks)),
    )
