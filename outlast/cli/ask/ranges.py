"""Ranges of rows or bytes, typed as `FROM:TO`."""

from dataclasses import dataclass

from outlast.cli.errors import BadInput


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` up to `end`, which is excluded; None means to the last one."""

    start: int
    end: int | None


def parse_span(text: str, option: str) -> Span:
    """Parse the `FROM:TO` of `option`. Raises `BadInput`."""
    start, colon, end = text.partition(":")
    if not colon or not all(part.isdecimal() or not part for part in (start, end)):
        raise BadInput(f"{option} takes FROM:TO, not {text!r}.", hint=f"For example `{option} 100:200`")
    span = Span(int(start or 0), int(end) if end else None)
    if span.end is not None and span.end <= span.start:
        raise BadInput(f"{option} {text} is empty.", hint="TO is the first one that is not included.")
    return span
