"""Values of tools as JSON, as pydantic writes it and with valid text: dates as text, sets as lists."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.unicode_text import REPLACEMENT, printable, valid_json, valid_text

_MAX_PATH_CHARS: Final = 200


class UnusableAnswer(TypeError):
    """A tool has answered with a value that cannot be its answer. The message names its place and its type only."""

    def envelope(self, tool: str) -> ErrorEnvelope:
        """The error for a call of `tool`, which is not repeated: the tool has done its work."""
        return ErrorEnvelope.permanent(
            ErrorCategory.UNKNOWN,
            tool,
            str(self),
            hint="The tool was executed; check what it has done before you call it again. Its author has to answer "
            "with text, or with values that pydantic can write as JSON.",
        )


def as_json(value: BaseModel | dict[Any, Any]) -> dict[str, JsonValue]:
    """A model or a dict as a JSON object, as pydantic writes it: dates as text, sets as lists.

    Raises `UnusableAnswer`.
    """
    try:
        written: object = _written(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise not_json(value, error) from None
    if not isinstance(written, dict):
        raise _unwritable((), f"written as {type(written).__name__}, and not as an object")
    return valid_json(cast(dict[str, JsonValue], written))


def _written(value: object) -> object:
    try:
        return to_jsonable_python(value, by_alias=True, inf_nan_mode="null")
    except UnicodeEncodeError:  # A name with half of a character; in a value it is written as it is.
        return to_jsonable_python(_with_valid_names(value), by_alias=True, inf_nan_mode="null")


def _with_valid_names(value: object) -> object:
    """`value` with valid text in the names of its dicts, as deep as there are dicts, lists and tuples."""
    if isinstance(value, Mapping):
        valid: dict[object, object] = {}
        for name, part in cast(Mapping[object, object], value).items():
            key = valid_text(name) if isinstance(name, str) else name
            while isinstance(key, str) and (key in valid or (key != name and key in value)):
                key += REPLACEMENT
            valid[key] = _with_valid_names(part)
        return valid
    if isinstance(value, list | tuple):
        return [_with_valid_names(part) for part in cast(Iterable[object], value)]
    if isinstance(value, BaseModel):
        return {name: _with_valid_names(part) for name, part in value}
    return value


def not_json(value: object, error: Exception, path: tuple[str, ...] = ()) -> UnusableAnswer:
    """The error for the innermost value that cannot be written."""
    for name, part in _parts(value):
        try:
            _written(part)
        except (ValueError, TypeError, RecursionError) as inner:
            if len(path) < _MAX_PATH_CHARS:
                return not_json(part, inner, (*path, name))
    if isinstance(value, bytes | bytearray):
        return _unwritable(path, "bytes that are not text in UTF-8; encode them, for example as Base64")
    if isinstance(error, RecursionError) or "depth" in str(error) or "Circular" in str(error):
        return _unwritable(path[:3], "nested too deeply, or contains itself")
    return _unwritable(path, f"of type {type(value).__name__}")


def _unwritable(path: tuple[str, ...], reason: str) -> UnusableAnswer:
    place = printable(Violation.at(path, "").path)[:_MAX_PATH_CHARS]
    return UnusableAnswer(
        f"The tool's answer cannot be written as JSON: {f'the value at {place}' if place else 'it'} is {reason}."
    )


def _parts(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, BaseModel):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in cast(Mapping[object, object], value).items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(str(number), part) for number, part in enumerate(cast(Iterable[object], value))]
    return ()
