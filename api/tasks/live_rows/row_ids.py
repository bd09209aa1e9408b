"""The id of a row: where it is kept, and its number there. It says for ever which rows come after it."""

import re
from dataclasses import dataclass
from typing import Self

from outlast.api.errors import BadRequest

STORED = "output"
"""Stands for the task's stored output, where it has no dataset."""
_ID = re.compile(r"(?:([A-Za-z0-9_~-]{1,100})\.)?(\d{1,12})", re.ASCII)


@dataclass(frozen=True)
class RowPlace:
    """A place after `number` rows of a dataset; of all rows of the task where `source` is None."""

    source: str | None = None
    number: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """The place that an id, or a number of rows, stands for; the beginning for None. Raises `BadRequest`."""
        if not text:
            return cls()
        found = _ID.fullmatch(text)
        if found is None:
            raise unknown_row(text)
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.source}.{self.number}"


def unknown_row(text: str) -> BadRequest:
    """The error for a place that no stream of this task has told."""
    return BadRequest(
        f"{text[:50]!r} is not the id of a row of this task: pass the id of the last row received, the number of rows "
        "received so far, or nothing."
    )
