"""Durations on the command line: `90`, `90s`, `10m`, `2h`, `1d`."""

import re

import typer

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> float:
    """Seconds. Raises `typer.BadParameter`."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration; write seconds, or 90s, 10m, 2h, 1d.")
    return float(match[1]) * _SECONDS[match[2]]
