"""The big table's input, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from .rows import PROFILES

DEFAULT_ROWS = 1_000
MAX_ROWS = 1_000_000_000
MAX_TARGET_BYTES = 1_000_000_000_000
MAX_SEED = 2**53 - 1


class InputError(ValueError):
    """Input of the run that breaks a rule, which the message names."""


@dataclass(frozen=True)
class Settings:
    """Table to make: it ends at `rows` or with the row that reaches `target_bytes`, whichever comes first."""

    rows: int | None
    target_bytes: int | None
    seed: int
    profile: str

    @classmethod
    def parse(cls, raw: object) -> "Settings":
        """Read the Actor's input; raises `InputError` on the first value out of its range."""
        fields = _as_mapping(raw)
        rows = _integer(fields, "rows", 0, MAX_ROWS)
        target_bytes = _integer(fields, "targetBytes", 1, MAX_TARGET_BYTES)
        seed = _integer(fields, "seed", 0, MAX_SEED)
        return cls(
            rows=DEFAULT_ROWS if rows is None and target_bytes is None else rows,
            target_bytes=target_bytes,
            seed=1 if seed is None else seed,
            profile=_profile(fields),
        )


def _profile(fields: Mapping[str, object]) -> str:
    profile = fields.get("columns")
    if profile is None:
        return "standard"
    if profile not in PROFILES:
        raise InputError(f"columns must be one of {', '.join(PROFILES)}, not {profile!r}")
    return str(profile)


def _as_mapping(raw: object) -> Mapping[str, object]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise InputError(f"the input must be an object, not {type(raw).__name__}")
    return cast("Mapping[str, object]", raw)


def _integer(fields: Mapping[str, object], name: str, low: int, high: int) -> int | None:
    """Return a whole number in `low..high`, None if the field is absent or null."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise InputError(f"{name} must be a whole number, not {value!r}")
    if not low <= value <= high:
        raise InputError(f"{name} must be between {low} and {high}, not {value:g}")
    return int(value)
