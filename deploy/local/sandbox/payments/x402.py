"""x402 (version 2, scheme `exact`) on a network of the sandbox's own: requirements, and whether a payment meets them.

Real networks sign with a wallet's key (EIP-3009). Here `from` is an Ed25519 public key, so that signatures are as hard
to forge, and no chain is needed.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from outlast.deploy.local.sandbox.http.errors import ApiError
from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.payments.contracts import Payment
from outlast.deploy.local.sandbox.times_and_ids import now

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


def requirements(error: str) -> JsonObject:
    """The PaymentRequired object, with the reason why there is no payment yet."""
    return {
        "x402Version": 2,
        "error": error,
        "resource": {"url": "/v2", "description": "The API of the sandbox platform", "mimeType": "application/json"},
        "accepts": ACCEPTS,
    }


def payment_required(reason: str) -> ApiError:
    """402: the requirements are in a header, as x402 has them."""
    encoded = base64.b64encode(json.dumps(requirements(reason)).encode()).decode()
    return ApiError(402, "x402-payment-required", reason, {REQUIRED_HEADER: encoded})


def payment_in(signature: str | None) -> Payment:
    """The payment in a `PAYMENT-SIGNATURE` header. Raises `ApiError` 402 for none, and for one that does not hold."""
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


def signed_bytes(authorization: JsonObject) -> bytes:
    """What a payer signs."""
    return json.dumps(authorization, sort_keys=True, separators=(",", ":")).encode()


def _check_terms(accepted: JsonObject, authorization: JsonObject) -> None:
    if accepted not in ACCEPTS or accepted["scheme"] != "exact":
        raise ValueError("other terms were asked for")
    if authorization["to"] != accepted["payTo"] or int(authorization["value"]) < int(accepted["amount"]):
        raise ValueError("too little, or to somebody else")
    if not int(authorization["validAfter"]) <= now() < int(authorization["validBefore"]):
        raise ValueError("not valid now")


def _check_signature(authorization: JsonObject, signature: str) -> None:
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(authorization["from"])))
    key.verify(bytes.fromhex(signature), signed_bytes(authorization))
