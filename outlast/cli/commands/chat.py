"""`outlast chat`: a conversation on the terminal, with a model that works with Outlast's tools."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.markup import escape

from outlast.cli.args import json_object
from outlast.cli.connection import cli_error
from outlast.cli.errors import BadInput, ExitCode
from outlast.cli.prompts import Lines, ask_until_taken, typed_lines
from outlast.cli.runner import Context, server_command
from outlast.cli.show.task_display import approval_text
from outlast.cli.show.wording import one_line, printable
from outlast.client import Event, MessageOptions, NotFound, OutlastError, Session, SessionOptions

_SHOWN_CHARS = 100


class ChatTurns:
    """Sends the messages of one session and shows the turns."""

    def __init__(self, context: Context, session_id: str, options: MessageOptions) -> None:
        """`options` go with every message."""
        self._context = context
        self._sessions = context.client.sessions
        self._session_id = session_id
        self._options = options
        self._at_line_start = True

    async def answer(self, message: str, *, lines: Lines | None) -> ExitCode:
        """Show the answer to `message` to its end. Without `lines`, questions of tools are not asked."""
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
                self._note(f"[yellow]…[/] asked again ({_cut(data.get('error_kind', 'the answer was cut off'))})")
            case "error":
                self._note(f"[red]✗[/] {escape(one_line(str(data['message'])))}")
            case "finish" if data.get("status") != "completed":
                self._note(f"[yellow]■[/] {_cut(data['status'])}: {_cut(data.get('reason', ''))}")
            case _:
                pass

    async def _ask(self, task_id: str, lines: Lines | None) -> None:
        task = await self._context.client.get(task_id)
        for key, question in (task.input_requests or {}).items():
            if lines is None or question.approvers:
                self._note(f"[magenta]?[/] {_cut(question.message)}")
                if question.is_approval and question.handoff is not None:
                    self._note(approval_text(question.handoff))
                self._context.output.command(self._context.options.command(f"tasks answer {task_id}"))
                continue
            self._end_line()
            with suppress(EOFError):
                await ask_until_taken(self._context, lines, task, key, question)

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


_PANEL = "How the model answers"

TemperatureOption = Annotated[
    float | None, typer.Option(min=0, max=2, help="Randomness; 0 is the least.", rich_help_panel=_PANEL)
]
EffortOption = Annotated[
    str | None, typer.Option(help="How much the model reasons: none, minimal, low, … max.", rich_help_panel=_PANEL)
]
ThinkingTokensOption = Annotated[
    int | None, typer.Option(min=1_024, help="Tokens that it may think with.", rich_help_panel=_PANEL)
]
MaxOutputTokensOption = Annotated[
    int | None, typer.Option(min=1, help="Tokens of one call of the model at most.", rich_help_panel=_PANEL)
]
StopOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Text at which it stops; may be repeated.", rich_help_panel=_PANEL),
]
SeedOption = Annotated[
    int | None, typer.Option(help="Equal seeds give equal answers, where a provider can.", rich_help_panel=_PANEL)
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="JSON Schema of an object that its answer is.", rich_help_panel=_PANEL, dir_okay=False
    ),
]


def given_controls(*, schema: Path | None, stop: list[str] | None, **others: "JsonValue") -> "dict[str, JsonValue]":
    """The controls that are set, as sessions and messages take them. Raises `BadParameter` for a bad schema file."""
    read = json_object(schema, "the JSON Schema of an object") if schema is not None else None
    controls: dict[str, JsonValue] = {**others, "stop": [*stop] if stop else None, "output_schema": read}
    return {name: value for name, value in controls.items() if value is not None}


@server_command()
async def chat(
    context: Context,
    message: Annotated[
        str | None, typer.Argument(metavar="MESSAGE", help="Say only this, print the answer, and leave.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(metavar="ID", help="Provider of the model: openai, anthropic, zai, generic.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="ID", help="The model, in its provider's words.")] = None,
    tools: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Categories, tools and Actors, comma-separated.")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on with this conversation.")] = None,
    temperature: TemperatureOption = None,
    effort: EffortOption = None,
    thinking_tokens: ThinkingTokensOption = None,
    max_output_tokens: MaxOutputTokensOption = None,
    stop: StopOption = None,
    seed: SeedOption = None,
    schema: SchemaOption = None,
) -> ExitCode:
    """Talk to a model that works with Outlast's tools.

    Every answer is a durable turn. Ctrl-C stops the answer under way, its tools and their runs; Ctrl-D leaves. What a
    tool asks is asked here. The tools of a conversation are those that it began with; how the model answers may change.

    Examples:
      outlast chat --provider anthropic --model claude-sonnet-4-5
      outlast chat --provider openai --model gpt-5 --tools actors,docs "What does apify/rag-web-browser do?"
    """
    controls = given_controls(
        temperature=temperature, effort=effort, thinking_tokens=thinking_tokens, stop=stop, seed=seed, schema=schema
    )
    selectors = [name.strip() for name in tools.split(",") if name.strip()] if tools else None
    wanted: SessionOptions = {
        "session_id": session,
        "provider_id": provider,
        "model_id": model,
        "tools": selectors,
        "controls": controls or None,
        "max_output_tokens": max_output_tokens,
    }
    return await _chat(context, message, wanted)


async def _chat(context: Context, message: str | None, wanted: "SessionOptions") -> ExitCode:

    provider, model = wanted.get("provider_id"), wanted.get("model_id")
    session = await _session(context, wanted)
    if not (provider or session.provider_id) or not (model or session.model_id):
        raise _no_model(context.client.connection.url)
    # With each message too: a conversation that was begun before has controls of its own.
    options: MessageOptions = {
        "provider_id": provider,
        "model_id": model,
        "controls": wanted.get("controls"),
        "max_output_tokens": wanted.get("max_output_tokens"),
    }
    turns = ChatTurns(context, session.id, options)
    if message is not None:
        return await turns.answer(message, lines=None)
    context.output.note(
        f"[dim]session {session.id} on {context.client.connection.url}, "
        f"{provider or session.provider_id}/{model or session.model_id}, {len(session.tools)} tools. Ctrl-D leaves.[/]"
    )
    async with typed_lines() as lines:
        await _talk(context, turns, lines)
    return ExitCode.OK


async def _session(context: Context, wanted: "SessionOptions") -> "Session":
    """The conversation to go on with, as it was begun; a new one when there is none with this id."""

    session_id = wanted.get("session_id")
    if session_id is not None:
        with suppress(NotFound):
            return await context.client.sessions.get(session_id)
    return await context.client.sessions.create(**wanted)


async def _talk(context: Context, turns: "ChatTurns", lines: "Lines") -> None:
    while True:
        try:
            message = await lines.ask(context.output, "[bold cyan]>[/]")
        except EOFError:
            return
        if message:
            await turns.answer(message, lines=lines)


def _no_model(url: str) -> BadInput:
    return BadInput(
        f"No model is chosen for this conversation on {url}.",
        hint="Name one: `outlast chat --provider anthropic --model claude-sonnet-4-5`. The worker needs the provider's "
        "key in OPENAI_API_KEY, ANTHROPIC_API_KEY or OUTLAST_ZAI_API_KEY; for --provider generic, the server's address "
        "in OUTLAST_GENERIC_BASE_URL.",
    )
