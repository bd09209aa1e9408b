"""Changes one table of a TOML text, and no other line."""

import re
import tomllib
from typing import cast

from pydantic import JsonValue

_HEADER = re.compile(r"\s*\[")


class NotToml(Exception):
    """The text is not TOML. The message is the position of the error."""


def parsed(text: str) -> JsonValue:
    """Return the tables of the text. Raises `NotToml`."""
    try:
        return cast(JsonValue, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at (line \d+, column \d+|end of document)", str(error))
        # No part of the text: it can contain secrets.
        raise NotToml(place[1] if place else "somewhere") from None


def dumped(path: tuple[str, str], value: dict[str, JsonValue]) -> str:
    """Return the lines of the table at `path`."""
    import tomlkit  # noqa: PLC0415 (20 ms)

    return tomlkit.dumps({path[0]: {path[1]: value}}).removeprefix(f"[{path[0]}]\n")


def with_table(text: str, path: tuple[str, str], value: dict[str, JsonValue]) -> str:
    """Return the text with `value` as the table at `path`: in its old place, otherwise at the end."""
    kept, at = _without(text, path)
    lines = dumped(path, value)
    if at is not None:
        return f"{kept[:at]}{lines}{kept[at:]}"
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{lines}"


def without_table(text: str, path: tuple[str, str]) -> str:
    """Return the text without the table at `path`."""
    kept, at = _without(text, path)
    return kept if at is None else kept[:at].rstrip("\n") + "\n" * bool(kept[:at].strip()) + kept[at:]


def _without(text: str, path: tuple[str, str]) -> tuple[str, int | None]:
    """Return the text without the lines of the table and its subtables, and their position."""
    names = r"\s*\.\s*".join(rf"""["']?{re.escape(name)}["']?""" for name in path)
    kept: list[str] = []
    taken: list[str] = []
    at: int | None = None
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            is_taken = re.match(rf"\s*\[\s*{names}\s*(\.[^\]]*)?\]", line) is not None
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
    """Return the comments and empty lines at the end, which belong to the next table."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return lines[end:]
