"""Tools of other packages, and of the user's own folder: loaded once, when a worker or an API starts.

A module's tools are its functions under `@tool`, and those in `TOOLS`. It may have modes in `MODES` and, for MCP
clients, prompts in `PROMPTS` and resources in `RESOURCES`. The setting OUTLAST_TOOLS_FROM names it, by its name, its
file (`my_tools.py`) or its folder (`tools/`, for every module in it). The name `entry-points` means the modules that
installed packages declare as entry points of the group `outlast.tools`. Worker and API must load the same modules: the
API offers and checks the tools that the worker runs.
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from outlast.paths import is_tools_folder
from outlast.workflows.tools.framework.decorator import FUNCTION_LINES, FunctionTool, check_name
from outlast.workflows.tools.framework.mode import Mode
from outlast.workflows.tools.framework.tool import Tool, ToolBuilder
from outlast.workflows.tools.registry import extend

ENTRY_POINTS = "entry-points"
"""Name among modules that means all entry points of `ENTRY_POINT_GROUP`."""
ENTRY_POINT_GROUP = "outlast.tools"
_NO_TOOLS_IN = ("_", "test_", "conftest.")
"""Beginnings of the names of files in a folder that are not loaded: they are there for other modules, or for tests."""

_LOADED: dict[str, ModuleType] = {}


class ExtensionError(ValueError):
    """A module of tools cannot be used. The message is one line with the module, the place in it, and a solution."""


def load_extensions(names: Sequence[str], folder: Path | None = None) -> None:
    """Offer the tools of the modules called `names`. Raises `ExtensionError`.

    Modules that are named may lie in `folder` (by default the current one). A name that ends in `.py` is a file, the
    path of a folder means every module in it that has tools, and `entry-points` the installed entry points. That
    folder and those of files go to the end of the import path, so that nothing in them hides an installed module.
    """
    if names:
        _make_importable(folder or Path.cwd())
    for name in names:
        if name == ENTRY_POINTS:
            _load({entry.value: entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)})
        elif is_tools_folder(name):
            _load_folder(Path(name))
        else:
            _load({_module_of_file(Path(name)) if name.endswith(".py") else name: name})


def _load(names: Mapping[str, str]) -> None:
    """Load modules. The values are the operator's names for them."""
    for name, given in names.items():
        if name not in _LOADED:
            module = _import_module(name)
            _extend_with(name, module, given)
            _LOADED[name] = module


def _load_folder(folder: Path) -> None:
    """Load the modules in a folder that have tools, and not those in folders below it. Raises `ExtensionError`."""
    given = folder
    folder = folder.resolve()
    files = [file for file in sorted(folder.glob("*.py")) if not file.name.startswith(_NO_TOOLS_IN)]
    package = _package_of(folder)
    names = {_module_of_file(file, package): str(given / file.name) for file in files}
    modules = {name: _import_module(name) for name in names}
    found = {name: names[name] for name, module in modules.items() if name in _LOADED or _has_parts(module)}
    if not found:
        raise ExtensionError(f"No module in the folder {folder} has tools: write @tool above a function of one.")
    _load(found)


def _has_parts(module: ModuleType) -> bool:
    """Return whether a module of a folder is to be loaded: it has tools, or lists of other parts."""
    if any(hasattr(module, name) for name in ("TOOLS", "MODES", "PROMPTS", "RESOURCES")):
        return True
    found = vars(module).values()
    own = any(isinstance(one, FunctionTool) and one.__module__ == module.__name__ for one in cast(list[object], found))
    return own or any(isinstance(one, ToolBuilder) for one in found)


def extension_entries(attribute: str) -> tuple[Any, ...]:
    """Return all entries of the loaded modules in this attribute, for example `PROMPTS`."""
    return tuple(entry for module in _LOADED.values() for entry in cast(Iterable[Any], getattr(module, attribute, ())))


def named_modules(names: Sequence[str]) -> dict[str, ModuleType]:
    """Import the modules called `names` without offering their tools. Raises `ExtensionError`."""
    _make_importable(Path.cwd())
    return {name: _import_module(_module_of_file(Path(name)) if name.endswith(".py") else name) for name in names}


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _module_of_file(file: Path, package: Sequence[str] = ()) -> str:
    """Return the name under which a file of tools can be imported, as a module of `package`."""
    file = file.resolve()
    if not file.is_file():
        raise ExtensionError(f"Tools cannot be loaded: there is no file {file}.")
    _make_importable(file.parents[len(package)])
    importlib.invalidate_caches()
    name = ".".join((*package, file.stem))
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None or found.origin is None or Path(found.origin).resolve() != file:
        raise ExtensionError(
            f"Tools cannot be loaded from {file}: {name!r} is the name of another module, or of none. Rename it."
        )
    return name


