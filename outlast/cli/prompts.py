"""Prompts on the terminal for answers to questions of tasks."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import Any

from rich.markup import escape

from outlast.activities.json_numbers import exact_json
from outlast.cli.runner import Context, cli_error
from outlast.cli.show.output import Output, ahead, local_time, one_line, printable
from outlast.cli.show.progress import TaskProgress
from outlast.cli.show.task_display import approval_text
from outlast.client import Conflict, Event, InputRequest, InvalidRequest, NotFound, Task

Answer = dict[str, Any]
_YES, _NO, _EDIT = ("y", "yes"), ("n", "no"), ("e", "edit")


class Lines:
    """Lines that the user types, read without blocking the event loop or Ctrl-C."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[str | None] = asyncio.Queue()
        self._rest = b""

    async def ask(self, output: Output, prompt: str) -> str:
        """Print `prompt` (Rich markup) and return the next line. Raises `EOFError` at the end of the input."""
        output.err.print(prompt, end=" ")
        line = await self._arrived.get()
        if line is None:
            self._arrived.put_nowait(None)
            raise EOFError
        return line.strip()

    def take(self) -> None:
        """Read the bytes that have arrived."""
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
    """Return the answer to one question, as arguments of `client.answer`. Raises `EOFError` at the end of the input."""
    output.err.print(f"[magenta]?[/] [bold]{escape(one_line(question.message))}[/]")
    handoff = question.handoff
    if handoff is not None and question.is_approval:
        output.err.print(approval_text(handoff))
    elif handoff is not None and handoff.parameters:
        shown = json.dumps(handoff.parameters, indent=2, ensure_ascii=False)
        output.err.print(f"[dim]{escape(printable(shown))}[/]")
    if handoff is not None and handoff.deadline is not None and not question.is_approval:
        output.err.print(f"[dim]Answer by {local_time(handoff.deadline)} ({ahead(handoff.deadline)}).[/]")
    if handoff is not None and handoff.kind == "approval":
        return await _ask_approval(output, lines, may_edit=not question.approvers)
    content = await _ask_fields(output, lines, question.requested_schema)
    return {"action": "decline"} if content is None else {"action": "accept", "content": content}


async def _ask_approval(output: Output, lines: Lines, *, may_edit: bool) -> Answer:
    choices = (*_YES, *_NO, *(_EDIT if may_edit else ()))
    prompt = "[bold]y[/]es, [bold]n[/]o or [bold]e[/]dit?" if may_edit else "[bold]y[/]es or [bold]n[/]o?"
    while (choice := (await lines.ask(output, prompt)).lower()) not in choices:
        continue
    content: dict[str, Any] = {"decision": "no" if choice in _NO else "yes"}
    while choice in _EDIT and "arguments" not in content:
        try:
            content["arguments"] = exact_json(await lines.ask(output, "The arguments, as JSON:"))
        except ValueError as error:
            output.err.print(f"[red]{escape(str(error))}[/]")
    note = await lines.ask(output, "[dim]A note (Enter for none):[/]")
    return {"action": "accept", "content": {**content, "note": note} if note else content}


async def _ask_fields(output: Output, lines: Lines, schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of the answer, prompted for one by one; None if the user declines with `!`."""
    output.err.print("[dim]Enter skips an optional field; ! declines.[/]")
    content: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        optional = name not in schema.get("required", [])
        typed = await lines.ask(output, f"{escape(_label(name, field))}{' [dim](optional)[/]' if optional else ''}:")
        if typed == "!":
            return None
        if typed or not optional:
            content[name] = as_typed(typed, field)
    return content


def as_typed(text: str, field: dict[str, Any]) -> Any:
    """Return the text as a value of the type in the field's schema: yes or no, text, else JSON."""
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


class Answering:
    """Prompts for answers to the questions of a task while its events are followed."""

    def __init__(self, context: Context, task_id: str, lines: Lines | None, progress: TaskProgress | None) -> None:
        """Without `lines`, print the question and the command that answers it."""
        self._context = context
        self._task_id = task_id
        self._lines = lines
        self._progress = progress
        self._asking: asyncio.Task[None] | None = None
        self._printed: set[str] = set()

    def handle(self, event: Event) -> None:
        """Prompt when the task has a question; stop when it has been answered elsewhere."""
        if event.name in ("input_answered", "handler_returned", "task_completed"):
            self.stop()
        elif event.name == "input_required" and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask())

    def stop(self) -> None:
        """Stop prompting."""
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()

    async def _ask(self) -> None:
        task = await self._context.client.get(self._task_id)
        for key, question in (task.input_requests or {}).items():
            if self._lines is not None and not question.is_for_program and not question.approvers:
                with suppress(EOFError), self._progress.paused() if self._progress else nullcontext():
                    await ask_until_accepted(self._context, self._lines, task, key, question)
            elif key not in self._printed:
                self._printed.add(key)
                print_question(self._context, self._task_id, question)


def print_question(context: Context, task_id: str, question: InputRequest) -> None:
    """Print a question and, if a person answers it, the command to do so."""
    context.output.note(f"[magenta]?[/] {escape(one_line(question.message))}")
    if question.is_approval and question.handoff is not None:
        context.output.note(approval_text(question.handoff))
    if not question.is_for_program:
        context.output.command(context.options.command(f"tasks answer {task_id}"))


@asynccontextmanager
async def answering(context: Context, task_id: str, progress: TaskProgress | None = None) -> AsyncGenerator[Answering]:
    """Prompt for answers to the task's questions while the block runs, if there is a terminal."""
    interactive = not context.output.as_json and context.output.is_live and sys.stdin.isatty()
    async with AsyncExitStack() as stack:
        lines = await stack.enter_async_context(typed_lines()) if interactive else None
        session = Answering(context, task_id, lines, progress)
        try:
            yield session
        finally:
            session.stop()


async def ask_until_accepted(context: Context, lines: Lines, task: Task, key: str, question: InputRequest) -> Task:
    """Prompt until the server accepts the answer or the question is closed; return the task's latest state."""
    while True:
        answer = await ask_on_terminal(context.output, lines, question)
        try:
            task = await context.client.answer(task.id, key=key, **answer)
        except (InvalidRequest, Conflict, NotFound) as refused:
            context.output.error(cli_error(refused))
            with suppress(NotFound):  # a task of another caller is visible only while it waits for this approval
                task = await context.client.get(task.id)
                if key in (task.input_requests or {}):
                    continue
            return task
        else:
            context.output.note("[green]✓[/] accepted")
            return task
