"""One line of text per event: what a caller sent can neither begin a line of its own nor steer a terminal."""

from collections.abc import MutableMapping
from typing import Any

from outlast.activities.printable import printable

_EXCEPTION = "exception"
_INDENT = "    "


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
