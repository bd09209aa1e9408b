"""Formats of durations, times, statuses and sizes."""

import re
from datetime import UTC, datetime

_MARKS = {
    ("✓", "green"): ("completed", "succeeded"),
    ("●", "blue"): ("working", "running", "ready"),
    ("○", "blue"): ("queued",),
    ("?", "magenta"): ("input_required",),
    ("■", "yellow"): ("cancelled", "stopped", "aborted"),
    ("✗", "red"): ("failed", "timed-out"),
}
STATUS_MARKS = {status: mark for mark, statuses in _MARKS.items() for status in statuses}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return `text` without control characters: output of a tool must not control the terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str | None) -> str:
    """Return `text` in one line; None is empty."""
    return " ".join(printable(text).split()) if text else ""


def styled_status(status: str) -> str:
    """Return the status of a task or run with its mark, as Rich markup."""
    mark, style = STATUS_MARKS.get(status.lower(), ("●", "default"))
    return f"[{style}]{mark} {status}[/]"


def duration(seconds: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 07 min`, `4 d 3 h`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def clock(seconds: float) -> str:
    """Format a running clock: `0:07`, `12:30`, `1:02:03`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Format an age in its largest unit: `just now`, `12 min ago`, `3 d ago`."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if seconds < 10:
        return "just now"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


def ahead(moment: datetime, now: datetime | None = None) -> str:
    """Format the time until a moment: `in 3 h 07 min`, or `over`."""
    seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    return f"in {duration(seconds)}" if seconds > 0 else "over"


def local_time(moment: datetime) -> str:
    """Format a time in the time zone of this machine."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def counted(number: int, noun: str) -> str:
    """Format a number of things: `1 row`, `3 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(size_bytes: float) -> str:
    """Format a size: `512 B`, `3.4 MB`, `12 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" or size_bytes >= 10 else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"
