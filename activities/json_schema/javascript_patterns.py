"""Regular expressions of JavaScript, which JSON Schema uses (ECMA-262), in the syntax that the engine here takes.

The engine reads most of them as JavaScript does: `\\p{L}`, named groups, look-around, `\\d` as digits 0 to 9. The rest
is rewritten: `[^]` and `[]`, `\\b`, references to named groups, a bare `{`, and a hyphen beside a class. Pure.
"""

import re

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
    """The number of each named group, counted among all groups that capture."""
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
    """A set in which a hyphen beside a class such as `\\w` stands for itself, and `\\b` for a backspace."""
    parts = [r"\x08" if part == r"\b" else part for part in _IN_SET.findall(text)]
    for index in range(1, len(parts) - 1):
        beside = (parts[index - 1], parts[index + 1])
        if parts[index] == "-" and any(_CLASS.fullmatch(part) for part in beside):
            parts[index] = r"\-"
    return "".join(parts)
