"""Time and identifiers as the platform writes them."""

import hashlib
import secrets
import string
import time
from datetime import UTC, datetime

_ALPHABET = string.ascii_letters + string.digits
_ID_LENGTH = 17


def now() -> float:
    """Seconds since the epoch, truncated to milliseconds so that the API shows exactly what is stored."""
    return time.time_ns() // 1_000_000 / 1000


def iso(timestamp: float) -> str:
    """An ISO 8601 timestamp in UTC with milliseconds and `Z`, the only form that the platform writes."""
    seconds, milliseconds = divmod(round(timestamp * 1000), 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds:03d}Z"


def iso_or_none(timestamp: float | None) -> str | None:
    """Like `iso`; None for None."""
    return None if timestamp is None else iso(timestamp)


def parse_iso(text: str) -> float:
    """The inverse of `iso`; also takes other ISO 8601 forms. Raises ValueError for anything else."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def new_id() -> str:
    """A random id of 17 letters and digits, as on the platform."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


def derived_id(*parts: str) -> str:
    """An ID in the form of `new_id`, derived from `parts`: the same parts give the same ID."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    digits: list[str] = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
