"""Numbers and durations in words, for people."""


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


def counted(number: int, noun: str) -> str:
    """Format a number of things: `1 row`, `3 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
