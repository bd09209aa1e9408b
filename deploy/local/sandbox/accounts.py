"""Accounts: users, tokens of users and of their runs (stored as digests), payers without an account, and limits."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.errors import ApiError, invalid_parameter
from outlast.deploy.local.sandbox.formats import derived_id, now
from outlast.deploy.local.sandbox.payments import Payer, Payment
from outlast.deploy.local.sandbox.runs import Run

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
