"""Whose request it is when a payment comes with it instead of a token."""

from __future__ import annotations

import hashlib

from starlette.requests import Request

from outlast.deploy.local.sandbox.http.errors import ApiError
from outlast.deploy.local.sandbox.payments.contracts import Payment
from outlast.deploy.local.sandbox.payments.x402 import SIGNATURE_HEADER, payment_in

PROTOCOL_HEADER = "x-apify-payment-protocol"
PAY_ID_HEADER = "skyfire-pay-id"
_JWT_BEGINS = "ey"


def payment_of(request: Request) -> Payment | None:
    """The payment that a request carries; None for one that names an account. Raises `ApiError` 402."""
    protocol = request.headers.get(PROTOCOL_HEADER)
    if protocol is None:
        return None
    if protocol == "x402":
        return payment_in(request.headers.get(SIGNATURE_HEADER))
    if protocol == "skyfire":
        return _skyfire(request.headers.get(PAY_ID_HEADER, ""))
    raise ApiError(400, "unknown-payment-protocol", f"There is no payment protocol '{protocol}'")


def _skyfire(pay_id: str) -> Payment:
    """A PAY token pays for as many runs as its owner likes."""
    if not pay_id.startswith(_JWT_BEGINS):
        raise ApiError(402, "invalid-skyfire-token", "The Skyfire PAY token is not valid")
    return Payment(hashlib.sha256(pay_id.encode()).hexdigest())
