"""Answers handoffs one after the other, each once; those that others have answered are skipped."""

import asyncio
import json
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from rich.markup import escape

from outlast.cli.client_tools.browser_tabs import JsonObject, Wanted, answer_with_tabs
from outlast.cli.options import BadInput, names_in
from outlast.cli.prompts import Lines
from outlast.cli.runner import cli_error
from outlast.cli.show.output import Output
from outlast.client import AsyncClient, ClientTool, HandoffEvent, NoAnswer, OpenHandoff, errors
from outlast.client.client_tools import DEFAULT_TIMEOUT_SECONDS

PROTOCOL_VERSION = 1
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Limit of the server."""
_SECRETS = ("OUTLAST_TOKEN", "APIFY_TOKEN")
_HANDED = {"tool", "phase", "task_id", "session_id", "message", "parameters", "answer_schema", "deadline"}


class ProgramAnswer(BaseModel):
    """The output of a program: `content`, or another `action` with a reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["accept", "decline", "cancel", "error"] = "accept"
    content: dict[str, JsonValue] | None = None
    message: str = ""

    @model_validator(mode="after")
    def _is_whole(self) -> "ProgramAnswer":
        if (self.action == "accept") is (self.content is None):
            raise ValueError("an answer has content, or an action other than accept")
        return self


def run_program(command: tuple[str, ...], folder: Path) -> Callable[[OpenHandoff], Awaitable[dict[str, JsonValue]]]:
    """Return the function of a client tool that starts a program in `folder` for each handoff."""

    async def run(handoff: OpenHandoff) -> dict[str, JsonValue]:
        given = {"protocol": PROTOCOL_VERSION, **handoff.model_dump(mode="json", include=_HANDED)}
        return _content_of(await _output_of(command, folder, json.dumps(given).encode()))

    return run


async def _output_of(command: tuple[str, ...], folder: Path, given: bytes) -> bytes:
    """Return standard output of the program. It and its subprocesses are killed if the run is cancelled."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name not in _SECRETS},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise NoAnswer(f"{command[0]} cannot be started: {error.strerror}.") from error
    try:
        output, _ = await process.communicate(given)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise NoAnswer(f"{command[0]} ended with exit code {process.returncode}.")
    return output


def _content_of(output: bytes) -> dict[str, JsonValue]:
    if len(output) > MAX_ANSWER_BYTES:
        raise NoAnswer(f"The program wrote {len(output)} bytes; the limit is {MAX_ANSWER_BYTES}.")
    try:
        answer = ProgramAnswer.model_validate_json(output)
    except ValidationError as error:
        raise NoAnswer(f"The program did not write an answer: {error.errors()[0]['msg']}.") from error
    if answer.action != "accept":
        raise NoAnswer(answer.message, action=answer.action)
    return answer.content or {}


class ProgramEntry(BaseModel):
    """One client tool of a manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = Field(min_length=1)
    phase: str = Field(min_length=1)
    command: tuple[str, ...] = Field(min_length=1, description="Program and arguments; run in the manifest's folder.")
    sends: str = Field(min_length=1, description="What the program sends, for the prompt of the user.")
    timeout_seconds: float = Field(default=DEFAULT_TIMEOUT_SECONDS, gt=0)


