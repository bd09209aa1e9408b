"""Changes one table of a TOML text, and leaves every other line of it as it is."""

import re
import tomllib
from typing import cast

from pydantic import JsonValue

_HEADER = re.compile(r"\s*\[")


class NotToml(Exception):
    """The text is no TOML. The message says where."""


def parsed(text: str) -> JsonValue:
    """The tables of the text. Raises `NotToml`."""
    try:
        return cast(JsonValue, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at (line \d+, column \d+|end of document)", str(error))
        # Nothing of the text itself: it may be somebody's secret.
        raise NotToml(place[1] if place else "somewhere") from None


def dumped(path: tuple[str, str], value: dict[str, JsonValue]) -> str:
    """The lines of the table at `path`."""
    import tomlkit  # noqa: PLC0415 (20 ms that other commands need not take)

    return tomlkit.dumps({path[0]: {path[1]: value}}).removeprefix(f"[{path[0]}]\n")


def with_table(text: str, path: tuple[str, str], value: dict[str, JsonValue]) -> str:
    """The text with `value` as the table at `path`, where it stood, else at the end."""
    kept, at = _without(text, path)
    lines = dumped(path, value)
    if at is not None:
        return f"{kept[:at]}{lines}{kept[at:]}"
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{lines}"


def without_table(text: str, path: tuple[str, str]) -> str:
    """The text without the table at `path`."""
    kept, at = _without(text, path)
    return kept if at is None else kept[:at].rstrip("\n") + "\n" * bool(kept[:at].strip()) + kept[at:]


def _without(text: str, path: tuple[str, str]) -> tuple[str, int | None]:
    """The text without the lines of the table and of those within it, and where they began."""
    kept: list[str] = []
    taken: list[str] = []
    at: int | None = None
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            is_taken = _is_header_of(line, path)
            if not is_taken:
                kept += _belongs_to_next(taken)
            elif at is None:
                at = sum(map(len, kept))
            taken = [line] if is_taken else []
            kept += [] if is_taken else [line]
        else:
            (taken or kept).append(line)
    return "".join(kept + _belongs_to_next(taken)), at


def _belongs_to_next(lines: list[str]) -> list[str]:
    """The comments and empty lines at the end, which stand above the next table."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return lines[end:]


def _is_header_of(line: str, path: tuple[str, str]) -> bool:
    names = r"\s*\.\s*".join(rf"""["']?{re.escape(name)}["']?""" for name in path)
    return re.match(rf"\s*\[\s*{names}\s*(\.[^\]]*)?\]", line) is not None
