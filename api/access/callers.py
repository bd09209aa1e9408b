"""Callers: from a bearer token to a `Principal`, with its Apify token and its reach on an Apify account."""

import asyncio
import hmac
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from cachetools import TTLCache
from pydantic import SecretStr

from outlast.activities.contracts import Caller, ErrorCategory
from outlast.activities.failures.classify import classify
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer, server_secret_purpose
from outlast.api import errors
from outlast.api.access.api_keys import PREFIX, KeyVerifier
from outlast.api.access.limits.rate_limits import WRONG_TOKEN, FailedCredentials, digest_of
from outlast.api.access.oauth.access_tokens import (
    AccessToken,
    AccessTokens,
    Issuer,
    IssuerKeys,
    TokenRefused,
    looks_like_access_token,
)
from outlast.api.access.oauth.resource import OAuthResource
from outlast.api.access.policy.contracts import Anonymous, CallerEntry, KeyEntry, Policy, Reach, Scope, SecretPlace
from outlast.api.access.policy.source import PolicySource
from outlast.api.access.principal import ALL_BUT_ADMIN, LOCAL, Leases, Principal, Validity
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.settings import ApiSettings, parse_entries

log = logging.getLogger("outlast.api")
_WITH_KEYS = ("key:", "jwt:")
"""Kinds of callers whose account the policy or the server provides. Others have their own, or are the operator."""
_ACCOUNT_SECONDS = 600
_MAX_ACCOUNTS = 10_000
_OF_ACCOUNT = "apify:"
"""Prefix of the ids of callers with an Apify token."""
_OF_A_KEY, _OF_A_SETTING = "key ", "setting "
"""Prefixes of the credentials of API keys: of the policy file, and of OUTLAST_API_KEYS."""


