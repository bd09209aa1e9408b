"""`outlast chat`: talk to a model; `outlast sessions`: conversations; `outlast providers`: models."""

import asyncio
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

import typer
from pydantic import JsonValue
from rich.markup import escape

from outlast.cli.options import BadInput, ExitCode, json_object, names_in
from outlast.cli.prompts import Lines, ask_until_accepted, print_question, typed_lines
from outlast.cli.runner import Context, cli_error, server_command
from outlast.cli.show.output import Column, ago, one_line, printable
from outlast.client import Event, MessageOptions, Model, NotFound, OutlastError, Provider, Session, SessionOptions
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


_SHOWN_CHARS = 100


class ChatTurns:
    """Sends the messages of one session, with `options`, and shows the turns."""

    def __init__(self, context: Context, session_id: str, options: MessageOptions) -> None:
        self._context = context
        self._sessions = context.client.sessions
        self._session_id = session_id
        self._options = options
        self._at_line_start = True

    async def answer(self, message: str, *, lines: Lines | None) -> ExitCode:
        """Send `message` and show its answer. Without `lines`, questions of tools are printed, and not prompted for."""
        turn_id = (await self._sessions.send(self._session_id, message, **self._options)).id
        status: object = "failed"
        with self._cancelled_by_ctrl_c(turn_id):
            async for event in self._sessions.turn_events(self._session_id, turn_id):
                if self._context.output.as_json:
                    self._context.output.line(event.document())
                else:
                    await self._show(event, lines)
                status = event.data.get("status", status) if event.name == "finish" else status
        self._end_line()
        return ExitCode.OK if status == "completed" else ExitCode.FAILED

    async def _show(self, event: Event, lines: Lines | None) -> None:
        data = event.data
        match event.name:
            case "text-delta":
                self._write(str(data["text"]))
            case "tool-call":
                self._note(f"[cyan]→[/] {_cut(data['tool'])} [dim]{_cut(data.get('arguments', ''))}[/]")
            case "tool-result":
                mark = "[red]✗[/]" if data.get("is_error") else "[green]✓[/]"
                self._note(f"{mark} {_cut(data['tool'])} [dim]{_cut(data.get('preview', ''))}[/]")
            case "hand-off":
                await self._ask(str(data["task_id"]), lines)
            case "compaction":
                headline = f"{data['summarised_messages']} older messages were summarised"
                self._note(f"[yellow]≈[/] {headline}: [dim]{_cut(data['summary'])}[/]")
            case "reminder":
                self._note(f"[yellow]![/] {_cut(data['text'])}")
            case "retry":
                self._note(
                    f"[yellow]…[/] called the model again ({_cut(data.get('error_kind', 'the answer was cut off'))})"
                )
            case "error":
                self._note(f"[red]✗[/] {escape(one_line(str(data['message'])))}")
            case "finish" if data.get("status") != "completed":
                self._note(f"[yellow]■[/] {_cut(data['status'])}: {_cut(data.get('reason', ''))}")
            case _:
                pass

    async def _ask(self, task_id: str, lines: Lines | None) -> None:
        task = await self._context.client.get(task_id)
        for key, question in (task.input_requests or {}).items():
            self._end_line()
            if lines is None or question.approvers:
                print_question(self._context, task_id, question)
                continue
            with suppress(EOFError):
                await ask_until_accepted(self._context, lines, task, key, question)

    @contextmanager
    def _cancelled_by_ctrl_c(self, turn_id: str) -> Generator[None]:
        """Ctrl-C cancels the turn instead of the command; a second Ctrl-C ends the command."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        cancelling: list[asyncio.Task[None]] = []

        def interrupt() -> None:
            if not cancelling:
                cancelling.append(loop.create_task(self._cancel(turn_id)))
            elif task is not None:
                task.cancel()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            if task is not None:
                loop.add_signal_handler(signal.SIGINT, task.cancel)

    async def _cancel(self, turn_id: str) -> None:
        self._note("[yellow]■[/] stopping the answer, its tools and their runs …")
        try:
            await self._sessions.cancel(self._session_id, turn_id)
        except OutlastError as error:
            self._context.output.error(cli_error(error))

    def _write(self, text: str) -> None:
        file = self._context.output.out.file
        file.write(printable(text))
        file.flush()
        self._at_line_start = text.endswith("\n")

    def _note(self, renderable: str) -> None:
        self._end_line()
        self._context.output.note(renderable)

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")


def _cut(text: object) -> str:
    line = one_line(str(text))
    return escape(line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…")


_control = partial(typer.Option, rich_help_panel="How the model answers")


class Controls(TypedDict, total=False):
    """Flags that control how the model answers."""

    temperature: Annotated[float | None, _control(min=0, max=2, help="Randomness; 0 is the lowest.")]
    effort: Annotated[str | None, _control(help="Amount of reasoning: none, minimal, low, … max.")]
    thinking_tokens: Annotated[int | None, _control(min=1_024, help="Maximum tokens for reasoning.")]
    max_output_tokens: Annotated[int | None, _control(min=1, help="Maximum tokens of one call of the model.")]
    stop_texts: Annotated[
        list[str] | None, _control("--stop", metavar="TEXT", help="Text at which it stops; repeatable.")
    ]
    seed: Annotated[int | None, _control(help="The same seed gives the same answer, if the provider supports it.")]
    schema: Annotated[
        Path | None, _control(metavar="FILE", help="JSON Schema of the answer, an object.", dir_okay=False)
    ]


@server_command()
async def chat(
    context: Context,
    message: Annotated[
        str | None, typer.Argument(metavar="MESSAGE", help="Answer only this message, then exit.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(metavar="ID", help="Provider of the model: openai, anthropic, zai, generic.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="ID", help="The model, as its provider names it.")] = None,
    tools: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Categories, tags (tag:NAME), tools and Actors, comma-separated."),
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Continue this conversation.")] = None,
    **given: Unpack[Controls],
) -> ExitCode:
    """Talk to a model that uses the tools of Outlast.

    Every answer is a durable turn. Ctrl-C stops the current answer, its tools and their runs; Ctrl-D exits. Questions
    of tools are asked here. A conversation keeps its tools; settings of the model can change.

    Examples:
      outlast chat --provider anthropic --model claude-sonnet-4-5
      outlast chat --provider openai --model gpt-5 --tools docs "What is an Actor?"
    """
    # Sent with each message too: an existing conversation has its own controls.
    options: MessageOptions = {
        "provider_id": provider,
        "model_id": model,
        "controls": _controls(given) or None,
        "max_output_tokens": given.get("max_output_tokens"),
    }
    found = await _session(context, session, {**options, "session_id": session, "tools": names_in(tools) or None})
    provider, model = provider or found.provider_id, model or found.model_id
    url = context.client.connection.url
    if not provider or not model:
        raise BadInput(
            f"No model is chosen for this conversation on {url}.",
            hint="Choose one: `outlast chat --provider anthropic --model claude-sonnet-4-5`. The worker needs the key "
            "of the provider in OPENAI_API_KEY, ANTHROPIC_API_KEY or OUTLAST_ZAI_API_KEY; for --provider generic, the "
            "address of the server in OUTLAST_GENERIC_BASE_URL.",
        )
    turns = ChatTurns(context, found.id, options)
    if message is not None:
        return await turns.answer(message, lines=None)
    context.output.note(
        f"[dim]session {found.id} on {url}, {provider}/{model}, {len(found.tools)} tools. Ctrl-D exits.[/]"
    )
    async with typed_lines() as lines:
        with suppress(EOFError):
            while True:
                if message := await lines.ask(context.output, "[bold cyan]>[/]"):
                    await turns.answer(message, lines=lines)
    return ExitCode.OK


def _controls(given: Controls) -> dict[str, JsonValue]:
    """Return the controls that are set, in the form of the API. Raises `BadParameter` for an invalid schema file."""
    controls: dict[str, JsonValue] = {
        "temperature": given.get("temperature"),
        "effort": given.get("effort"),
        "thinking_tokens": given.get("thinking_tokens"),
        "seed": given.get("seed"),
        "stop": [*(given.get("stop_texts") or ())] or None,
    }
    if file := given.get("schema"):
        controls["output_schema"] = json_object(file, "the JSON Schema of an object")
    return {name: value for name, value in controls.items() if value is not None}


async def _session(context: Context, session_id: str | None, wanted: SessionOptions) -> Session:
    """Return the existing conversation; a new one if there is none with this id."""
    if session_id is not None:
        with suppress(NotFound):
            return await context.client.sessions.get(session_id)
    return await context.client.sessions.create(**wanted)
