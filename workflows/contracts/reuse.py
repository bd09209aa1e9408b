"""Contract of reuse: which earlier task may answer a call."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from outlast.activities.contracts import Contract

MAX_AGE = timedelta(days=30)
"""The oldest answer that may be reused."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def age_of(text: str) -> timedelta:
    """`90s`, `10m`, `6h` or `7d` as a duration."""
    return timedelta(**{_UNITS[text[-1]]: int(text[:-1])})


def same_task_id(digest: str, number: int) -> str:
    """The id of a task that equal calls share: the first one of their digest, or the one that follows it."""
    return f"same-{digest}-{number}"


def same_task_number(task_id: str) -> int:
    """Which one of its digest the task is."""
    return int(task_id.rpartition("-")[2])


def _as_text(value: object) -> object:
    """Seconds as a number are seconds."""
    return f"{value}s" if isinstance(value, int) and not isinstance(value, bool) else value


def _checked(text: str) -> str:
    if not timedelta(0) < age_of(text) <= MAX_AGE:
        raise ValueError(f"an age is longer than zero and at most {MAX_AGE.days}d")
    return text


Age = Annotated[
    str, BeforeValidator(_as_text), Field(max_length=8, pattern=r"^[0-9]{1,7}[smhd]$"), AfterValidator(_checked)
]
"""How old an answer may be: `90s`, `10m`, `6h`, `7d`, or seconds as a number; at most `30d`."""


class Reuse(Contract):
    """Whether a call may be answered by an equal one of the same caller."""

    max_age: Age | None = Field(
        default=None,
        description="An equal call that runs, or was answered not longer ago than this (`90s`, `10m`, `6h`, `7d`), "
        "answers this one.",
    )
    refresh: bool = Field(
        default=False, description="Start the call in any case; later equal calls may be answered by it."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.max_age is None and not self.refresh:
            raise ValueError("say `max_age`, or `refresh`")
        return self
