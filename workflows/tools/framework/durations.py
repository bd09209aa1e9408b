"""Durations in words, for texts that people and models read."""

from datetime import timedelta

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def in_words(duration: timedelta) -> str:
    """The duration in whole units, the two largest at most: `7 days`, `1 hour 30 minutes`."""
    left = max(round(duration.total_seconds()), 1)
    words: list[str] = []
    for unit, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if count:
            words.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(words[:2])
