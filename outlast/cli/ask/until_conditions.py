"""`--until` of the command line: when a run has produced enough."""

from collections.abc import Sequence

from pydantic import JsonValue

from outlast.cli.errors import BadInput

UNTIL_HELP = (
    "Stop the run gracefully when it has enough: rows=100, usd=0.5, expression='JMESPath over a row', with matches=10 "
    "rows that match. Repeatable: the first that is met counts."
)
_WHOLE = frozenset({"rows", "matches"})
_CONDITIONS = ("rows", "expression", "matches", "usd")


def until_of(texts: Sequence[str]) -> dict[str, JsonValue] | None:
    """The conditions as the API takes them; None without any. Raises `BadInput`."""
    found: dict[str, JsonValue] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if name not in _CONDITIONS or not separator or not value:
            raise BadInput(
                f"--until takes rows=, expression=, matches= or usd=, not {text!r}.",
                hint="An example: --until rows=100",
            )
        found[name] = _number(name, value) if name != "expression" else value
    return found or None


def _number(name: str, text: str) -> JsonValue:
    try:
        return int(text) if name in _WHOLE else str(float(text))
    except ValueError:
        raise BadInput(f"--until {name}={text}: that is no number.") from None
