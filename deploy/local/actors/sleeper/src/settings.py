"""The sleeper's input, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

MAX_SECONDS = 86_400.0
MAX_STEPS = 10_000
MAX_ROWS = 10_000_000
MAX_ROW_BYTES = 8_000_000

NumberT = TypeVar("NumberT", int, float)


class InputError(ValueError):
    """Input of the run that breaks a rule, which the message names."""


@dataclass(frozen=True)
class Failure:
    """Failure of the run."""

    exit_code: int
    message: str


@dataclass(frozen=True)
class Settings:
    """Steps of the run: sleep, set `steps` status messages, push `rows` rows of `row_bytes` bytes, optionally fail."""

    seconds: float
    steps: int
    message: str
    failure: Failure | None
    rows: int
    row_bytes: int

    @classmethod
    def parse(cls, raw: object) -> "Settings":
        """Read the Actor's input; raises `InputError` on the first value out of its range."""
        fields = _as_mapping(raw, "the input")
        return cls(
            seconds=_number(fields, "seconds", 10.0, 0.0, MAX_SECONDS),
            steps=_number(fields, "steps", 10, 1, MAX_STEPS),
            message=_text(fields, "message", ""),
            failure=_failure(fields.get("failWith")),
            rows=_number(fields, "rows", 1, 0, MAX_ROWS),
            row_bytes=_number(fields, "rowBytes", 0, 0, MAX_ROW_BYTES),
        )


def _failure(raw: object) -> Failure | None:
    if raw is None:
        return None
    fields = _as_mapping(raw, "failWith")
    return Failure(
        exit_code=_number(fields, "exitCode", 1, 1, 255),
        message=_text(fields, "message", "Failed because the input asked for it."),
    )


def _as_mapping(raw: object, name: str) -> Mapping[str, object]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise InputError(f"{name} must be an object, not {type(raw).__name__}")
    return cast("Mapping[str, object]", raw)


def _number(fields: Mapping[str, object], name: str, default: NumberT, low: NumberT, high: NumberT) -> NumberT:
    """Return a number in `low..high`, of the type of its default; an absent or null field gives the default."""
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name} must be a number, not {type(value).__name__}")
    if isinstance(default, int) and value != int(value):
        raise InputError(f"{name} must be a whole number, not {value}")
    if not low <= value <= high:
        raise InputError(f"{name} must be between {low:g} and {high:g}, not {value:g}")
    return type(default)(value)


def _text(fields: Mapping[str, object], name: str, default: str) -> str:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, not {type(value).__name__}")
    return value
