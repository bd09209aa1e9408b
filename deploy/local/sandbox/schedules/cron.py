"""Cron expressions in a time zone: whether one is valid, and when it comes due."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from outlast.deploy.local.sandbox.http.errors import ApiError

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = 5


def next_time(expression: str, timezone: str, after: float) -> float | None:
    """The first time after `after` (seconds since the epoch); None when it never comes. Raises `ApiError` 400."""
    written = _ALIASES.get(expression.strip().lower(), expression.strip())
    if len(written.split()) != _FIELDS:
        raise ApiError(400, "invalid-value", "A cron expression has five fields: minute hour day month weekday")
    start = datetime.fromtimestamp(after, UTC).astimezone(_zone(timezone))
    try:
        return next(CronSim(written, start)).timestamp()
    except CronSimError as error:
        raise ApiError(400, "invalid-value", f"The cron expression is not valid: {error}") from error
    except StopIteration:
        return None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError) as error:
        raise ApiError(400, "invalid-value", f"There is no time zone '{name}'") from error