class CallerResolver:
    """Resolution of bearer tokens: API keys, access tokens, and Apify tokens, whose account the platform names."""

    def __init__(
        self,
        settings: ApiSettings,
        policy: PolicySource,
        platform: ApifyPlatform,
        sealer: SecretSealer,
        audit: AuditLog | None = None,
    ) -> None:
        self._audit = audit or AuditLog(None)
        self.resource, self._access_tokens = _oauth(settings, policy)
        """This server as an OAuth resource; None without an authorization server."""
        self._keys = {
            digest_of(key): name for name, _, key in (e.partition(":") for e in parse_entries(settings.api_keys))
        }
        self._settings = settings
        self._policy = policy
        self._accounts_shared = SharedAccounts(settings, policy)
        self._policy_keys = policy.current.keys_by_id
        self._verifier = KeyVerifier()
        self.leases = Leases()
        """The open leases on credentials."""
        policy.on_change(self._take_over)
        self._platform = platform
        self._sealer = sealer
        self._failed = FailedCredentials(settings.failed_credentials_per_minute)
        self._lookups: dict[str, asyncio.Task[str]] = {}
        self._accounts = TTLCache[str, str](maxsize=_MAX_ACCOUNTS, ttl=_ACCOUNT_SECONDS)

    @property
    def needs_credential(self) -> bool:
        """True if a request without a credential is refused."""
        return self._anonymous() == "none"

    async def resolve(
        self, bearer: SecretStr | None, *, address: str | None = None, is_forwarded: bool = False
    ) -> Principal:
        """Return the principal behind `bearer`, sent from `address`; `is_forwarded` if a proxy forwarded the request.

        Raises `Unauthenticated`, `PlatformUnavailable`, `TooManyRequests` (too many attempts of the address), for keys
        of the policy file `KeyChecksBusy` and `ApifyTokenMissing`, and for access tokens `IssuerUnavailable`.
        """
        try:
            principal = await self._resolve(bearer, address, is_forwarded=is_forwarded)
        except errors.Unauthenticated as error:
            given = "a bearer token that is not valid" if bearer else "no bearer token"
            reason = str(error) if isinstance(error, TokenRefused) else given
            await self._audit.record(AuditEvent.CREDENTIALS_REFUSED, outcome=error.slug, detail=reason)
            if self.resource is not None:
                error.challenge = self.resource.challenge(error=str(error) if bearer else None)
            raise
        caller = self._with_server_secrets(principal.caller)
        return replace(principal, caller=caller, on_refusal=partial(self._record_refusal, principal))

    def resumed(self, caller_id: str, key_id: str | None, credential: str) -> Principal:
        """The principal of an API key that was shown before, by its `key_digest`. Raises `Unauthenticated`.

        `key_id` is the key's id in the policy, or None for a key of OUTLAST_API_KEYS.
        """
        if key_id is None:
            names = ((digest, name) for digest, name in self._keys.items() if f"key:{name}" == caller_id)
            found = [self._of_setting(name, digest) for digest, name in names]
        else:
            entry = self._policy_keys.get(key_id)
            found = [self._of_key(entry)] if entry is not None and not entry.is_expired() else []
        for principal in found:
            digest = self.key_digest(principal)
            if principal.caller.id == caller_id and digest is not None and hmac.compare_digest(digest, credential):
                return replace(principal, on_refusal=partial(self._record_refusal, principal))
        raise errors.Unauthenticated("The API key of this session was revoked, or has expired. Log in again.")

    @staticmethod
    def key_digest(principal: Principal) -> str | None:
        """A digest of the API key that the principal has shown; None for other credentials."""
        is_key = principal.credential.startswith((_OF_A_KEY, _OF_A_SETTING))
        return digest_of(principal.credential) if is_key else None

    async def standing(self, caller: Caller) -> Caller:
        """Return the caller with its current Apify token and reach, for work that it ordered before.

        Raises `Unauthenticated` when it has no valid credential, `ForbiddenScope` when none may start calls,
        `PlatformUnavailable` and `ApifyTokenMissing`. Access tokens last for minutes, so callers with them need none
        here: rules about their ids stop them.
        """
        kind, _, name = caller.id.partition(":")
        if caller.id.startswith(_OF_ACCOUNT) and caller.apify_token is not None and self._settings.accept_apify_tokens:
            return (await self.resolve(self._sealer.open(caller.apify_token, purpose=caller.id))).caller
        if not self._is_known(caller.id, kind, name):
            raise errors.Unauthenticated(
                f"{caller.id} no longer has a credential that this server accepts. Its work is not started."
            )
        return self._with_server_secrets(self._with_policy_token(caller.id))

    def with_given_secrets(self, principal: Principal, given: Mapping[str, SecretStr]) -> Principal:
        """Return the principal with secrets for MCP servers that came with the request. They have priority."""
        if not given:
            return principal
        caller, purpose = principal.caller, server_secret_purpose(principal.caller.id)
        sealed = {name: self._sealer.seal(secret, purpose=purpose) for name, secret in given.items()}
        secrets = {**caller.server_secrets, **sealed}
        return replace(principal, caller=caller.model_copy(update={"server_secrets": secrets}))

    def _with_server_secrets(self, caller: Caller) -> Caller:
        """Return the caller with the secrets for MCP servers that the policy names for it, as far as they exist."""
        places = self._policy.of(caller.id).server_secrets
        if not places:
            return caller
        purpose = server_secret_purpose(caller.id)
        found = {name: secret for name, place in places.items() if (secret := _secret_at(place)) is not None}
        sealed = {name: self._sealer.seal(secret, purpose=purpose) for name, secret in found.items()}
        return caller.model_copy(update={"server_secrets": sealed})

    def _is_known(self, caller_id: str, kind: str, name: str) -> bool:
        """Check that an absent caller has a credential that would be accepted. Raises `ForbiddenScope`."""
        if caller_id == LOCAL.caller.id:
            return not self.needs_credential
        if kind == "jwt":
            return self._access_tokens is not None
        if kind == "key" and name in self._keys.values():
            return True
        good = [key for key in self._policy_keys.values() if key.caller == caller_id and not key.is_expired()]
        if good and not any("call" in key.scopes for key in good):
            raise errors.ForbiddenScope(f"No key of {caller_id} has the scope `call` now.")
        return bool(good)

    def _record_refusal(self, principal: Principal, detail: str) -> None:
        caller, key, outcome = principal.caller.id, principal.key_id, errors.ForbiddenScope.slug
        self._audit.record_now(AuditEvent.SCOPE_REFUSED, outcome=outcome, caller=caller, key=key, detail=detail)

    async def _resolve(self, bearer: SecretStr | None, address: str | None, *, is_forwarded: bool = False) -> Principal:
        if bearer is None:
            problem = self._problem_of_nobody(is_forwarded=is_forwarded)
            if problem is not None:
                raise errors.Unauthenticated(problem)
            validity = Validity(self.leases, partial(self._problem_of_nobody, is_forwarded=is_forwarded))
            return Principal(self._with_policy_token(LOCAL.caller.id), LOCAL.scopes, validity=validity)
        digest = digest_of(bearer.get_secret_value())
        name = next((name for known, name in self._keys.items() if hmac.compare_digest(known, digest)), None)
        if name is not None:
            return self._of_setting(name, digest)
        if bearer.get_secret_value().startswith(PREFIX):
            return self._of_key(await self._verified(bearer, digest, address))
        if self._access_tokens is not None and looks_like_access_token(bearer.get_secret_value()):
            return await self._of_access_token(self._access_tokens, bearer.get_secret_value(), digest, address)
        if not self._settings.accept_apify_tokens:
            self._failed.begin(digest, address)
            self._failed.was_wrong(digest)
            raise errors.Unauthenticated("This bearer token is not one of the configured API keys.")
        account = self._accounts.get(digest) or await self._looked_up(bearer, digest, address)
        caller_id = f"{_OF_ACCOUNT}{account}"
        sealed = self._sealer.seal(bearer, purpose=caller_id)
        caller = Caller(id=caller_id, apify_token=sealed, reach=self._accounts_shared.reach_of(caller_id))
        asked_again = partial(self._resolve, bearer, address)
        validity = Validity(self.leases, asked_again=asked_again, ask_seconds=_ACCOUNT_SECONDS)
        return Principal(caller, ALL_BUT_ADMIN, credential=f"apify {digest}", validity=validity)

    def _take_over(self, policy: Policy) -> None:
        self._policy_keys = policy.keys_by_id
        self._verifier.forget()
        self.leases.check()

    def _anonymous(self) -> Anonymous:
        """Return the access without a credential, as the policy file or else the settings declare it.

        Missing keys never open access: they may be missing by accident.
        """
        if not self._settings.is_loopback:
            return "none"
        if self._policy.has_file:
            return self._policy.current.anonymous or "none"
        return "local" if self._settings.is_open else "none"

    def _problem_of_nobody(self, *, is_forwarded: bool) -> str | None:
        """Explain why a request without a credential is refused; None if it is accepted."""
        allowed = self._anonymous()
        if allowed == "none":
            return "Send your API key or Apify token: `Authorization: Bearer …`."
        if is_forwarded and allowed != "proxied":
            return (
                "This request came through a proxy, so send your API key or Apify token: `Authorization: Bearer …`. "
                'The requests that it forwards are the operator\'s only with anonymous = "proxied" in the policy file.'
            )
        return None

    def _of_setting(self, name: str, digest: str) -> Principal:
        return Principal(self._with_policy_token(f"key:{name}"), ALL_BUT_ADMIN, credential=f"{_OF_A_SETTING}{digest}")

    def _of_key(self, entry: KeyEntry) -> Principal:
        caller = self._with_policy_token(entry.caller)

        def problem() -> str | None:
            now = self._policy_keys.get(entry.id)
            if now is None or (now.hash, now.caller) != (entry.hash, entry.caller):
                return f"The API key {entry.id} was revoked."
            if now.is_expired():
                return f"The API key {entry.id} has expired. Ask the operator for a new one."
            return _lost(f"The API key {entry.id}", entry.scopes - now.scopes)

        def ends_at() -> float | None:
            now = self._policy_keys.get(entry.id)
            return now.expires.timestamp() if now is not None and now.expires is not None else None

        return Principal(
            caller,
            entry.scopes,
            key_id=entry.id,
            credential=f"{_OF_A_KEY}{entry.id} {entry.hash}",
            expires=entry.expires,
            validity=Validity(self.leases, problem, ends_at),
        )

    def _with_policy_token(self, caller_id: str) -> Caller:
        """Return the caller with the Apify token that the policy names for it."""
        token = policy_token(caller_id, self._policy.of(caller_id))
        sealed = self._sealer.seal(token, purpose=caller_id) if token else None
        return Caller(id=caller_id, apify_token=sealed, reach=self._accounts_shared.reach_of(caller_id))

    async def _verified(self, bearer: SecretStr, digest: str, address: str | None) -> KeyEntry:
        """Return the key's entry. A wrong key counts as an attempt of its address."""
        self._failed.begin(digest, address)
        try:
            entry = await self._verifier.verified(bearer.get_secret_value(), self._policy_keys)
        except errors.KeyChecksBusy:
            self._failed.is_unknown(address)
            raise
        self._failed.was_good(digest, address)
        return entry

    async def _of_access_token(self, tokens: AccessTokens, bearer: str, digest: str, address: str | None) -> Principal:
        """Return the token's principal. A token that the issuer never made counts as an attempt of its address."""
        assert self.resource is not None
        self._failed.begin(digest, address)
        try:
            token = await tokens.verified(bearer)
        except TokenRefused as error:
            if not error.may_pass:
                self._failed.was_wrong(digest, str(error))
            if not error.is_guess:
                self._failed.is_unknown(address)
            raise
        except errors.IssuerUnavailable:
            self._failed.is_unknown(address)
            raise
        self._failed.was_good(digest, address)
        return self._of_subject(self.resource, token)

    def _of_subject(self, resource: OAuthResource, token: AccessToken) -> Principal:
        caller, scopes = self._with_policy_token(f"jwt:{token.subject}"), resource.scopes_of(token.claims)
        ends_at = token.expires.timestamp() + self._settings.oauth_clock_skew_seconds

        def problem() -> str | None:
            if ends_at <= time.time():
                return "The access token has expired. Get a new one."
            return _lost("The access token", scopes - resource.scopes_of(token.claims))

        return Principal(
            caller,
            scopes,
            resource,
            credential=f"oauth {token.client}",
            expires=token.expires,
            validity=Validity(self.leases, problem, lambda: ends_at),
        )

    async def _looked_up(self, bearer: SecretStr, digest: str, address: str | None) -> str:
        """Return the token's account. Concurrent requests share one look-up."""
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
        except errors.Unauthenticated:
            self._failed.was_wrong(digest)
            raise
        except errors.PlatformUnavailable:
            self._failed.is_unknown(address)
            raise
        self._failed.was_good(digest, address)
        self._accounts[digest] = account
        return account

    async def _fetch_account(self, bearer: SecretStr) -> str:
        """Return the id of the token's Apify account (Apify API v2, `GET /v2/users/me`)."""
        try:
            user = await self._platform.client_for_unknown_token(bearer).user("me").get()
        except Exception as error:
            envelope = classify(error)
            if envelope.category in (ErrorCategory.AUTHENTICATION, ErrorCategory.PERMISSION, ErrorCategory.NOT_FOUND):
                raise errors.Unauthenticated(WRONG_TOKEN) from error
            raise errors.PlatformUnavailable(f"Cannot check the Apify token: {envelope.message}") from error
        account: object = getattr(user, "id", None)
        if not isinstance(account, str):
            raise errors.Unauthenticated(WRONG_TOKEN)
        return account


