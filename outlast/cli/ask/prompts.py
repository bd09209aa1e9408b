"""Asks a task's question on the terminal."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from rich.markup import escape

from outlast.activities.json_numbers import exact_json
from outlast.cli.show.output import Output
from outlast.cli.show.questions import approval_text
from outlast.cli.show.wording import ahead, local_time, one_line, printable
from outlast.client import InputRequest

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
