"""Applies one JSON Schema (2020-12, with Apify's `nullable`) to one value. Fetches nothing, imports nothing heavy. Two
kinds of regular expressions: linear ones, in time proportional to the text whatever the pattern, and those with
look-around or back-references, which give up after a fixed number of steps. Both are deterministic.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from jsonschema_rs import Draft202012Validator, FancyRegexOptions, RegexOptions, ValidationError, ValidationErrorKind

MAX_FOUND = 50
MAX_MESSAGE_CHARS = 300
MAX_PATTERNS = 100
"""In a schema that a caller gives: each has to be compiled."""
_KEPT_SCHEMAS = 128
_MAX_DROPPED_PATTERNS = 20

_LINEAR: Final = RegexOptions(size_limit=256 * 1024, dfa_size_limit=1024 * 1024)
_STEPPED: Final = FancyRegexOptions(backtrack_limit=1_000_000, dfa_size_limit=1024 * 1024)
_TOO_DEEP = "The value is nested too deeply to be checked."


class Found(NamedTuple):
    """One violation: names and indices that lead to the value, the outermost first, and what is wrong there."""

    place: tuple[str | int, ...]
    message: str


class NeedsSteps(Exception):
    """The schema has a regular expression that a linear engine does not take."""


class _NotApplicable(Exception):
    """The schema itself is invalid."""


def find(schema_json: str, value: Any, *, linear: bool) -> list[Found]:
    """The violations of the schema in `value`, by place; `MAX_FOUND` at most. An invalid schema accepts every value:
    its owner checks the value again. A reference that leads outside the schema, or nowhere, is a violation of the value
    as a whole. Raises `NeedsSteps` if `linear` and the schema is not.
    """
    try:
        validator = _validator(schema_json, linear)
        if validator.is_valid(value):
            return []
        found = [Found(tuple(error.instance_path), _message(error)) for error in validator.iter_errors(value)]
    except _NotApplicable:
        return []
    except ValidationError as error:
        return [Found((), f"The schema cannot be applied, so no value can be checked: {_bounded(error.message)}")]
    except (ValueError, RecursionError):
        return [Found((), _TOO_DEEP)]
    return sorted(found, key=lambda one: list(map(str, one.place)))[:MAX_FOUND]


def flaw(schema_json: str) -> str | None:
    """Return the reason why the schema cannot be applied: a wrong keyword, pattern or reference."""
    if schema_json.count('"pattern') > MAX_PATTERNS:
        return f"it has more than {MAX_PATTERNS} patterns"
    try:
        Draft202012Validator(json.loads(schema_json), pattern_options=_LINEAR, offline=True)
    except (ValueError, RecursionError) as error:
        return _bounded(error.message if isinstance(error, ValidationError) else str(error))
    return None


def as_text(schema: Any) -> str:
    """`schema` as `find` takes it. Raises `RecursionError` for one that is nested too deeply."""
    return json.dumps(schema, ensure_ascii=True)


@lru_cache(maxsize=_KEPT_SCHEMAS)
def _validator(schema_json: str, linear: bool) -> Draft202012Validator:
    """Raises `ValidationError` for a reference that cannot be followed, `NeedsSteps`, and `_NotApplicable`."""
    plain = _applicable(json.loads(schema_json))
    for _ in range(_MAX_DROPPED_PATTERNS):
        try:
            return Draft202012Validator(
                plain, validate_formats=False, pattern_options=_LINEAR if linear else _STEPPED, offline=True
            )
        except ValidationError as error:
            if isinstance(error.kind, ValidationErrorKind.Referencing):
                raise
            *parents, last = error.instance_path or [""]
            if last != "pattern" and (not parents or parents[-1] != "patternProperties"):
                raise _NotApplicable from error
            if linear:
                raise NeedsSteps from error
            # A pattern that only JavaScript understands: the rest of the schema counts, and its owner checks it again.
            _drop(plain, parents, last)
    raise _NotApplicable


def _drop(schema: Any, parents: Iterable[str | int], last: str | int) -> None:
    for part in parents:
        schema = schema[part]
    del schema[last]


def _message(error: ValidationError) -> str:
    if isinstance(error.kind, ValidationErrorKind.BacktrackLimitExceeded):
        return "The pattern of the schema takes too long on this text."
    return _bounded(error.message)


def _bounded(message: str) -> str:
    """`message` without its middle if it is long: it may begin with the whole value, and ends with what is wrong."""
    if len(message) <= MAX_MESSAGE_CHARS:
        return message
    half = (MAX_MESSAGE_CHARS - 1) // 2
    return f"{message[:half]}…{message[-half:]}"


def _applicable(schema: Any) -> Any:
    """The schema as the engine takes it. Apify's `nullable: true` is one more type, and patterns are JavaScript's."""
    if isinstance(schema, list):
        return [_applicable(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    plain = {key: _subschemas(key, part) for key, part in fields.items() if key != "nullable"}
    if isinstance(pattern := plain.get("pattern"), str):
        plain["pattern"] = rewritten(pattern)
    if fields.get("nullable") is True and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
        if isinstance(plain.get("enum"), list):
            plain["enum"] = [*plain["enum"], None]
    return plain


def _subschemas(keyword: str, value: Any) -> Any:
    """Return the keys of `properties` are names of fields, not keywords: a field may be called `nullable`."""
    if keyword in ("const", "default", "enum", "examples"):
        return value
    if not isinstance(value, dict) or keyword not in ("properties", "patternProperties"):
        return _applicable(value)
    parts = cast("dict[str, Any]", value)
    named = keyword == "properties"
    return {(name if named else rewritten(name)): _applicable(part) for name, part in parts.items()}


_TOKEN = re.compile(
    r"""
      (?P<reference>\\k<(?P<name>[^>]+)>)
    | (?P<escaped>\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|.))
    | (?P<any>\[\^\])
    | (?P<none>\[\])
    | (?P<set>\[)
    | (?P<group>\((?:\?<(?P<named>[^=!>][^>]*)>|(?!\?)))
    | (?P<quantifier>\{\d+(?:,\d*)?\})
    | (?P<brace>\{)
    """,
    re.VERBOSE | re.DOTALL,
)
_MAX_CHARS = 10_000
_EDGE = r"(?:(?<=[0-9A-Z_a-z])(?![0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?=[0-9A-Z_a-z]))"
"""`\\b`: the words of JavaScript have letters of ASCII only."""
_CLASS = re.compile(r"\\[dDwWsS]|\\[pP]\{[^}]*\}")
_SET = re.compile(r"\[\^?(?:\\[pP]\{[^}]*\}|\\u\{[^}]*\}|\\.|[^\]\\])*\]", re.DOTALL)
_IN_SET = re.compile(r"\\[pP]\{[^}]*\}|\\u\{[^}]*\}|\\.|.", re.DOTALL)


def rewritten(pattern: str) -> str:
    """`pattern` in a form that the engine takes, with the same meaning. A very long one is left as it is."""
    if len(pattern) > _MAX_CHARS:
        return pattern
    numbers = _numbers_of_groups(pattern)
    pieces: list[str] = []
    position = 0
    while found := _TOKEN.search(pattern, position):
        pieces.append(pattern[position : found.start()])
        whole = _SET.match(pattern, found.start()) if found["set"] else None
        if whole is not None:
            pieces.append(_rewritten_set(whole[0]))
            position = whole.end()
            continue
        pieces.append(_rewritten_token(found, numbers))
        position = found.end()
    return "".join([*pieces, pattern[position:]])


def _rewritten_token(found: re.Match[str], numbers: dict[str, int]) -> str:
    if found["any"]:
        return r"[\s\S]"
    if found["none"]:
        return r"[^\s\S]"
    if found["escaped"] == r"\b":
        return _EDGE
    if found["reference"] and found["name"] in numbers:
        return rf"(?:\{numbers[found['name']]})"
    return r"\{" if found["brace"] else found[0]


def _numbers_of_groups(pattern: str) -> dict[str, int]:
    """Return the number of each named group, counted among all groups that capture."""
    numbers: dict[str, int] = {}
    count = position = 0
    while found := _TOKEN.search(pattern, position):
        whole = _SET.match(pattern, found.start()) if found["set"] else None
        position = whole.end() if whole is not None else found.end()
        if found["group"]:
            count += 1
            if found["named"]:
                numbers[found["named"]] = count
    return numbers


def _rewritten_set(text: str) -> str:
    """Return a set in which a hyphen beside a class such as `\\w` stands for itself, and `\\b` for a backspace."""
    parts = [r"\x08" if part == r"\b" else part for part in _IN_SET.findall(text)]
    for index in range(1, len(parts) - 1):
        beside = (parts[index - 1], parts[index + 1])
        if parts[index] == "-" and any(_CLASS.fullmatch(part) for part in beside):
            parts[index] = r"\-"
    return "".join(parts)
