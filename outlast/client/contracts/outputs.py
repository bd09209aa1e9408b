"""Stored outputs, and which part of one is wanted."""

from dataclasses import dataclass
from datetime import datetime

from outlast.client.contracts.base import Response


class StoredOutput(Response):
    """Description of a stored output. Sizes are in bytes."""

    locator: str
    kind: str
    content_type: str
    size_bytes: int
    stored_bytes: int
    count: int | None = None
    digest: str
    created_at: datetime
    expires_at: datetime
    summary: str = ""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Which rows of an output are wanted, and what of each.

    `offset` counts rows from 0; `limit` is how many at most; `fields` are dot paths; `where` and `query` are JMESPath
    expressions. `query` also works on an output that is one JSON value.
    """

    offset: int = 0
    limit: int | None = None
    fields: tuple[str, ...] = ()
    where: str | None = None
    query: str | None = None

    @property
    def evaluates(self) -> bool:
        """Whether an expression decides, so that a row of the answer has no known place in the output."""
        return bool(self.where or self.query)
