"""Shows a turn on the terminal while it runs."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress

from rich.markup import escape

from outlast.cli.ask.answering import ask_until_taken
from outlast.cli.ask.prompts import Lines
from outlast.cli.client_errors import cli_error
from outlast.cli.errors import ExitCode
from outlast.cli.running import Context
from outlast.cli.show.questions import approval_text
from outlast.cli.show.wording import one_line, printable
from outlast.client import Event, MessageOptions, OutlastError

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
