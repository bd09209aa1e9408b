"""Durations (`90`, `90s`, `10m`, `2h`, `1d`) and amounts of money on the command line."""

import re
from decimal import Decimal, InvalidOperation

import typer

from outlast.activities.bounds import MAX_SECONDS, MAX_USD, USD_DECIMALS, is_usd

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_USD = re.compile(r"\d{0,10}(?:\.\d{1,40})?", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds. Raises `typer.BadParameter`."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration; write seconds, or 90s, 10m, 2h, 1d.")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > MAX_SECONDS:
        raise typer.BadParameter(f"{text[:40]!r} is longer than {MAX_SECONDS} seconds.")
    return seconds


def parse_usd(text: str) -> float:
    """US dollars. Raises `typer.BadParameter`."""
    written = text.strip()
    try:
        amount = Decimal(written) if _USD.fullmatch(written) else None
    except InvalidOperation:
        amount = None
    if amount is None or not is_usd(amount):
        raise typer.BadParameter(
            f"{text[:40]!r} is not an amount of US dollars; write a decimal number above 0, at most {MAX_USD}, with at "
            f"most {USD_DECIMALS} decimal places."
        )
    return float(amount)
