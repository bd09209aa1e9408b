"""Who is calling: from a bearer token to a `Caller`."""

import hashlib
import hmac

from cachetools import TTLCache
from pydantic import SecretStr

from outlast.activities.apify_platform import ApifyPlatform
from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import classify
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.secrets.sealer import SecretSealer
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
            _digest(key): name for name, _, key in (e.partition(":") for e in parse_entries(settings.api_keys))
        }
        self._accept_apify_tokens = settings.accept_apify_tokens
        self._anonymous_allowed = not self._keys and settings.is_loopback
        self._platform = platform
        self._sealer = sealer
        self._accounts = TTLCache[str, str](maxsize=_MAX_ACCOUNTS, ttl=_ACCOUNT_SECONDS)

    async def resolve(self, bearer: SecretStr | None) -> Caller:
        """The caller behind `bearer`. Raises `Unauthenticated` or `PlatformUnavailable`."""
        if bearer is None:
            if self._anonymous_allowed:
                return LOCAL_CALLER
            raise Unauthenticated("Send your API key or Apify token: `Authorization: Bearer …`.")
        name = self._known_key(bearer)
        if name is not None:
            return Caller(id=f"key:{name}")
        if not self._accept_apify_tokens:
            raise Unauthenticated("This bearer token is not one of the configured API keys.")
        account = await self._account(bearer)
        caller_id = f"apify:{account}"
        return Caller(id=caller_id, apify_token=self._sealer.seal(bearer, purpose=caller_id))

    def _known_key(self, bearer: SecretStr) -> str | None:
        digest = _digest(bearer.get_secret_value())
        return next((name for known, name in self._keys.items() if hmac.compare_digest(known, digest)), None)

    async def _account(self, bearer: SecretStr) -> str:
        digest = _digest(bearer.get_secret_value())
        account = self._accounts.get(digest)
        if account is None:
            account = self._accounts[digest] = await self._fetch_account(bearer)
        return account

    async def _fetch_account(self, bearer: SecretStr) -> str:
        """The id of the Apify account whose token this is (Apify API v2, `GET /v2/users/me`)."""
        try:
            user = await self._platform.client_for_token(bearer).user("me").get()
        except Exception as error:
            envelope = classify(error)
            if envelope.category in (ErrorCategory.AUTHENTICATION, ErrorCategory.PERMISSION, ErrorCategory.NOT_FOUND):
                raise Unauthenticated("The bearer token is neither a known API key nor a valid Apify token.") from error
            raise PlatformUnavailable(f"Cannot check the Apify token: {envelope.message}") from error
        account: object = getattr(user, "id", None)
        if not isinstance(account, str):
            raise Unauthenticated("The bearer token is neither a known API key nor a valid Apify token.")
        return account


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
