"""One line of text per event: what a caller sent can neither begin a line of its own nor steer a terminal."""

import re
from collections.abc import MutableMapping
from typing import Any

_EXCEPTION = "exception"
_INDENT = "    "
# Control characters (C0, C1), line and paragraph separators, marks that reorder text, halves of characters.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    r"""`text` in one line, with what is no visible character written as an escape (`\n`, `\x1b`, `\u2028`)."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog for lines of text. A traceback keeps its lines, each indented: none looks like ours."""
    return {
        printable(str(key)): _indented(value) if key == _EXCEPTION else _printable(value)
        for key, value in event.items()
    }


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) else value


def _indented(trace: object) -> str:
    return "\n".join(_INDENT + printable(line) for line in str(trace).split("\n"))