class Manifest(BaseModel):
    """A file of client tools that are programs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_tools: tuple[ProgramEntry, ...] = Field(min_length=1)


def own_tools(tools_from: str) -> tuple[ClientTool, ...]:
    """Return the client tools of `tools_from`: modules, Python files and manifests (`.json`), separated by commas.

    Raises `BadInput` with the name that cannot be used, and the reason.
    """
    return tuple(
        tool for name in names_in(tools_from) for tool in (_of_manifest if name.endswith(".json") else _of_module)(name)
    )


def _of_manifest(name: str) -> Iterator[ClientTool]:
    file = Path(name).resolve()
    try:
        manifest = Manifest.model_validate_json(file.read_bytes())
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "/".join(str(part) for part in first["loc"]) or "the document"
        raise BadInput(f"{name}: {place}: {first['msg']}.", hint=_MANIFEST_HINT) from error
    for entry in manifest.client_tools:
        run = run_program(entry.command, file.parent)
        yield ClientTool(entry.tool, entry.phase, run, entry.sends, entry.timeout_seconds)


def _of_module(name: str) -> Iterator[ClientTool]:
    from outlast.workflows.tools.extensions import ExtensionError, named_modules  # noqa: PLC0415 (temporalio)

    try:
        module = named_modules([name])[name]
    except ExtensionError as error:
        raise BadInput(str(error)) from error
    tools: object = getattr(module, "CLIENT_TOOLS", None)
    entries = cast(list[Any], tools) if isinstance(tools, list | tuple) else []
    if not entries or not all(isinstance(entry, ClientTool) for entry in entries):
        raise BadInput(f"{name} has no CLIENT_TOOLS, a list of client tools.", hint=_MODULE_HINT)
    yield from entries


_MODULE_HINT = "Define CLIENT_TOOLS = [ClientTool(tool=..., phase=..., run=..., sends=...)] in it."
_MANIFEST_HINT = "An example: " + json.dumps(
    {"client_tools": [{"tool": "pick_colour", "phase": "pick", "command": ["node", "pick.mjs"], "sends": "a colour"}]}
)


class Consent:
    """The permissions that the user gives while the client runs. Without `lines`, everything is allowed."""

    def __init__(self, output: Output, lines: Lines | None, server_url: str) -> None:
        self._output = output
        self._lines = lines
        self._server_url = server_url
        self._allowed: set[tuple[str, str]] = set()

    async def given_for(self, tool: ClientTool, handoff: OpenHandoff) -> bool:
        """Return whether the tool may run for this handoff.

        A yes also applies to later calls that send the same; a no, or the end of the input, only to this call.
        """
        if self._lines is None:
            return True
        leaves = tool.sends_for(handoff.parameters)
        if (tool.tool, leaves) in self._allowed:
            return True
        self._output.note(f"[magenta]?[/] [bold]{tool.tool}[/] sends to {self._server_url}: {escape(leaves)}.")
        try:
            answer = await self._lines.ask(self._output, "  Allow it while this client runs? [bold]yes or no[/]")
        except EOFError:
            return False
        if answer.lower() not in ("y", "yes"):
            return False
        self._allowed.add((tool.tool, leaves))
        return True


Offered = Mapping[tuple[str, str], ClientTool]
"""Client tools by the names of tool and phase."""


def offered(browser_url: str, own: Iterable[ClientTool] = ()) -> Offered:
    """Return all client tools. Raises `BadInput` if two of them answer the same phase."""
    tools: dict[tuple[str, str], ClientTool] = {}
    for tool in (_list_tabs(browser_url), *own):
        if tools.setdefault((tool.tool, tool.phase), tool) is not tool:
            raise BadInput(f"Two client tools answer the phase {tool.phase!r} of {tool.tool}: keep one of them.")
    return tools


def _list_tabs(browser_url: str) -> ClientTool:
    async def run(handoff: OpenHandoff) -> JsonObject:
        return await answer_with_tabs(browser_url, handoff.parameters)

    def sends(parameters: Mapping[str, JsonValue]) -> str:
        wanted = Wanted.by(parameters)
        kind = ("normal and incognito " if wanted.normal else "incognito ") if wanted.incognito else ""
        return f"title and address of every {kind}tab of the browser at {browser_url}"

    return ClientTool("list_tabs", "collect_tabs", run, sends)


Identity = tuple[str, str, object]

MAX_MESSAGE_CHARS = 500
"""Limit of the server for a reason."""


@dataclass(frozen=True)
class _Answer:
    """An answer to a handoff."""

    action: Literal["accept", "decline", "cancel", "error"]
    content: JsonObject | None = None
    message: str = ""


class Serving:
    """A client that answers the handoffs of `tools` with the consent of the user."""

    def __init__(self, client: AsyncClient, output: Output, tools: Offered, consent: Consent) -> None:
        self._client = client
        self._output = output
        self._tools = tools
        self._consent = consent
        self._open: dict[Identity, OpenHandoff] = {}
        self._done: set[Identity] = set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Serve until it is cancelled. Raises `OutlastError` for errors that a retry cannot solve."""
        parts = [asyncio.create_task(part) for part in (self._listen(), self._work())]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in ended:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _listen(self) -> None:
        tools = sorted({tool.tool for tool in self._tools.values()})
        async with self._client.follow_handoffs(*tools) as events:
            async for event in events:
                self._hear(event)

    def _hear(self, event: HandoffEvent) -> None:
        handoff = event.handoff
        if handoff is None:
            self._open.clear()
            self._say("connected", f"Waiting for handoffs from {self._client.connection.url}.")
        elif event.name == "closed":
            self._open.pop(handoff.identity, None)
            self._done.discard(handoff.identity)
        elif self._can_answer(handoff) and handoff.identity not in self._done:
            self._open[handoff.identity] = handoff
            self._changed.set()

    def _can_answer(self, handoff: OpenHandoff) -> bool:
        return handoff.kind == "client" and (handoff.tool, handoff.phase) in self._tools

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            while self._open:
                identity = next(iter(self._open))
                handoff = self._open.pop(identity)
                # Before the answer: the server can offer it again while it processes the answer.
                self._done.add(identity)
                await self._answer(handoff)
            self._changed.clear()

    async def _answer(self, handoff: OpenHandoff) -> None:
        tool = self._tools[handoff.tool, handoff.phase]
        self._say("asked", f"Task {handoff.task_id} calls {handoff.tool}.", handoff)
        answer = await self._answer_of(tool, handoff)
        try:
            await self._client.answer(
                handoff.task_id,
                answer.content,
                key=handoff.key,
                action=answer.action,
                message=answer.message[:MAX_MESSAGE_CHARS] or None,
            )
        except (errors.ConnectionFailed, errors.RateLimited, errors.Unavailable) as trouble:
            self._done.discard(handoff.identity)
            self._open[handoff.identity] = handoff
            self._say("unreachable", f"{trouble.message} The task still waits.", handoff)
        except (errors.Unauthenticated, errors.PermissionDenied):
            raise
        except (errors.Conflict, errors.NotFound) as closed:
            self._say("closed", f"The question is already closed: {closed.message}", handoff)
        except errors.ApiError as refused:
            self._say("refused", " ".join([refused.message, *cli_error(refused).lines]), handoff)
        else:
            self._say(*_outcome(answer), handoff)

    async def _answer_of(self, tool: ClientTool, handoff: OpenHandoff) -> _Answer:
        """Return the answer of the tool. The server gets only the name of an unexpected error, the user all of it."""
        try:
            if not await self._consent.given_for(tool, handoff):
                return _Answer("decline")
            async with asyncio.timeout(tool.timeout_seconds):
                return _Answer("accept", _as_json(await tool.run(handoff)))
        except NoAnswer as none:
            return _Answer(none.action, message=none.message)
        except TimeoutError:
            return _Answer("error", message=f"It did not end within {tool.timeout_seconds:g} seconds.")
        except Exception as error:  # noqa: BLE001  # the author of the tool needs the traceback
            self._output.note(escape("".join(traceback.format_exception(error)).rstrip()))
            return _Answer("error", message=f"The client's part of {tool.tool} has a defect ({type(error).__name__}).")

    def _say(self, event: str, text: str, handoff: OpenHandoff | None = None) -> None:
        if self._output.as_json:
            task = {"task_id": handoff.task_id, "tool": handoff.tool, "key": handoff.key} if handoff else {}
            self._output.line({"event": event, "message": text, **task})
            return
        self._output.note(f"{_MARKS[event]} {escape(text)}")


def _as_json(value: Any) -> JsonObject:
    """Return a dict or a model as the content of an answer. Raises for anything but a JSON object."""
    content = value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else dict(value)
    json.dumps(content, allow_nan=False)
    return content


_MARKS = {
    "connected": "[green]●[/]",
    "asked": "[magenta]?[/]",
    "answered": "[green]✓[/]",
    "declined": "[yellow]■[/]",
    "failed": "[red]✗[/]",
    "closed": "[dim]■[/]",
    "refused": "[red]✗[/]",
    "unreachable": "[yellow]…[/]",
}


def _outcome(answer: _Answer) -> tuple[str, str]:
    """Return the event of an answer, and its text."""
    if answer.action in ("decline", "cancel"):
        return "declined", f"Declined: {answer.message}" if answer.message else "Declined; nothing was sent."
    problem = answer.message if answer.action == "error" else (answer.content or {}).get("problem")
    return ("failed", f"Answered with an error: {problem}") if problem else ("answered", "Answered.")
