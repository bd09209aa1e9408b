"""One thing that was looked at."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Check:
    """A finding, and what to do about it."""

    name: str
    health: Health
    finding: str
    advice: str | None = None


def ok(name: str, finding: str) -> Check:
    """All is well."""
    return Check(name, Health.OK, finding)


def warn(name: str, finding: str, advice: str) -> Check:
    """It works, but not as it should."""
    return Check(name, Health.WARN, finding, advice)


def fail(name: str, finding: str, advice: str) -> Check:
    """It does not work."""
    return Check(name, Health.FAIL, finding, advice)


def skip(name: str, finding: str) -> Check:
    """It was not looked at, for this reason."""
    return Check(name, Health.SKIP, finding)
