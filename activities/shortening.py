"""Cutting long values of a row, so that a preview shows what rows are like instead of one row's text."""

from pydantic import JsonValue

_SHOWN_ENTRIES = 3


def shortened(value: JsonValue, max_chars: int) -> JsonValue:
    """`value` with texts of at most `max_chars` and lists of three entries; says what was left out."""
    if isinstance(value, str) and len(value) > max_chars:
        return f"{value[:max_chars]}… ({len(value)} characters)"
    if isinstance(value, list):
        shown = [shortened(part, max_chars) for part in value[:_SHOWN_ENTRIES]]
        left_out = len(value) - len(shown)
        return [*shown, f"… ({left_out} more)"] if left_out else shown
    if isinstance(value, dict):
        return {name: shortened(part, max_chars) for name, part in value.items()}
    return value
