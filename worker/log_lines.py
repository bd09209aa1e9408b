"""Rules for log lines: which lines about tasks are written, and how a line of text stays one.

What a caller sent can neither begin a new line nor steer a terminal.
"""

import hashlib
import logging
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from outlast.activities.unicode_text import printable

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


@dataclass(frozen=True)
class TaskLines:
    """Log lines about tasks that are written (`workflows/handler_api/observability.py`)."""

    share: float = 1.0
    """Share of all tasks. Every process chooses the same ones, by their ids."""
    slow_seconds: float = 0.0
    """A task that took so long ends with a warning, which is always written; 0 warns of none."""

    def write_through(self, logger: logging.Logger, level: int) -> None:
        """Have `logger` write what is chosen, from `level` on."""
        # A slow task's line becomes a warning only here, so it has to come this far whatever the level is.
        logger.setLevel(min(level, logging.INFO))
        logger.filters[:] = [_Chosen(self, level)]


class _Chosen(logging.Filter):
    def __init__(self, lines: TaskLines, level: int) -> None:
        super().__init__()
        self._lines = lines
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        facts = vars(record)
        is_slow = 0 < self._lines.slow_seconds <= facts.get("seconds", 0.0)
        if is_slow:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            facts["slow"] = True
        is_kept = is_slow or facts.get("outcome") == "failed" or _chance_of(facts.get("task")) < self._lines.share
        return is_kept and record.levelno >= self._level


def _chance_of(task_id: object) -> float:
    """From 0 up to 1, the same for all lines of a task."""
    return int.from_bytes(hashlib.sha256(str(task_id).encode("utf-8", "replace")).digest()[:6]) / (1 << 48)
