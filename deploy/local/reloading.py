"""`--reload`: worker and API are replaced when the user's tools have changed and can be loaded."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from outlast.deploy.local.config import Component, StackConfig
from outlast.deploy.local.errors import ToolModuleError
from outlast.deploy.local.processes.process import SupervisedProcess
from outlast.deploy.local.stack_events import OnEvent, StackEvent, StackEventKind
from outlast.deploy.local.tool_modules import SourceFiles, changes_of, check_tool_modules

_LOAD_TOOLS = (Component.WORKER, Component.API)


class ToolReloader:
    """Follows the tools of one stack: `run` until it is cancelled."""

    def __init__(
        self, config: StackConfig, processes: Sequence[SupervisedProcess], files: SourceFiles, on_event: OnEvent
    ) -> None:
        self._config = config
        self._processes = [process for process in processes if process.spec.name in _LOAD_TOOLS]
        self._files = files
        self._on_event = on_event

    async def run(self) -> None:
        """Replace worker and API after each change that can be loaded; report one that cannot, and change nothing."""
        while True:
            async for _ in changes_of(self._files):
                loaded = await self._load()
                if loaded is not None and loaded != self._files:
                    await self._replace(loaded)
                    break  # other files may have to be watched now

    async def _load(self) -> SourceFiles | None:
        try:
            return await check_tool_modules(self._config)
        except ToolModuleError as error:
            self._report(StackEventKind.RELOAD_FAILED, f"{error} ({self._meanwhile()})")
            return None

    def _meanwhile(self) -> str:
        """What worker and API do until the tools can be loaded. One that is being replaced reads the broken files."""
        names = " and ".join(process.spec.name for process in self._processes)
        if all(process.is_ready for process in self._processes):
            return f"{names} go on with the tools they have"
        return f"{names} were being replaced, and start as soon as this is mended"

    async def _replace(self, loaded: SourceFiles) -> None:
        paths = sorted({*loaded.items()} ^ {*self._files.items()})
        changed = ", ".join(dict.fromkeys(_shown(path) for path, _ in paths))
        self._files = loaded
        self._report(StackEventKind.RELOADING, f"{changed} changed: running tasks go on with the new tools")
        await asyncio.gather(*(process.replace(f"{changed} changed") for process in self._processes))

    def _report(self, kind: StackEventKind, message: str) -> None:
        self._on_event(StackEvent(kind, "tools", message))


def _shown(file: Path) -> str:
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)