def _package_of(folder: Path) -> tuple[str, ...]:
    """Return the names of the packages whose innermost one is `folder`, from the outermost; empty if it is none."""
    return (*_package_of(folder.parent), folder.name) if (folder / "__init__.py").is_file() else ()


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (
        Exception,
        SystemExit,
    ) as error:  # the author needs the place of any exception, not our traceback
        raise ExtensionError(f"Tools cannot be loaded from {name!r}: {_reason(name, error)}") from error


def _reason(name: str, error: Exception | SystemExit) -> str:
    """Return the place and the reason of a failed import in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name is not None and f"{name}.".startswith(f"{error.name}."):
        return (
            f"there is no module {error.name!r} in {Path.cwd()} or among the installed packages. Check the name, or "
            "start Outlast in the folder that holds the module."
        )
    text = " ".join(str(error).split()) or "no message"
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    place = _place_of(error)
    if isinstance(error, SystemExit):
        return f'{place}: the module ends the process when it is imported. Call it under `if __name__ == "__main__":`.'
    return f"{place}: {type(error).__name__}: {text}" if place else f"{type(error).__name__}: {text}"


def _place_of(error: BaseException) -> str | None:
    """Return the last file and line of the traceback in the module's own folder."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename not in (__file__, importlib.__file__)
    ]
    if not frames:
        return None
    folder = Path(frames[0].filename).parent
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f"{own[-1].filename}, line {own[-1].lineno}"


def _extend_with(name: str, module: ModuleType, given: str) -> None:
    tools = _tools_in(name, module)
    modes = tuple(cast(Iterable[Mode], getattr(module, "MODES", ())))
    for definition in (*tools, *(definition for mode in modes for definition in mode.tools)):
        _check_name(name, module, definition)
        _check_schemas(name, module, definition)
    try:
        extend(tools, modes, module=given)
    except ValueError as error:
        raise ExtensionError(f"Tools of module {name!r}{_file_of(module)}: {error}") from error


def _tools_in(name: str, module: ModuleType) -> tuple[Tool, ...]:
    """Return the tools of `TOOLS`, and the module's own functions under `@tool`. Raises `ExtensionError`."""
    listed: object = getattr(module, "TOOLS", None)
    entries = list(cast(list[object], listed)) if isinstance(listed, list | tuple) else [listed] if listed else []
    for entry in entries:
        if not isinstance(entry, Tool | FunctionTool):
            raise ExtensionError(f"Module {name!r}{_file_of(module)}: TOOLS contains {_problem_of(entry)}")
    values: list[Any] = list(vars(module).values())
    decorated: list[FunctionTool[..., Any]] = [one for one in values if isinstance(one, FunctionTool)]
    own = [one for one in decorated if one.__module__ == module.__name__]
    for one in own:
        lines = sorted(FUNCTION_LINES.get((one.__module__, one.function.__qualname__), ()))
        if len(lines) > 1:
            raise ExtensionError(
                f"Module {name!r}{_file_of(module)} defines {one.function.__qualname__} more than once, in lines "
                f"{', '.join(map(str, lines))}: rename all but one."
            )
    found = [cast(Tool, getattr(one, "definition", one)) for one in [*entries, *own]]
    names = {one.name for one in found}
    for key, one in vars(module).items():
        if isinstance(one, ToolBuilder) and one.name not in names:
            raise ExtensionError(
                f"Module {name!r}{_file_of(module)}: the tool {one.name!r} ({key}) is not finished: call .build() at "
                "its end, and list it in TOOLS."
            )
    if not found and listed is None:
        built = [key for key, one in vars(module).items() if isinstance(one, Tool)]
        advice = f"write TOOLS = [{', '.join(built)}]." if built else "write @tool above a function."
        raise ExtensionError(f"Module {name!r}{_file_of(module)} has no tools: {advice}")
    return tuple({id(one): one for one in found}.values())


def _problem_of(entry: object) -> str:
    if isinstance(entry, ToolBuilder):
        return f"the unfinished tool {entry.name!r}: call .build() at its end."
    return f"{type(entry).__name__}, which is not a tool: write @tool above the function, or `tool(...).….build()`."


def _check_name(name: str, module: ModuleType, definition: Tool) -> None:
    try:
        check_name(definition.name)
    except ValueError as error:
        raise ExtensionError(f"Tools of module {name!r}{_file_of(module)}: {error}") from error


def _check_schemas(name: str, module: ModuleType, definition: Tool) -> None:
    """Make the tool's schemas, so that its author gets errors about them when the process starts."""
    for what, text in (("arguments", definition.input_text), ("answers", definition.output_text)):
        try:
            _ = text.json if text is not None else None
        except Exception as error:  # as above: it comes from the author's models
            raise ExtensionError(
                f"Tools of module {name!r}{_file_of(module)}: the {what} of tool {definition.name!r} have no JSON "
                f"Schema: {type(error).__name__}: {' '.join(str(error).split())}"
            ) from error


def _file_of(module: ModuleType) -> str:
    return f" ({module.__file__})" if getattr(module, "__file__", None) else ""
