"""Accounts: users, their tokens and those of their runs (stored as digests), limits, and payers without an account.

Payments come with requests instead of a token: x402 (version 2, scheme `exact`) and Skyfire. Real x402 networks sign
with a wallet's key (EIP-3009); here `from` is an Ed25519 public key: no chain is needed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from starlette.requests import Request

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, derived_id, invalid_parameter, now
from outlast.deploy.local.sandbox.runs import Run


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


MEMORY_CHOICES_MBYTES = tuple(2**power for power in range(7, 16))


@dataclass(frozen=True, slots=True)
class User:
    """Account of a caller. `run_id` is set for an Actor with its run's token, `payment` for a request that pays."""

    id: str
    username: str
    created_at: float
    run_id: str | None = None
    payment: Payment | None = None


class Users:
    """Table of all accounts."""

    def __init__(self, database: Database, payer_of: Payer) -> None:
        self._database = database
        self._payer_of = payer_of
        self._by_digest: dict[str, User] = {}
        self._tiers: dict[str, str] = {}

    def tier(self, user_id: str) -> str:
        """Return the tier of a user's plan."""
        return self._tiers.get(user_id, "FREE")

    def set_tier(self, user_id: str, tier: str) -> None:
        """Set the tier of a user's plan until the sandbox ends."""
        self._tiers[user_id] = tier

    def add(self, username: str, token: str) -> User:
        """Create the user unless it exists, and make this token valid for it."""
        with self._database.transaction():
            user = self._created(username)
            self.add_token(token, user.id, None)
        return user

    def add_token(self, token: str, user_id: str, run_id: str | None) -> None:
        """Make a token valid for a user. A run's token stays valid until `drop_run_token`."""
        # The token may be cached for another user.
        self._by_digest.pop(_digest(token), None)
        self._database.run(
            "INSERT OR REPLACE INTO tokens (digest, user_id, run_id) VALUES (?, ?, ?)",
            (_digest(token), user_id, run_id),
        )

    def drop_run_token(self, run_id: str) -> None:
        """Make the token of an ended run invalid."""
        self._database.run("DELETE FROM tokens WHERE run_id = ?", (run_id,))
        self._by_digest = {digest: user for digest, user in self._by_digest.items() if user.run_id != run_id}

    def get(self, user_id: str) -> User | None:
        """Return a user by id."""
        row = self._database.row("SELECT id, username, created_at FROM users WHERE id = ?", (user_id,))
        return None if row is None else User(row["id"], row["username"], row["created_at"])

    def caller(self, request: Request) -> User:
        """Return the user whose token the request carries, or who pays for it. Raises `ApiError` 401 or 402."""
        payment = self._payer_of(request)
        if payment is not None:
            return self._created(f"payer-{payment.payer[:16]}", payment)
        token = _token_of(request)
        if token is None:
            raise ApiError(401, "token-not-provided", "Authentication token was not provided")
        user = self._find(_digest(token))
        if user is None:
            raise ApiError(401, "user-or-token-not-found", "User was not found or authentication token is not valid")
        return user

    def caller_or_none(self, request: Request) -> User | None:
        """Return the caller, None for an anonymous request. Raises `ApiError` 401 for an invalid token."""
        return None if _token_of(request) is None and self._payer_of(request) is None else self.caller(request)

    def _created(self, username: str, payment: Payment | None = None) -> User:
        user = User(derived_id("user", username), username, now(), payment=payment)
        self._database.run(
            "INSERT OR IGNORE INTO users (id, username, created_at) VALUES (?, ?, ?)",
            (user.id, username, user.created_at),
        )
        return user

    def _find(self, digest: str) -> User | None:
        if digest not in self._by_digest:
            row = self._database.row(
                "SELECT users.id, username, created_at, run_id FROM tokens JOIN users ON users.id = tokens.user_id"
                " WHERE digest = ?",
                (digest,),
            )
            if row is None:
                return None
            self._by_digest[digest] = User(row["id"], row["username"], row["created_at"], row["run_id"])
        return self._by_digest[digest]


@dataclass(slots=True)
class Limits:
    """Limits of every user. The control API can change them while the sandbox runs."""

    memory_mbytes: int
    concurrent_runs: int

    def check(self, open_runs: Iterable[Run], user_id: str, memory_mbytes: int) -> None:
        """Raise `ApiError` 402 if one more run with this memory would exceed a limit."""
        own = [run for run in open_runs if run.user_id == user_id]
        used = sum(run.memory_mbytes for run in own)
        if used + memory_mbytes > self.memory_mbytes:
            raise ApiError(
                402,
                "actor-memory-limit-exceeded",
                f"By launching this job you will exceed the memory limit of {self.memory_mbytes}MB for all your Actor"
                f" runs and builds (currently used: {used}MB, requested: {memory_mbytes}MB).",
            )
        if len(own) >= self.concurrent_runs:
            raise ApiError(
                402,
                "concurrent-runs-limit-exceeded",
                f"By launching this job you will exceed the limit of {self.concurrent_runs} concurrent Actor runs.",
            )


def checked_memory(memory_mbytes: int) -> int:
    """Return `memory_mbytes` if the platform offers this size. Raises `ApiError` 400 otherwise."""
    if memory_mbytes not in MEMORY_CHOICES_MBYTES:
        raise invalid_parameter(
            f"Memory must be a power of two from {MEMORY_CHOICES_MBYTES[0]} to {MEMORY_CHOICES_MBYTES[-1]} MB,"
            f" not {memory_mbytes}"
        )
    return memory_mbytes


def token_from_file(path: Path) -> str:
    """Return the token in a file that only its owner can read, and create the file on first use.

    Raises `OSError` for a file without a token.
    """
    if path.exists():
        token = path.read_text().strip()
        if not token:
            raise OSError(f"{path} is empty. Put the token back, or remove the file to create a new token.")
        return token
    token = f"apify_api_{secrets.token_urlsafe(24)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(token + "\n")
    return token


def _token_of(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.query_params.get("token") or None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
