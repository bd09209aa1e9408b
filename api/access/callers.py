"""Who is calling: from a bearer token to a `Caller`."""

import asyncio
import hmac

from cachetools import TTLCache
from pydantic import SecretStr

from outlast.activities.apify_platform import ApifyPlatform
from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import classify
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.secrets.sealer import SecretSealer
from outlast.api.access.limits.failed_credentials import WRONG_TOKEN, FailedCredentials, digest_of
from outlast.api.errors import PlatformUnavailable, Unauthenticated
from outlast.api.settings import ApiSettings, parse_entries

LOCAL_CALLER = Caller(id="local")
_ACCOUNT_SECONDS = 600
_MAX_ACCOUNTS = 10_000


class CallerResolver:
    """Resolves configured API keys, and asks the platform for the account behind any other bearer token."""

    def __init__(self, settings: ApiSettings, platform: ApifyPlatform, sealer: SecretSealer) -> None:
        """Look Apify accounts up through `platform`; seal their tokens with `sealer`."""
        self._keys = {
            digest_of(key): name for name, _, key in (e.partition(":") for e in parse_entries(settings.api_keys))
        }
        self._accept_apify_tokens = settings.accept_apify_tokens
        self._anonymous_allowed = not self._keys and settings.is_loopback
        self._platform = platform
        self._sealer = sealer
        self._failed = FailedCredentials(settings.failed_credentials_per_minute)
        self._lookups: dict[str, asyncio.Task[str]] = {}
        self._accounts = TTLCache[str, str](maxsize=_MAX_ACCOUNTS, ttl=_ACCOUNT_SECONDS)

    async def resolve(self, bearer: SecretStr | None, *, address: str | None = None) -> Caller:
        """The caller behind `bearer`, sent from `address`.

        Raises `Unauthenticated`, `PlatformUnavailable`, and `TooManyRequests` when the address has tried too many.
        """
        if bearer is None:
            if self._anonymous_allowed:
                return LOCAL_CALLER
            raise Unauthenticated("Send your API key or Apify token: `Authorization: Bearer …`.")
        digest = digest_of(bearer.get_secret_value())
        name = self._known_key(digest)
        if name is not None:
            return Caller(id=f"key:{name}")
        if not self._accept_apify_tokens:
            self._failed.begin(digest, address)
            self._failed.was_wrong(digest)
            raise Unauthenticated("This bearer token is not one of the configured API keys.")
        account = self._accounts.get(digest) or await self._looked_up(bearer, digest, address)
        caller_id = f"apify:{account}"
        return Caller(id=caller_id, apify_token=self._sealer.seal(bearer, purpose=caller_id))

    def _known_key(self, digest: str) -> str | None:
        return next((name for known, name in self._keys.items() if hmac.compare_digest(known, digest)), None)

    async def _looked_up(self, bearer: SecretStr, digest: str, address: str | None) -> str:
        """The token's account. Requests that come while it is being asked for share one look-up."""
        lookup = self._lookups.get(digest)
        if lookup is None:
            self._failed.begin(digest, address)
            lookup = self._lookups[digest] = asyncio.create_task(self._account(bearer, digest, address))
            lookup.add_done_callback(lambda _: self._lookups.pop(digest, None))
            lookup.add_done_callback(_noticed)
        return await asyncio.shield(lookup)

    async def _account(self, bearer: SecretStr, digest: str, address: str | None) -> str:
        try:
            account = await self._fetch_account(bearer)
        except Unauthenticated:
            self._failed.was_wrong(digest)
            raise
        except PlatformUnavailable:
            self._failed.is_unknown(address)
            raise
        self._failed.was_good(digest, address)
        self._accounts[digest] = account
        return account

    async def _fetch_account(self, bearer: SecretStr) -> str:
        """The id of the Apify account whose token this is (Apify API v2, `GET /v2/users/me`)."""
        try:
            user = await self._platform.client_for_token(bearer).user("me").get()
        except Exception as error:
            envelope = classify(error)
            if envelope.category in (ErrorCategory.AUTHENTICATION, ErrorCategory.PERMISSION, ErrorCategory.NOT_FOUND):
                raise Unauthenticated(WRONG_TOKEN) from error
            raise PlatformUnavailable(f"Cannot check the Apify token: {envelope.message}") from error
        account: object = getattr(user, "id", None)
        if not isinstance(account, str):
            raise Unauthenticated(WRONG_TOKEN)
        return account


def _noticed(lookup: asyncio.Task[str]) -> None:
    """Take note of how the look-up ended, also when all who waited for it have left."""
    if not lookup.cancelled():
        lookup.exception()
