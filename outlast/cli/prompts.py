"""Asks a task's question on the terminal."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

from rich.markup import escape

from outlast.activities.json_numbers import exact_json
from outlast.cli.connection import cli_error
from outlast.cli.runner import Context
from outlast.cli.show.output import Output
from outlast.cli.show.progress import TaskProgress
from outlast.cli.show.task_display import approval_text
from outlast.cli.show.wording import ahead, local_time, one_line, printable
from outlast.client import Conflict, Event, InputRequest, InvalidRequest, NotFound, Task

Answer = dict[str, Any]
_YES, _NO, _EDIT = ("y", "yes"), ("n", "no"), ("e", "edit")


class Lines:
    """Lines typed on standard input, read without blocking the event loop or Ctrl-C."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[str | None] = asyncio.Queue()
        self._rest = b""

    async def ask(self, output: Output, prompt: str) -> str:
        """The line typed after `prompt` (Rich markup). Raises `EOFError` at the end of the input."""
        output.err.print(prompt, end=" ")
        line = await self._arrived.get()
        if line is None:
            self._arrived.put_nowait(None)
            raise EOFError
        return line.strip()

    def take(self) -> None:
        """Read what has been typed."""
        chunk = os.read(sys.stdin.fileno(), 65_536)
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._arrived.put_nowait(line.decode(errors="replace"))
        if not chunk:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._arrived.put_nowait(None)


@asynccontextmanager
async def typed_lines() -> AsyncGenerator[Lines]:
    """Read standard input while the block runs."""
    lines, loop, descriptor = Lines(), asyncio.get_running_loop(), sys.stdin.fileno()
    loop.add_reader(descriptor, lines.take)
    try:
        yield lines
    finally:
        loop.remove_reader(descriptor)


async def ask_on_terminal(output: Output, lines: Lines, question: InputRequest) -> Answer:
    """The answer to one question in the form of the API. Raises `EOFError` at the end of the input."""
    output.err.print(f"[magenta]?[/] [bold]{escape(one_line(question.message))}[/]")
    if question.is_approval and question.handoff is not None:
        output.err.print(approval_text(question.handoff))
    elif question.handoff is not None and question.handoff.parameters:
        shown = json.dumps(question.handoff.parameters, indent=2, ensure_ascii=False)
        output.err.print(f"[dim]{escape(printable(shown))}[/]")
    if question.handoff is not None and question.handoff.deadline is not None and not question.is_approval:
        deadline = question.handoff.deadline
        output.err.print(f"[dim]Answer by {local_time(deadline)} ({ahead(deadline)}).[/]")
    if question.handoff is not None and question.handoff.kind == "approval":
        return await _ask_approval(output, lines, may_edit=not question.approvers)
    content = await _ask_fields(output, lines, question.requested_schema)
    return {"action": "decline"} if content is None else {"action": "accept", "content": content}


async def _ask_approval(output: Output, lines: Lines, *, may_edit: bool) -> Answer:
    choices = (*_YES, *_NO, *(_EDIT if may_edit else ()))
    prompt = "[bold]y[/]es, [bold]n[/]o or [bold]e[/]dit?" if may_edit else "[bold]y[/]es or [bold]n[/]o?"
    while (choice := (await lines.ask(output, prompt)).lower()) not in choices:
        continue
    content: dict[str, Any] = {"decision": "no" if choice in _NO else "yes"}
    if choice in _EDIT:
        content["arguments"] = await _typed(output, lines, "The arguments, as JSON:", exact_json)
    note = await lines.ask(output, "[dim]A note (Enter for none):[/]")
    return {"action": "accept", "content": {**content, "note": note} if note else content}


async def _ask_fields(output: Output, lines: Lines, schema: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of the answer, one by one; None when the user declines with `!`."""
    output.err.print("[dim]Enter leaves an optional field out; ! declines.[/]")
    required = schema.get("required", [])
    content: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        optional = name not in required
        prompt = f"{escape(_label(name, field))}{' [dim](optional)[/]' if optional else ''}:"
        typed = await lines.ask(output, prompt)
        if typed == "!":
            return None
        if typed or not optional:
            content[name] = as_typed(typed, field)
    return content


async def _typed(output: Output, lines: Lines, prompt: str, parse: Callable[[str], Any]) -> Any:
    while True:
        try:
            return parse(await lines.ask(output, prompt))
        except ValueError as error:
            output.err.print(f"[red]{escape(str(error))}[/]")


def as_typed(text: str, field: dict[str, Any]) -> Any:
    """The typed text converted to the type in the field's schema: text, else JSON, else yes and no."""
    types = {field.get("type"), *(entry.get("type") for entry in field.get("anyOf", []))}
    if "boolean" in types and text.lower() in (*_YES, *_NO):
        return text.lower() in _YES
    if "string" in types or "enum" in field:
        return text
    try:
        return exact_json(text)
    except ValueError:
        return text


def _label(name: str, field: dict[str, Any]) -> str:
    described = field.get("description") or field.get("title") or name
    choices = f" ({', '.join(map(str, field['enum']))})" if "enum" in field else ""
    yes_no = " (yes/no)" if field.get("type") == "boolean" else ""
    return f"{name}: {described}{choices}{yes_no}" if described != name else f"{name}{choices}{yes_no}"


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
