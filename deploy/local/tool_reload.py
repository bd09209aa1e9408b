"""Modules with the user's tools: test-loaded before a stack starts, and watched for changes (`--reload`).

A child process loads them, so that the stack's own process stays clean and a later check reads the files again.
"""

import asyncio
import hashlib
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue
from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  # types of anyio are left open

from outlast.deploy.local.config import Component, StackConfig
from outlast.deploy.local.errors import ToolModuleError
from outlast.deploy.local.processes import SupervisedProcess
from outlast.deploy.local.state import OnEvent, StackEvent, StackEventKind

_COMMAND = (sys.executable, "-P", "-B", "-m", "outlast.workflows.tools.loadable")
SourceFiles = Mapping[Path, str]
"""Source files of the user's modules, with a digest of each."""
_LOAD_TOOLS = (Component.WORKER, Component.API)


class OwnTool(BaseModel):
    """A tool of the user."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    input_schema: dict[str, JsonValue]


class LoadedTools(BaseModel):
    """The user's modules of tools as they could be loaded."""

    model_config = ConfigDict(frozen=True)

    files: dict[Path, str] = {}
    """Their source files, with a digest of each."""
    tools: tuple[OwnTool, ...] = ()


class ToolReloader:
    """Replaces worker and API of a stack when the tools have changed and can be loaded."""

    def __init__(
        self, config: StackConfig, processes: Sequence[SupervisedProcess], loaded: LoadedTools, on_event: OnEvent
    ) -> None:
        self._config = config
        self._processes = [process for process in processes if process.spec.name in _LOAD_TOOLS]
        self.loaded = loaded
        """The modules as they were loaded last."""
        self._on_event = on_event

    async def run(self) -> None:
        """Until cancelled, replace worker and API after each change that can be loaded, and report other changes."""
        while True:
            async for _ in changes_of(self.loaded.files):
                try:
                    loaded = await check_tool_modules(self._config)
                except ToolModuleError as error:
                    self._report(StackEventKind.RELOAD_FAILED, f"{error} ({self._until_fixed()})")
                    continue
                if loaded.files != self.loaded.files:
                    await self._replace(loaded)
                    break  # other files may have to be watched now

    def _until_fixed(self) -> str:
        """Return the state of worker and API. A process that is being replaced reads the broken files."""
        names = " and ".join(process.spec.name for process in self._processes)
        if all(process.is_ready for process in self._processes):
            return f"{names} keep their current tools"
        return f"{names} were being replaced, and start when this is fixed"

    async def _replace(self, loaded: LoadedTools) -> None:
        paths = sorted({*loaded.files.items()} ^ {*self.loaded.files.items()})
        changed = ", ".join(dict.fromkeys(_shown(path) for path, _ in paths))
        self.loaded = loaded
        self._report(StackEventKind.RELOADING, f"{changed} changed: running tasks continue with the new tools")
        await asyncio.gather(*(process.replace(f"{changed} changed") for process in self._processes))

    def _report(self, kind: StackEventKind, message: str) -> None:
        self._on_event(StackEvent(kind, "tools", message))


async def check_tool_modules(config: StackConfig) -> LoadedTools:
    """Load the modules of `tools_from` in a child process and return their source files and tools.

    Raises `ToolModuleError`, with a message of one line with file and line number, if one of them cannot be used.
    """
    names = [name.strip() for name in (config.tools_from or "").split(",") if name.strip()]
    if not names:
        return LoadedTools()
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
        seconds = f"{config.ready_timeout_seconds:g} seconds"
        late = f"{config.tools_from}: not loaded within {seconds}. On a slow machine, increase --ready-timeout."
        raise ToolModuleError(late) from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise ToolModuleError(lines[-1] if lines else f"{config.tools_from}: exit code {child.returncode} on loading.")
    return LoadedTools.model_validate_json(found)


async def changes_of(files: SourceFiles) -> AsyncGenerator[None]:
    """Yield after each change of a Python file in the folders of these files."""
    folders = {file.parent for file in files}
    seen = dict(files)
    # It also yields without a change every few seconds, which detects a change made before the watch began.
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


def _shown(file: Path) -> str:
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)
