"""A client's wallet for the sandbox platform's network: signs payments as x402 (version 2, `exact`) has them."""

import base64
import json
import secrets
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from outlast.deploy.local.sandbox.accounts import ACCEPTS, signed_bytes

TERMS = next(entry for entry in ACCEPTS if entry["scheme"] == "exact")
_NEVER = 4_102_444_800


class Wallet:
    """One payer. Each payment is a new one."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.payer = self._key.public_key().public_bytes_raw().hex()

    def payment(self, **changed: Any) -> dict[str, Any]:
        """A PaymentPayload; `changed` are other values of the authorization, which are signed, too."""
        authorization = {
            "from": self.payer,
            "to": TERMS["payTo"],
            "value": TERMS["amount"],
            "validAfter": "0",
            "validBefore": str(_NEVER),
            "nonce": f"0x{secrets.token_hex(32)}",
            **changed,
        }
        signature = self._key.sign(signed_bytes(authorization)).hex()
        return {
            "x402Version": 2,
            "accepted": TERMS,
            "payload": {"signature": signature, "authorization": authorization},
        }


def header_of(payment: dict[str, Any]) -> str:
    """A payment as the value of the header `PAYMENT-SIGNATURE`."""
    return base64.b64encode(json.dumps(payment, separators=(",", ":")).encode()).decode()
