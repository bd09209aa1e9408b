"""`python -m tests.support.option_tables`: the tables of docs/call-options.md, from the declared options.

`make docs` runs it, and a test compares.
"""

import re
from collections.abc import Mapping

from outlast.contracts import options as declared
from outlast.contracts.options import Option, options_of
from tests.support.paths import DOCS

PAGE = DOCS / "call-options.md"
_BEGIN = "<!-- from outlast/contracts/options.py: make docs -->"
_END = "<!-- end of what is from options.py -->"
_BETWEEN = re.compile(f"{re.escape(_BEGIN)}\n.*?{re.escape(_END)}", re.DOTALL)
Rows = Mapping[str, Option]


def tables() -> tuple[str, ...]:
    """The tables in the order of the page: calls, batches, schedules, resurrections."""
    calls, batches = options_of(declared.CallOptions), options_of(declared.BatchOptions)
    own = {name: option for name, option in batches.items() if calls.get(name) != option}
    return (
        _calls(calls),
        _table(own),
        _table(options_of(declared.ScheduleOptions)),
        _table(options_of(declared.ResurrectOptions)),
    )


def rewritten(page: str) -> str:
    """The page with these tables. Raises `ValueError` unless it has a place for each."""
    found = iter(tables())
    if len(_BETWEEN.findall(page)) != len(tables()):
        raise ValueError(f"{len(tables())} tables must stand between {_BEGIN} and {_END}")
    return _BETWEEN.sub(lambda _: f"{_BEGIN}\n\n{next(found)}\n\n{_END}", page)


def _calls(rows: Rows) -> str:
    saved, batches = options_of(declared.SavedCallOptions), options_of(declared.BatchOptions)
    lines = [["option", "REST", "command line", "saved calls", "batches", "models", "meaning"]]
    for name, option in rows.items():
        places = (name in saved, batches.get(name) == option, option.for_models)
        lines.append([*_names(name, option), *("yes" if there else "" for there in places), _meaning(option)])
    return _markdown(lines)


def _table(rows: Rows) -> str:
    lines = [[*_names(name, option), _meaning(option)] for name, option in rows.items()]
    return _markdown([["option", "REST", "command line", "meaning"], *lines])


def _markdown(lines: list[list[str]]) -> str:
    """The lines as a table, without columns that are empty below their heading."""
    filled = [column for column in zip(*lines, strict=True) if any(column[1:])]
    heading, *body = (_row(*cells) for cells in zip(*filled, strict=True))
    return "\n".join([heading, "|---" * len(filled) + "|", *body])


def _names(name: str, option: Option) -> tuple[str, str, str]:
    """Its name; its place in the body of REST requests, empty if that is its name; its flag."""
    flag = f"`{option.flag} {option.metavar}`" if option.flag and option.metavar else f"`{option.flag}`"
    place = "" if option.wire in (None, name) else f"`{option.wire}`"
    header = "header `Idempotency-Key`" if name == "idempotency_key" else ""
    return f"`{name}`", place or header, flag if option.flag else ""


def _meaning(option: Option) -> str:
    least, most = (None if bound is None else f"{bound:,}" for bound in (option.min, option.max))
    if least and most:
        return f"{option.help} From {least} to {most}."
    return f"{option.help} At least {least}." if least and option.min else option.help


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