def policy_token(caller_id: str, entry: CallerEntry) -> SecretStr | None:
    """Return the Apify token that the policy names for the caller, None without one. Raises `ApifyTokenMissing`.

    A file is read each time, so that a token can be replaced while the API runs.
    """
    if entry.apify_token_env is not None:
        return _token(os.environ.get(entry.apify_token_env), caller_id, f"the variable {entry.apify_token_env}")
    if entry.apify_token_file is not None:
        try:
            text = entry.apify_token_file.read_text()
        except (OSError, UnicodeDecodeError):
            text = None
        return _token(text, caller_id, "the file that the policy names")
    return None


def _secret_at(place: SecretPlace) -> SecretStr | None:
    """Return the secret; None, with a line in the log, for one that cannot be read."""
    try:
        text = os.environ.get(place.env, "") if place.env is not None else _read_text(place.file)
    except (OSError, UnicodeDecodeError) as error:
        log.warning("A secret for MCP servers, %s, cannot be read: %s", place.file, type(error).__name__)
        return None
    return SecretStr(text.strip()) if text.strip() else None


def _read_text(file: Path | None) -> str:
    return file.read_text() if file is not None else ""


def _token(text: str | None, caller_id: str, place: str) -> SecretStr:
    token = (text or "").strip()
    if not token:
        raise errors.ApifyTokenMissing(f"The Apify token of {caller_id} is not in {place}. Tell the operator.")
    return SecretStr(token)


