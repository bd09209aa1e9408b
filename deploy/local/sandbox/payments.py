"""Payments that come with requests instead of a token: x402 (version 2, scheme `exact`) and Skyfire.

Real x402 networks sign with a wallet's key (EIP-3009). Here `from` is an Ed25519 public key: no chain is needed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from starlette.requests import Request

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.errors import ApiError
from outlast.deploy.local.sandbox.formats import JsonObject, now


@dataclass(frozen=True, slots=True)
class Payment:
    """Valid payment by `payer`. A payment with an id can be used once."""

    payer: str
    payment_id: str | None = None
    amount: str = "0"


Payer = Callable[[Request], Payment | None]
"""Type of `payment_of`."""
REQUIRED_HEADER = "payment-required"
SIGNATURE_HEADER = "payment-signature"
NETWORK = "outlast:sandbox"
_PAY_TO = "0x" + "5a" * 20
_ASSET = "0x" + "a5" * 20
_BASE: JsonObject = {
    "network": NETWORK,
    "amount": "1000000",
    "asset": _ASSET,
    "payTo": _PAY_TO,
    "maxTimeoutSeconds": 3600,
    "extra": {"name": "USD of the sandbox", "version": "2"},
}
ACCEPTS: list[JsonObject] = [{"scheme": "upto", **_BASE}, {"scheme": "exact", **_BASE}]
PROTOCOL_HEADER = "x-apify-payment-protocol"
PAY_ID_HEADER = "skyfire-pay-id"
_JWT_BEGINS = "ey"


def payment_of(request: Request) -> Payment | None:
    """Return the payment that a request carries, None for one that names an account. Raises `ApiError` 402."""
    protocol = request.headers.get(PROTOCOL_HEADER)
    if protocol is None:
        return None
    if protocol == "x402":
        return payment_in(request.headers.get(SIGNATURE_HEADER))
    if protocol == "skyfire":
        return _skyfire(request.headers.get(PAY_ID_HEADER, ""))
    raise ApiError(400, "unknown-payment-protocol", f"There is no payment protocol '{protocol}'")


def payment_in(signature: str | None) -> Payment:
    """Return the payment in a `PAYMENT-SIGNATURE` header. Raises `ApiError` 402 if it is missing or invalid."""
    if not signature:
        raise payment_required("Payment required")
    try:
        given = cast("JsonObject", json.loads(base64.b64decode(signature, validate=True)))
        accepted, payload = given["accepted"], given["payload"]
        authorization = cast("JsonObject", payload["authorization"])
        _check_terms(accepted, authorization)
        _check_signature(authorization, str(payload["signature"]))
    except (binascii.Error, ValueError, KeyError, TypeError, InvalidSignature) as error:
        raise payment_required("The payment is not valid") from error
    payer, nonce = str(authorization["from"]), str(authorization["nonce"])
    return Payment(payer, payment_id=f"{payer}/{nonce}", amount=str(authorization["value"]))


def payment_required(reason: str) -> ApiError:
    """Make the error 402 with the requirements in a header (x402's PaymentRequired object)."""
    requirements = {
        "x402Version": 2,
        "error": reason,
        "resource": {"url": "/v2", "description": "The API of the sandbox platform", "mimeType": "application/json"},
        "accepts": ACCEPTS,
    }
    encoded = base64.b64encode(json.dumps(requirements).encode()).decode()
    return ApiError(402, "x402-payment-required", reason, {REQUIRED_HEADER: encoded})


def signed_bytes(authorization: JsonObject) -> bytes:
    """Return the bytes that a payer signs."""
    return json.dumps(authorization, sort_keys=True, separators=(",", ":")).encode()


def _check_terms(accepted: JsonObject, authorization: JsonObject) -> None:
    if accepted not in ACCEPTS or accepted["scheme"] != "exact":
        raise ValueError("not one of the required terms")
    if authorization["to"] != accepted["payTo"] or int(authorization["value"]) < int(accepted["amount"]):
        raise ValueError("the amount is too low, or the payee is wrong")
    if not int(authorization["validAfter"]) <= now() < int(authorization["validBefore"]):
        raise ValueError("not valid now")


def _check_signature(authorization: JsonObject, signature: str) -> None:
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(authorization["from"])))
    key.verify(bytes.fromhex(signature), signed_bytes(authorization))


def _skyfire(pay_id: str) -> Payment:
    """Return the payment of a PAY token, which pays for any number of runs."""
    if not pay_id.startswith(_JWT_BEGINS):
        raise ApiError(402, "invalid-skyfire-token", "The Skyfire PAY token is not valid")
    return Payment(hashlib.sha256(pay_id.encode()).hexdigest())


class Settlements:
    """Table of payments by their ids."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def settle(self, payment: Payment, run_id: str) -> None:
        """Record the use of a payment. Raises `ApiError` 402 if it was used before."""
        if payment.payment_id is None:
            return
        try:
            self._database.run(
                "INSERT INTO settlements (payment_id, payer, amount, run_id) VALUES (?, ?, ?, ?)",
                (payment.payment_id, payment.payer, payment.amount, run_id),
            )
        except sqlite3.IntegrityError as error:
            raise payment_required("This payment was used already; sign another one") from error

    def all(self) -> list[JsonObject]:
        """Return every payment that was used."""
        rows = self._database.rows("SELECT payment_id, payer, amount, run_id FROM settlements")
        return [
            {"paymentId": row["payment_id"], "payer": row["payer"], "amount": row["amount"], "runId": row["run_id"]}
            for row in rows
        ]
