"""Tools of other packages: loaded once, when a worker or an API starts.

A module has its tools in `TOOLS` (and may have modes in `MODES`; for MCP clients, prompts in `PROMPTS` and resources in
`RESOURCES`). It is named in the setting OUTLAST_TOOLS_FROM, or by an entry point of the group `outlast.tools`. Worker
and API must load the same modules: the API offers and checks what the worker carries out.
"""

import importlib
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, cast

from outlast.workflows.tools.framework.mode import Mode
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import add_mode, extend

ENTRY_POINT_GROUP = "outlast.tools"

_LOADED: dict[str, ModuleType] = {}


class ExtensionError(ValueError):
    """A module cannot be used; the message says which, and why."""


def load_extensions(names: Sequence[str]) -> None:
    """Offer what the modules called `names` and the installed entry points have. Raises `ExtensionError`."""
    installed = (entry.value for entry in entry_points(group=ENTRY_POINT_GROUP))
    for name in dict.fromkeys([*names, *installed]):
        if name not in _LOADED:
            module = _imported(name)
            _extend_with(name, module)
            _LOADED[name] = module


def extension_entries(attribute: str) -> tuple[Any, ...]:
    """What the loaded modules have in their attribute of this name, for example `PROMPTS`."""
    return tuple(entry for module in _LOADED.values() for entry in cast(Iterable[Any], getattr(module, attribute, ())))


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExtensionError(f"Tools cannot be loaded from {name!r}: {error}.") from error


def _extend_with(name: str, module: ModuleType) -> None:
    tools: object = getattr(module, "TOOLS", None)
    if not isinstance(tools, list | tuple) or not all(isinstance(entry, Tool) for entry in cast(list[object], tools)):
        raise ExtensionError(
            f"Module {name!r} has no TOOLS, a sequence of tools that `outlast.workflows.tools.framework.tool` made."
        )
    try:
        for mode in cast(Iterable[Mode], getattr(module, "MODES", ())):
            add_mode(mode)
        extend(cast(Sequence[Tool], tools))
    except ValueError as error:
        raise ExtensionError(f"Tools of module {name!r}: {error}") from error