class SharedAccounts:
    """Reach of callers: the whole account if a caller is alone on it, otherwise its own runs and storages."""

    def __init__(self, settings: ApiSettings, policy: PolicySource) -> None:
        self._policy = policy
        self._server_token = settings.apify_token.get_secret_value() if settings.apify_token is not None else ""
        self._named = frozenset(f"key:{entry.partition(':')[0]}" for entry in parse_entries(settings.api_keys))
        self._takes_access_tokens = settings.oauth_issuer is not None
        self._alone = self._found_alone(policy.current)
        policy.on_change(self._take_over)

    def reach_of(self, caller_id: str) -> Reach:
        """Return the reach that the policy sets; without one, `own` if other callers may use the account."""
        reach = self._policy.of(caller_id).reach
        if reach is not None:
            return reach
        is_given = caller_id != LOCAL.caller.id and caller_id.startswith(_WITH_KEYS)
        return "own" if is_given and caller_id not in self._alone else "account"

    def _take_over(self, policy: Policy) -> None:
        self._alone = self._found_alone(policy)

    def _found_alone(self, policy: Policy) -> frozenset[str]:
        """Return the callers with an account that no other caller uses."""
        by_account: dict[str, set[str]] = {}
        known = {*self._named, *(key.caller for key in policy.keys), *policy.callers}
        for caller_id in (caller for caller in known if caller.startswith(_WITH_KEYS)):
            by_account.setdefault(self._account_of(caller_id, policy), set()).add(caller_id)
        if self._takes_access_tokens:
            # Any holder of an access token may use the account of callers that the policy does not name.
            by_account.setdefault(self._account_of("jwt:", policy), set()).add("jwt:")
        return frozenset(next(iter(callers)) for callers in by_account.values() if len(callers) == 1)

    def _account_of(self, caller_id: str, policy: Policy) -> str:
        """Return the identity of the account: the digest of its token, or `missing`."""
        try:
            token = policy_token(caller_id, policy.of(caller_id))
        except errors.ApifyTokenMissing:
            return "missing"
        return digest_of(token.get_secret_value() if token is not None else self._server_token)


def _oauth(settings: ApiSettings, policy: PolicySource) -> tuple[OAuthResource, AccessTokens] | tuple[None, None]:
    """Build the OAuth resource and the verifier of its tokens, if an issuer is configured."""
    if settings.oauth_issuer is None:
        return None, None
    issuer, audiences = settings.oauth_issuer, settings.oauth_audiences
    skew_seconds, keys = settings.oauth_clock_skew_seconds, IssuerKeys(Issuer(issuer).keys)
    tokens = AccessTokens(keys, issuer=issuer, audiences=audiences, skew_seconds=skew_seconds)
    return OAuthResource(audiences[0], issuer, lambda: policy.current.oauth), tokens


def _noticed(lookup: asyncio.Task[str]) -> None:
    """Retrieve the error of a look-up, even if nobody awaits it any longer."""
    if not lookup.cancelled():
        lookup.exception()


def _lost(credential: str, scopes: frozenset[Scope]) -> str | None:
    """Describe the problem of a credential that has lost `scopes`; None if there are none."""
    words = " and ".join(f"`{scope}`" for scope in sorted(scopes))
    return f"{credential} no longer has the scope {words}." if scopes else None
