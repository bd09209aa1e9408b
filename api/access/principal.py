"""The caller of a request, with the scopes of its credential. Workflows get the `Caller` alone, without scopes."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from outlast.activities.contracts import Caller
from outlast.api.access.leases import Validity
from outlast.api.access.oauth.resource import OAuthResource
from outlast.api.access.policy.contracts import ALL_SCOPES, Scope
from outlast.api.errors import ForbiddenScope

ALL_BUT_ADMIN: frozenset[Scope] = ALL_SCOPES - {"admin"}
"""Scopes of keys in OUTLAST_API_KEYS and of Apify tokens."""


@dataclass(frozen=True)
class Principal:
    """A caller with the scopes of the credential that it has shown."""

    caller: Caller
    scopes: frozenset[Scope] = ALL_BUT_ADMIN
    resource: OAuthResource | None = None
    """A caller with an access token can ask the authorization server for further scopes; the resource knows them."""
    key_id: str | None = None
    """Id of the policy's key, if it came with one."""
    credential: str = field(default="", compare=False, repr=False)
    """Stands for the credential, and tells it from others of the same caller: the key, the Apify token, or the OAuth
    client that access tokens were issued to. It stays the same while that is used. Not for logs."""
    expires: datetime | None = field(default=None, compare=False)
    """When the credential ends by itself, if it does: the key's or the access token's end."""
    on_refusal: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    """Told what was needed and what there was, when a scope is missing."""
    validity: Validity | None = field(default=None, compare=False, repr=False)
    """For how long the credential is good; None for ever."""

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


LOCAL = Principal(Caller(id="local"), ALL_SCOPES)
"""The caller on loopback where no key is configured: the operator."""
