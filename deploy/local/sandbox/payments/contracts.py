"""Payments that come with a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment that holds. One with an id is taken once; `payer` is whose money it is."""

    payer: str
    payment_id: str | None = None
    amount: str = "0"


Payer = Callable[[Request], Payment | None]
"""The payment that a request carries; None for one that names an account. Raises `ApiError` 402."""
