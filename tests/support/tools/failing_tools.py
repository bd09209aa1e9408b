"""Functions that fail as those of newcomers do. The folder that a test names counts the attempts."""

import asyncio
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from outlast import CallFailed, TextContent, ToolContext, ToolResult, tool


class Weather(BaseModel):
    degrees: float


def _file(folder: str, name: str) -> Path:
    return Path(folder, name)


@tool
def misfit(folder: str) -> str:
    """Read a value that does not fit a model."""
    Path(folder, f"attempt-{time.monotonic_ns()}").touch()
    return str(Weather.model_validate({"degrees": "hot"}))


@tool
def mistaken() -> str:
    """Look up what is not there, with a secret in the message."""
    raise KeyError("password=hunter2hunter2")


@tool(timeout=1, retries=0)
async def endless() -> str:
    """Take too long."""
    await asyncio.Event().wait()
    return "never"


@tool
async def stubborn(folder: str) -> str:
    """Delay its cancellation until the folder has the file `go`."""
    _file(folder, "begun").touch()
    try:
        await asyncio.Event().wait()
    finally:
        while not _file(folder, "go").exists():
            await asyncio.sleep(0.1)
    return "never"


class LibraryError(OSError):
    """An error of the network, as requests has it."""


@tool(backoff=0.1)
def unreachable(folder: str) -> str:
    """Fail as requests does without a network."""
    Path(folder, f"attempt-{time.monotonic_ns()}").touch()
    raise LibraryError("no route")


@tool
def refusing(chars: int = 10) -> ToolResult:
    """Answer with an error of a given length."""
    return ToolResult(content=(TextContent(text="x" * chars),), structured={"chars": chars}, is_error=True)


@tool
async def asking_refusing(ctx: ToolContext, chars: int = 10) -> dict[str, Any]:
    """Call the other tool, and return what its error says."""
    try:
        await ctx.call(refusing, chars=chars)
    except CallFailed as failed:
        return {"category": failed.envelope.category, "task": failed.task_id}
    raise AssertionError
