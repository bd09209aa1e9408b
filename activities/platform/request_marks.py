"""Marks in requests to the platform, by which a run can be found again, and the account that pays for it."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pydantic import SecretStr

OPERATION_MARKER = "outlast-op/"
"""Prefix of the User-Agent part that names the operation a run was started for."""
PAYMENT_HEADER = "skyfire-pay-id"
PROTOCOL_HEADER = "x-apify-payment-protocol"
SIGNATURE_HEADERS = {"skyfire": PAYMENT_HEADER, "x402": "PAYMENT-SIGNATURE"}
"""The header of each payment protocol."""


@dataclass(frozen=True)
class RequestMark:
    """For which operation, and for whose account or token, a request is made."""

    operation_id: str
    owner: str
    payment: SecretStr | None


_mark: ContextVar[RequestMark | None] = ContextVar("outlast_operation", default=None)


@contextmanager
def marked_as(operation_id: str, *, owner: str, payment: SecretStr | None = None) -> Generator[None]:
    """Name operation and owner in the User-Agent of the requests made inside the block; the platform stores it with a
    run.

    `owner` is a mark of `RunOwners`. The requests also carry `payment`, the id of a Skyfire token that pays instead of
    the account.
    """
    token = _mark.set(RequestMark(operation_id, owner, payment))
    try:
        yield
    finally:
        _mark.reset(token)


def current_mark() -> RequestMark | None:
    """The marks of the innermost `marked_as` around the caller; None outside of all."""
    return _mark.get()
