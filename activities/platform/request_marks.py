"""Marks in requests to the platform: the operation, the owner of a run, and the payment. The User-Agent of a start has
the operation, which finds a lost run, and the owner; the platform stores it as `run.meta.userAgent`. The owner is a
keyed digest, which no caller can read or forge.
"""

import hashlib
import hmac
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pydantic import SecretStr

from outlast.activities.secrets import SecretSealer

OPERATION_MARKER = "outlast-op/"
"""Prefix of the User-Agent part that names the operation a run was started for."""
_OWNER_MARKER = "outlast-by/"
_PURPOSE = "owners of runs"
_DIGEST_CHARS = 32
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
    run. `owner` is a mark of `RunOwners`. The requests also carry `payment`, the id of a Skyfire token that pays
    instead of the account.
    """
    token = _mark.set(RequestMark(operation_id, owner, payment))
    try:
        yield
    finally:
        _mark.reset(token)


def current_mark() -> RequestMark | None:
    """Return the marks of the innermost `marked_as` around the caller; None outside of all."""
    return _mark.get()


class RunOwners:
    """Writes and reads the marks of callers, under keys that are derived from the ring of encrypting keys."""

    def __init__(self, sealer: SecretSealer) -> None:
        self._keys = tuple(sealer.derived_keys(_PURPOSE).values())

    def mark(self, caller_id: str) -> str:
        """Return the part of a User-Agent that names the caller."""
        return _owner_mark(self._keys[0], caller_id)

    def is_of(self, user_agent: str | None, caller_id: str) -> bool:
        """Return True if a run that was started with this User-Agent is the caller's."""
        parts = set((user_agent or "").replace(";", " ").split())
        return any(_owner_mark(key, caller_id) in parts for key in self._keys)


def _owner_mark(key: bytes, caller_id: str) -> str:
    digest = hmac.new(key, caller_id.encode(), hashlib.sha256).hexdigest()
    return f"{_OWNER_MARKER}{digest[:_DIGEST_CHARS]}"
