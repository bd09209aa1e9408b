"""Rows of `outlast doctor` and of `GET /v1/health`: what is well, what is not, and the remedy."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """The state of a part."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Check:
    """A finding, and its remedy."""

    name: str
    health: Health
    finding: str
    advice: str | None = None


def ok(name: str, finding: str) -> Check:
    """Return a check without problems."""
    return Check(name, Health.OK, finding)


def warn(name: str, finding: str, advice: str) -> Check:
    """Return a check of a part that works with a limitation."""
    return Check(name, Health.WARN, finding, advice)


def fail(name: str, finding: str, advice: str) -> Check:
    """Return a check of a part that does not work."""
    return Check(name, Health.FAIL, finding, advice)


def skip(name: str, finding: str) -> Check:
    """Return a check that was not made, with the reason."""
    return Check(name, Health.SKIP, finding)
