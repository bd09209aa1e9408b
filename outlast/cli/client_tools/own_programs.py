"""Client tools of the user, from Python modules and from manifests of programs in any language."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from outlast.cli.options import BadInput, names_in
from outlast.client import ClientTool, NoAnswer, OpenHandoff
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
