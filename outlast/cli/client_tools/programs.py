"""Client tools in any language: a program reads the hand-off from standard input and writes its answer as JSON.

docs/client-tools.md describes the protocol.
"""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, model_validator

from outlast.client import NoAnswer, OpenHandoff

PROTOCOL_VERSION = 1
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""What the server takes."""
_SECRETS = ("OUTLAST_TOKEN", "APIFY_TOKEN")
_HANDED = {"tool", "phase", "task_id", "session_id", "message", "parameters", "answer_schema", "deadline"}


class ProgramAnswer(BaseModel):
    """The output of a program: `content`, or another `action` and a message that says why there is none."""

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
    """The run of a client tool that is a program, started in `folder` for each hand-off."""

    async def run(handoff: OpenHandoff) -> dict[str, JsonValue]:
        given = {"protocol": PROTOCOL_VERSION, **handoff.model_dump(mode="json", include=_HANDED)}
        return _content_of(await _output_of(command, folder, json.dumps(given).encode()))

    return run


async def _output_of(command: tuple[str, ...], folder: Path, given: bytes) -> bytes:
    """Standard output of the program. It and all that it starts are killed when the run is cancelled."""
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
