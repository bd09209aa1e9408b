"""Runs that the workflows of a restored system do not know of: started after the backup was made."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

_LONGEST_TASK = timedelta(days=31)
"""A task that was open when the backup was made has ended by then: a deadline is at most 30 days away."""


@dataclass(frozen=True, slots=True)
class RestoredInterval:
    """From the moment of the backup until the restored system began its work; another one went on meanwhile."""

    began: datetime
    ended: datetime

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `FROM/UNTIL`, both ISO 8601 with an offset. Raises `ValueError`."""
        began, separator, ended = (part.strip() for part in text.partition("/"))
        if not separator:
            raise ValueError("takes FROM/UNTIL, both in ISO 8601")
        interval = cls(datetime.fromisoformat(began), datetime.fromisoformat(ended))
        if interval.began.tzinfo is None or interval.ended.tzinfo is None:
            raise ValueError("takes times with an offset, such as 2026-11-22T10:00:00Z")
        if interval.ended < interval.began:
            raise ValueError("takes FROM/UNTIL; UNTIL is the later one")
        return interval

    def matters_at(self, moment: datetime) -> bool:
        """Whether a task that was open at the backup may still be open."""
        return moment < self.ended + _LONGEST_TASK
