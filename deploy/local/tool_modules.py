"""Modules with the user's tools: tried before a stack starts, and watched while they are under work (`--reload`).

They are loaded in a process of their own. Nothing of them stays in the stack, so a later check reads the files again.
"""

import asyncio
import hashlib
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from pydantic import TypeAdapter
from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  # types of anyio are left open

from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.errors import ToolModuleError

_COMMAND = (sys.executable, "-P", "-B", "-m", "outlast.workflows.tools.loadable")
_DIGESTS = TypeAdapter(dict[Path, str])

SourceFiles = Mapping[Path, str]
"""The user's source files that the modules consist of, with a digest of each."""


async def check_tool_modules(config: StackConfig) -> SourceFiles:
    """Load the modules of `tools_from` in a child process and return their source files.

    Raises `ToolModuleError`, whose message is one line with file and line number, when one of them cannot be used.
    """
    names = [name.strip() for name in (config.tools_from or "").split(",") if name.strip()]
    if not names:
        return {}
    child = await asyncio.create_subprocess_exec(
        *_COMMAND,
        *names,
        env=dict(config.environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(config.ready_timeout_seconds):
            found, errors = await child.communicate()
    except TimeoutError:
        late = f"{config.tools_from}: not loaded within {config.ready_timeout_seconds:g} seconds."
        raise ToolModuleError(late) from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise ToolModuleError(lines[-1] if lines else f"{config.tools_from}: exit code {child.returncode} on loading.")
    return _DIGESTS.validate_json(found)


async def changes_of(files: SourceFiles) -> AsyncGenerator[None]:
    """Yield after each change of a Python file in the folders of these files."""
    folders = {file.parent for file in files}
    seen = dict(files)
    # It also yields without a change every few seconds: a change that was made before the watch began is found then.
    async for events in awatch(*folders, recursive=False, watch_filter=_is_python, yield_on_timeout=True):
        now = {file: _digest(file) for file in files}
        if events or now != seen:
            seen = now
            yield


def _is_python(event: object, path: str) -> bool:
    del event
    return path.endswith(".py")


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
