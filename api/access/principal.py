"""The caller of a request with the scopes of its credential, and leases on that credential.

Workflows get the `Caller` alone. Streams, long waits and work that a session has started run under a lease, which is
checked when the policy changes or the credential expires, and ends with the credential.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from outlast.activities.contracts import LOCAL_CALLER_ID, Caller
from outlast.api.access.oauth.resource import OAuthResource
from outlast.api.access.policy.contracts import ALL_SCOPES, Scope
from outlast.api.errors import ApiError, CredentialEnded, ForbiddenScope, Unauthenticated
from outlast.contracts.base import ALL_CALLERS

log = logging.getLogger("outlast.api")
_LONGEST_TIMER_SECONDS = 60.0
"""Longest interval between checks of expiry, as the clock of the machine may be set."""
ALL_BUT_ADMIN: frozenset[Scope] = ALL_SCOPES - {"admin"}
"""Scopes of keys in OUTLAST_API_KEYS and of Apify tokens."""


class Leases:
    """The open leases of a process."""

    def __init__(self) -> None:
        self._open: set[_Lease] = set()

    def check(self) -> None:
        """End every lease whose credential is no longer good, because the policy has changed."""
        for lease in list(self._open):
            lease.check()

    def open(self, lease: "_Lease") -> None:
        """Check the lease from now on."""
        self._open.add(lease)
        lease.check()

    def close(self, lease: "_Lease") -> None:
        """Stop checking a lease that has ended."""
        self._open.discard(lease)
        lease.close()


@dataclass(frozen=True, eq=False)
class Validity:
    """Conditions under which a credential remains valid."""

    leases: Leases
    problem: Callable[[], str | None] = lambda: None
    """Explains why the credential is no longer valid; None while it is valid."""
    ends_at: Callable[[], float | None] = lambda: None
    """Expiry as Unix time; None for never."""
    asked_again: Callable[[], Awaitable[object]] | None = None
    """Checks the credential with its issuer every `ask_seconds`. Raises `Unauthenticated`."""
    ask_seconds: float = 0.0

    @asynccontextmanager
    async def lease(self, *, grace_seconds: float = 0.0) -> AsyncGenerator[None]:
        """Cancel the block, and raise `CredentialEnded`, `grace_seconds` after the credential has ended."""
        async with asyncio.timeout(None) as limit:
            lease = _Lease(self, limit, grace_seconds)
            try:
                self.leases.open(lease)
                yield
            finally:
                self.leases.close(lease)
                if lease.reason is not None and limit.expired():
                    raise CredentialEnded(lease.reason) from None


@dataclass(frozen=True)
class Principal:
    """A caller with the scopes of the credential that it has shown."""

    caller: Caller
    scopes: frozenset[Scope] = ALL_BUT_ADMIN
    resource: OAuthResource | None = None
    """The resource from which a caller with an access token can request further scopes."""
    key_id: str | None = None
    """Id of the key in the policy, if any."""
    credential: str = field(default="", compare=False, repr=False)
    """Identifier of the credential among those of the same caller: the key, the Apify token, or the OAuth client of
    access tokens. Not for logs.
    """
    expires: datetime | None = field(default=None, compare=False)
    """Expiry of the key or access token, if any."""
    on_refusal: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    """Called with the needed and the available scopes when a scope is missing."""
    validity: Validity | None = field(default=None, compare=False, repr=False)
    """Conditions under which the credential remains valid; None for always."""

    @asynccontextmanager
    async def lease(self, *, grace_seconds: float = 0.0) -> AsyncGenerator[None]:
        """Cancel the block, and raise `CredentialEnded`, `grace_seconds` after the credential has ended."""
        if self.validity is None:
            yield
            return
        async with self.validity.lease(grace_seconds=grace_seconds):
            yield

    def require(self, *scopes: Scope) -> None:
        """Raise `ForbiddenScope` unless the credential has one of `scopes`."""
        if self.scopes.intersection(scopes):
            return
        needed = f"This needs the scope {' or '.join(f'`{scope}`' for scope in scopes)}; your"
        own = ", ".join(sorted(self.scopes)) or "none"
        if self.on_refusal is not None:
            self.on_refusal(f"needs {' or '.join(scopes)}; has {own}")
        if self.resource is None:
            raise ForbiddenScope(f"{needed} key has {own}. Use another key, or ask the operator for one.")
        raise ForbiddenScope(
            f"{needed} access token gives {own}. Get one with more scopes.",
            challenge=self.resource.scope_challenge(scopes),
        )

    def callers_named(self, caller: str | None) -> str | None:
        """The id of the caller whose data a request with `caller` is about: its own without one; None for all callers.

        Raises `ForbiddenScope` for those of others without `admin`.
        """
        if caller is None or caller == self.caller.id:
            return self.caller.id
        self.require("admin")
        return None if caller == ALL_CALLERS else caller


LOCAL = Principal(Caller(id=LOCAL_CALLER_ID), ALL_SCOPES)
"""The caller on loopback where no key is configured: the operator."""


class _Lease:
    def __init__(self, validity: Validity, limit: asyncio.Timeout, grace_seconds: float) -> None:
        self.reason: str | None = None
        self._validity = validity
        self._limit = limit
        self._grace_seconds = grace_seconds
        self._timers: dict[Callable[[], object], asyncio.TimerHandle] = {}
        self._asking: asyncio.Task[None] | None = None
        if validity.asked_again is not None:
            self._after(validity.ask_seconds, self._begin_to_ask)

    def check(self) -> None:
        """End the lease if the credential is no longer valid; else check again when the credential expires."""
        problem = self._validity.problem()
        if problem is not None:
            self._end(problem)
            return
        ends_at = self._validity.ends_at()
        if ends_at is not None:
            self._after(min(max(ends_at - time.time(), 0.0), _LONGEST_TIMER_SECONDS), self.check)

    def close(self) -> None:
        """Stop checking."""
        for timer in self._timers.values():
            timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _end(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
            self._limit.reschedule(asyncio.get_running_loop().time() + self._grace_seconds)

    def _after(self, seconds: float, look: Callable[[], object]) -> None:
        if look in self._timers:
            self._timers[look].cancel()
        self._timers[look] = asyncio.get_running_loop().call_later(seconds, look)

    def _begin_to_ask(self) -> None:
        self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        assert self._validity.asked_again is not None
        try:
            await self._validity.asked_again()
        except Unauthenticated as error:
            self._end(str(error))
            return
        except ApiError as error:
            log.info("A credential could not be checked again: %s", error)
        self._after(self._validity.ask_seconds, self._begin_to_ask)
