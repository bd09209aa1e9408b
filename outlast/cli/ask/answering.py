"""Answers to a task's questions: on the terminal while the task is watched, and by `outlast tasks answer`."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

from rich.markup import escape

from outlast.cli.ask.prompts import Answer, Lines, ask_on_terminal, typed_lines
from outlast.cli.client_errors import cli_error
from outlast.cli.running import Context
from outlast.cli.show.progress import TaskProgress
from outlast.cli.show.questions import approval_text
from outlast.cli.show.wording import one_line
from outlast.client import Conflict, Event, InputRequest, InvalidRequest, NotFound, Task

_OVER = ("input_answered", "handler_returned", "task_completed")


class Answering:
    """Asks a task's questions on the terminal while its events are followed."""

    def __init__(self, context: Context, task_id: str, lines: Lines | None, progress: TaskProgress | None) -> None:
        """Without `lines`, nothing is asked; the command that answers is printed instead."""
        self._context = context
        self._task_id = task_id
        self._lines = lines
        self._progress = progress
        self._asking: asyncio.Task[None] | None = None
        self._told: set[str] = set()

    def hear(self, event: Event) -> None:
        """Ask when the task asks; stop asking when the question was answered elsewhere."""
        if event.name in _OVER:
            self.stop()
        elif event.name == "input_required" and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask())

    def stop(self) -> None:
        """Stop asking."""
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()

    async def _ask(self) -> None:
        task = await self._context.client.get(self._task_id)
        for key, question in (task.input_requests or {}).items():
            if self._lines is None or question.is_for_program or question.approvers:
                self._tell(key, question)
                continue
            with suppress(EOFError), _paused(self._progress):
                await ask_until_taken(self._context, self._lines, task, key, question)

    def _tell(self, key: str, question: InputRequest) -> None:
        if key not in self._told:
            self._told.add(key)
            self._context.output.note(f"[magenta]?[/] {escape(one_line(question.message))}")
            if question.is_approval and question.handoff is not None:
                self._context.output.note(approval_text(question.handoff))
            if not question.is_for_program:
                self._context.output.command(self._context.options.command(f"tasks answer {self._task_id}"))


@asynccontextmanager
async def answering(context: Context, task_id: str, progress: TaskProgress | None = None) -> AsyncGenerator[Answering]:
    """Answer the task's questions while the block runs, if there is a terminal to ask on."""
    interactive = not context.output.as_json and context.output.is_live and sys.stdin.isatty()
    async with AsyncExitStack() as stack:
        lines = await stack.enter_async_context(typed_lines()) if interactive else None
        session = Answering(context, task_id, lines, progress)
        try:
            yield session
        finally:
            session.stop()


async def ask_until_taken(context: Context, lines: Lines, task: Task, key: str, question: InputRequest) -> Task:
    """Ask on the terminal until the server accepts the answer, or says that the question is no longer open.

    Returns the task as it is then.
    """
    while True:
        try:
            task = await submit(context, task, key, await ask_on_terminal(context.output, lines, question))
        except (InvalidRequest, Conflict, NotFound) as refused:
            context.output.error(cli_error(refused))
            with suppress(NotFound):  # another's task is seen only while it waits for one's approval
                task = await context.client.get(task.id)
                if key in (task.input_requests or {}):
                    continue
            return task
        else:
            context.output.note("[green]✓[/] taken")
            return task


async def submit(context: Context, task: Task, key: str, answer: Answer) -> Task:
    """Send one answer. Raises `ApiError` when it is rejected."""
    return await context.client.answer(task.id, answer.get("content"), key=key, action=answer["action"])


@contextmanager
def _paused(progress: TaskProgress | None) -> Generator[None]:
    """Hide the live board while the block runs."""
    if progress is None:
        yield
        return
    progress.pause()
    try:
        yield
    finally:
        progress.resume()
