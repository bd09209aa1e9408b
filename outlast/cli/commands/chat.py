"""`outlast chat`: talk to a model that uses the tools of Outlast."""

import asyncio
import signal
from collections.abc import Generator
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
from outlast.cli.show.output import one_line, printable
from outlast.client import Event, MessageOptions, NotFound, OutlastError, Session, SessionOptions

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
    seed: Annotated[int | None, _control(help="The same seed gives the same answer, if the provider can do so.")]
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
        str | None, typer.Option(metavar="NAMES", help="Categories, tools and Actors, comma-separated.")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Continue this conversation.")] = None,
    **given: Unpack[Controls],
) -> ExitCode:
    """Talk to a model that uses the tools of Outlast.

    Every answer is a durable turn. Ctrl-C stops the current answer, its tools and their runs; Ctrl-D exits. Questions
    of tools are asked here. A conversation keeps the tools that it began with; how the model answers may change.

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
