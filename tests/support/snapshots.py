"""Public surfaces as text, to compare with the files in `tests/snapshots`. `make snapshots` writes them.

A change of one of these files is a change for users: it needs a line in CHANGELOG.md.
"""

import inspect
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "tests" / "snapshots"
_PACKAGE = re.compile(r"\boutlast(\.\w+)*\.(?=\w)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def check(config: pytest.Config, name: str, text: str) -> None:
    """Compare `text` with the file `name`, or write it there with `--write-snapshots`."""
    path = FOLDER / name
    if config.getoption("--write-snapshots"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{name} differs: if the change is intended, run `make snapshots`"


def json_lines(value: object) -> str:
    """`value` as JSON with sorted keys, each value on its own line."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def commands(command: Any, path: str = "outlast") -> Iterator[str]:
    """A command and those below it: arguments, options with their types and defaults, and help texts."""
    yield f"{path}{' (hidden)' if command.hidden else ''}"
    yield from _indented(command.help or "")
    for parameter in command.params:
        facts = {
            "type": _type(parameter.type_descriptor.annotation),
            "metavar": parameter.metavar,
            "variable": parameter.envvar,
            "default": None if parameter.default is False else parameter.default,
            "min": parameter.min,
            "max": parameter.max,
            "required": parameter.required or None,
            "hidden": parameter.hidden or None,
        }
        shown = ", ".join(f"{name} {fact}" for name, fact in facts.items() if fact is not None)
        shown = shown.replace(str(ROOT), ".")
        yield f"  {' '.join([*parameter.opts, *parameter.secondary_opts])}: {shown}"
        yield from _indented(parameter.help or "")
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield ""
        yield from commands(child, f"{path} {name}")


def _indented(text: str) -> Iterator[str]:
    return (f"      {line.strip()}" for line in text.splitlines() if line.strip())


def names_of(module: Any) -> Iterator[str]:
    """The public names of a module, with their signatures."""
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.isclass(value):
            yield from members_of(value)
        else:
            yield f"{name}{_signature(value)}" if inspect.isroutine(value) else f"{name}: {_type(value)}"


def members_of(value: type) -> Iterator[str]:
    """A class with its public attributes, and the signatures of its methods."""
    yield f"class {value.__name__}({', '.join(base.__name__ for base in value.__bases__)})"
    yield from _members(value)


def _members(value: type) -> Iterator[str]:
    fields: dict[str, Any] = getattr(value, "model_fields", None) or getattr(value, "__annotations__", {})
    for name, field in fields.items():
        if not name.startswith("_"):
            yield f"    {name}: {_type(getattr(field, 'annotation', field))}"
    if "__init__" in vars(value) and not hasattr(value, "model_fields"):
        yield f"    __init__{_signature(value.__init__)}"
    for name in sorted(set(dir(value)) - fields.keys()):
        owner = next((base for base in value.__mro__ if name in vars(base)), value)
        if name.startswith("_") or not owner.__module__.startswith("outlast"):
            continue
        member = getattr(value, name)
        if isinstance(member, cached_property):
            yield f"    {name}: {_type(inspect.signature(member.func).return_annotation)}"
        elif callable(member):
            kind = "async " if inspect.iscoroutinefunction(member) else ""
            yield f"    {kind}{name}{_signature(member)}"
        else:
            yield f"    {name}"


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    shown = signature.replace(
        parameters=[_shown(one) for one in signature.parameters.values()],
        return_annotation=_Text(_type(signature.return_annotation)),
    )
    return str(shown)


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if default is not inspect.Parameter.empty:
        is_plain = default is None or isinstance(default, str | int | float | tuple | timedelta)
        default = default if is_plain else _Text("...")
    if parameter.annotation is inspect.Parameter.empty:
        return parameter.replace(default=default)
    return parameter.replace(default=default, annotation=_Text(_type(parameter.annotation)))


class _Text:
    """Prints as a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


_NAMES: dict[Any, str] = {type(None): "None", None: "None", ...: "...", inspect.Parameter.empty: "?"}


def _type(annotation: Any) -> str:
    """A type without modules and metadata, which are no part of the surface."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, list):
        return f"[{', '.join(map(_type, annotation))}]"
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Union or origin is UnionType:
        return " | ".join(map(_type, arguments))
    if origin is not None:
        return f"{_type(origin)}[{', '.join(map(_type, arguments))}]"
    name = annotation if isinstance(annotation, str) else _NAMES.get(annotation) or getattr(annotation, "__name__", "")
    return _ADDRESS.sub("", _PACKAGE.sub("", name or repr(annotation)))
