"""How the console writes times, durations, money, ids and text that others have written."""

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_jsonable_python

from outlast.activities.unicode_text import printable

_SHORT_CHARS = 8
_MAX_TEXT_CHARS = 2_000
_MAX_CODE_CHARS = 20_000
_SMALL_USD = 0.1
_TINY_USD = 0.0001
_STEPS = ((60.0, "s"), (3_600.0, "min"), (86_400.0, "h"))
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def text(value: object, limit: int = _MAX_TEXT_CHARS) -> str:
    """Text in one line: marks that reorder or hide text are visible, and what is beyond `limit` is cut."""
    whole = str(value)
    return printable(whole[:limit]) + ("…" if len(whole) > limit else "")


def code(value: object) -> str:
    """JSON or text in several lines, as `text` shows it, cut at 20,000 characters."""
    whole = value if isinstance(value, str) else json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=False)
    shown = _CONTROLS.sub(lambda found: printable(found[0]), whole[:_MAX_CODE_CHARS])
    left = len(whole) - _MAX_CODE_CHARS
    return shown + (f"\n… {left:,} more characters" if left > 0 else "")


def cell(value: object) -> str:
    """A value in a table: text as it is, everything else as JSON, cut at 300 characters."""
    return text(value if isinstance(value, str) else json.dumps(to_jsonable_python(value), ensure_ascii=False), 300)


def short(value: str) -> str:
    """The end of an id, which tells it from others."""
    return f"…{value[-_SHORT_CHARS:]}" if len(value) > _SHORT_CHARS else value


def usd(value: float | None) -> str:
    """Money, with four significant digits below ten cents, and two below a hundredth of a cent."""
    if value is None:
        return "–"
    if 0 < abs(value) < _SMALL_USD:
        digits = 4 if abs(value) >= _TINY_USD else 2
        decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
        return f"${value:.{decimals}f}".rstrip("0")
    return f"${value:,.2f}"


def seconds(value: float | None) -> str:
    """A duration in its two largest units: `8.5 s`, `2 min 5 s`, `3 h 20 min`."""
    if value is None:
        return "–"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago a moment was, or when it will be."""
    if moment is None:
        return "–"
    passed = (now - moment).total_seconds()
    size = abs(passed)
    unit = 1.0
    for limit, name in _STEPS:
        if size < limit:
            words = f"{size / unit:.0f} {name}"
            break
        unit = limit
    else:
        words = f"{size / unit:.0f} d"
    return f"{words} ago" if passed >= 0 else f"in {words}"


def clock(moment: datetime) -> str:
    """The time of day with its zone."""
    return f"{moment.astimezone(UTC):%H:%M:%S} UTC"


def stamp(moment: datetime | None) -> str:
    """Date and time with their zone."""
    return "–" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def number(value: float | None) -> str:
    """A count with separators."""
    return "–" if value is None else f"{value:,}"


def percent(part: float, whole: float) -> float:
    """Part of a bar, in percent; 0 without a whole."""
    return round(100 * part / whole, 2) if whole else 0.0


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (text, code, cell, short, usd, seconds, ago, clock, stamp, number, percent)
}
"""Filters of templates, by name."""
