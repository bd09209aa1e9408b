"""Stored outputs: what a request may select."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from outlast.activities.bounds import MAX_COUNT


class OutputSelection(BaseModel):
    """Part of an output to return; all of it by default."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    offset: int = Field(default=0, ge=0, le=MAX_COUNT, description="First row to return, counted from 0.")
    limit: int | None = Field(default=None, ge=1, le=MAX_COUNT, description="Maximum number of rows to return.")
    fields: str | None = Field(
        default=None, max_length=2_000, description="Fields to return of each row: comma-separated dot paths."
    )
    where: str | None = Field(
        default=None,
        alias="filter",
        max_length=1_000,
        description="JMESPath expression; only rows for which it is true are returned.",
    )
    query: str | None = Field(
        default=None,
        max_length=1_000,
        description="JMESPath expression whose value replaces each row, or the JSON value.",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """`fields` as a tuple."""
        return tuple(name.strip() for name in (self.fields or "").split(",") if name.strip())

    @property
    def evaluates(self) -> bool:
        """True if it has a JMESPath expression."""
        return bool(self.where or self.query)

    @property
    def selects(self) -> bool:
        """True if it selects a part of the output."""
        return self.evaluates or bool(self.offset or self.names) or self.limit is not None


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Selects rows of an output, and parts of each.

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
        """True if an expression selects rows, so that their positions in the output are unknown."""
        return bool(self.where or self.query)
