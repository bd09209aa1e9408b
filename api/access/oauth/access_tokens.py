"""Access tokens (JWT, RFC 9068): verification, subject, scopes, refusals, and the cached keys of their issuer.

The keys (RFC 7517) are found in the metadata of the authorization server (RFC 8414, OpenID Connect).
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast
from urllib.parse import urlsplit

import httpx2
import jwt
from jwt import PyJWK, PyJWTError
from jwt.types import Options

from outlast.activities.web.network import outbound_client
from outlast.api.access.limits.rate_limits import Clock, TokenBucket
from outlast.api.errors import IssuerUnavailable, Unauthenticated
from outlast.api.metrics import ISSUER_READS

_ALGORITHMS: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""Algorithms by type and curve of a key. None is symmetric: a public key must not serve as a shared secret."""
ALGORITHMS = frozenset(name for names in _ALGORITHMS.values() for name in names)
_Place = tuple[str | None, str]
"""Key id and algorithm."""
_MAX_BYTES = 512 * 1024
_TOTAL_SECONDS = 10
_OK, _TOO_MANY = 200, 429
log = logging.getLogger("outlast.api")
_FRESH_SECONDS = 600
_KEPT_SECONDS = 86_400
"""Time for which known keys remain valid while the issuer does not answer."""
_READS_AT_ONCE = 5
_SECONDS_PER_READ = 10


def _parsed(key: Mapping[str, object], algorithm: str) -> PyJWK | None:
    try:
        return PyJWK(dict(key), algorithm)
    except PyJWTError:
        return None


@dataclass(frozen=True)
class KeySet:
    """Keys that verify signatures, as the issuer wrote them."""

    keys: tuple[Mapping[str, object], ...]
    _parsed: dict[_Place, PyJWK | None] = field(default_factory=dict[_Place, PyJWK | None])

    @classmethod
    def parse(cls, document: object) -> "KeySet":
        """Select the asymmetric signature keys of a JSON Web Key Set. Raises `ValueError`."""
        entries = cast(Mapping[str, object], document).get("keys") if isinstance(document, Mapping) else None
        if not isinstance(entries, list):
            raise ValueError("the keys are not a JSON Web Key Set")  # noqa: TRY004  # a stranger's document, not a bug
        found = [cast(Mapping[str, object], key) for key in cast(list[object], entries) if isinstance(key, Mapping)]
        usable = tuple(key for key in found if _fitting(key) and key.get("use") in (None, "sig"))
        if not usable:
            raise ValueError("there is no key for an asymmetric signature among the keys")
        return cls(usable)

    def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key for a token's header; without a key id, the only key that fits. None unless one key fits."""
        place = key_id, algorithm
        if place not in self._parsed:
            fitting = [key for key in self.keys if algorithm in _fitting(key)]
            named = fitting if key_id is None else [key for key in fitting if key.get("kid") == key_id]
            if len(named) != 1:
                return None
            self._parsed[place] = _parsed(named[0], algorithm)
        return self._parsed[place]


class Issuer:
    """Reads an authorization server. Proxies of the environment are used; redirects are not followed."""

    def __init__(self, url: str) -> None:
        """The issuer that calls itself `url`, to the letter."""
        self.url = url

    async def keys(self) -> KeySet:
        """Return the keys that it publishes now. Raises `IssuerError`."""
        try:
            async with (
                asyncio.timeout(_TOTAL_SECONDS),
                outbound_client(timeout=_TOTAL_SECONDS / 2) as http,
            ):
                address = await self._keys_address(http)
                return KeySet.parse(await _document(http, address))
        except (TimeoutError, httpx2.TimeoutException):
            raise IssuerError(f"{self.url} does not answer in time") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise IssuerError(f"{self.url} cannot be reached ({type(error).__name__})") from None
        except (ValueError, RecursionError) as error:
            reason = "no JSON" if isinstance(error, RecursionError | json.JSONDecodeError) else str(error)
            raise IssuerError(f"{self.url} publishes keys that cannot be used: {reason}") from None

    async def _keys_address(self, http: httpx2.AsyncClient) -> str:
        """Return the address of the keys in the metadata."""
        for address in metadata_addresses(self.url):
            found = await _document(http, address, or_none=True)
            if found is not None:
                return self._checked(cast(dict[str, object], found) if isinstance(found, dict) else {})
        raise IssuerError(f"{self.url} publishes no metadata (RFC 8414 or OpenID Connect Discovery)")

    def _checked(self, metadata: dict[str, object]) -> str:
        named = metadata.get("issuer")
        if named != self.url:
            # Otherwise one issuer could speak for another (RFC 8414, section 3.3).
            raise IssuerError(f"the metadata of {self.url} names another issuer, {str(named)[:200]!r}")
        address = metadata.get("jwks_uri")
        if not isinstance(address, str):
            raise IssuerError(f"the metadata of {self.url} names no keys (`jwks_uri`)")
        own, other = urlsplit(self.url), urlsplit(address)
        if other.scheme != "https" and (other.scheme, other.netloc) != (own.scheme, own.netloc):
            raise IssuerError(f"the metadata of {self.url} names keys that do not come over https")
        return address


class IssuerError(Exception):
    """An issuer that does not answer, or answers wrongly. The message quotes nothing of an answer."""


class IssuerKeys:
    """Cached keys of the issuer.

    They are read again in the background after ten minutes, and at once for an unknown key id; at most every ten
    seconds, with a burst of five. While the issuer does not answer, known keys remain valid for a day.
    """

    def __init__(self, read: Callable[[], Awaitable[KeySet]], clock: Clock = time.monotonic) -> None:
        """Keys come from `read`, which raises `IssuerError`."""
        self._read = read
        self._clock = clock
        self._reads = TokenBucket(clock)
        self._reading: asyncio.Task[None] | None = None
        self._keys: KeySet | None = None
        self._read_at = 0.0
        self._failure: str | None = None

    async def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key, None if the issuer has no such key. Raises `IssuerUnavailable`."""
        age = self._clock() - self._read_at
        if self._keys is not None and age < _KEPT_SECONDS:
            found = self._keys.find(key_id, algorithm)
            if found is not None:
                if age >= _FRESH_SECONDS:
                    self._begin_reading()
                return found
        reading = self._begin_reading()
        if reading is not None:
            await asyncio.shield(reading)
        if self._failure is not None or self._keys is None:
            raise IssuerUnavailable(
                "The keys of the authorization server cannot be read now, so the token cannot be checked. "
                "Nothing was started. Send the request again."
            )
        return self._keys.find(key_id, algorithm)

    def _begin_reading(self) -> "asyncio.Task[None] | None":
        """Return the reading that all who wait share; None when it is too early for one."""
        if self._reading is None and self._reads.take(1 / _SECONDS_PER_READ, _READS_AT_ONCE) == 0:
            self._reading = asyncio.create_task(self._read_again())
        return self._reading

    async def _read_again(self) -> None:
        try:
            self._keys = await self._read()
        except IssuerError as error:
            ISSUER_READS.labels("error").inc()
            self._failure = str(error)
            log.warning("The keys of the authorization server cannot be read: %s", error)
        else:
            ISSUER_READS.labels("ok").inc()
            self._read_at, self._failure = self._clock(), None
        finally:
            self._reading = None


def _fitting(key: Mapping[str, object]) -> tuple[str, ...]:
    """Return the algorithms for which a key may be used."""
    kind, curve, named = key.get("kty"), key.get("crv"), key.get("alg")
    names = _ALGORITHMS.get((str(kind), None if kind == "RSA" else str(curve)), ())
    return names if named is None else tuple(name for name in names if name == named)


def metadata_addresses(issuer: str) -> Iterator[str]:
    """Yield the addresses at which MCP clients look for an issuer's metadata, in their order."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}/.well-known/openid-configuration{path}"
    if path:
        yield f"{origin}{path}/.well-known/openid-configuration"


async def _document(http: httpx2.AsyncClient, address: str, *, or_none: bool = False) -> object:
    """Return the JSON at an address; with `or_none`, None when there is nothing."""
    async with http.stream("GET", address, headers={"Accept": "application/json"}) as answer:
        if or_none and 300 <= answer.status_code < 500 and answer.status_code != _TOO_MANY:
            return None
        if answer.status_code != _OK:
            raise IssuerError(f"{address} answers {answer.status_code}")
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > _MAX_BYTES:
                raise IssuerError(f"{address} answers with more than {_MAX_BYTES} bytes")
    return json.loads(bytes(body))


MAX_TOKEN_CHARS = 16_384
MAX_LIFETIME_SECONDS = 366 * 86_400
"""Nothing revokes an access token before its end, so its end must be near."""
_MAX_SUBJECT_CHARS = 150
"""A caller's id is part of names that Temporal and object stores bound."""
_MAX_CLIENT_CHARS = 500
_TYPES = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
"""Three parts in base64url, without anything that a lenient decoder would pass over (RFC 7515, section 7.1)."""
_SIGNATURE_ONLY = {
    f"verify_{name}": name == "signature" for name in ("signature", "exp", "nbf", "iat", "aud", "iss", "sub", "jti")
}
"""The library checks the signature and nothing else: it would take `true` and `"17"` for times."""


@dataclass(frozen=True)
class AccessToken:
    """A verified token."""

    subject: str
    expires: datetime
    claims: Mapping[str, object]

    @property
    def client(self) -> str:
        """The OAuth client that it was issued to (RFC 9068, section 2.2; OpenID Connect); empty if unknown."""
        named = self.claims.get("client_id", self.claims.get("azp"))
        return named[:_MAX_CLIENT_CHARS] if isinstance(named, str) else ""


class AccessTokens:
    """Verifies the tokens of one issuer for one resource."""

    def __init__(self, keys: IssuerKeys, *, issuer: str, audiences: tuple[str, ...], skew_seconds: float) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audiences = audiences
        self._skew_seconds = skew_seconds

    async def verified(self, token: str) -> AccessToken:
        """Return the claims of the token. Raises `TokenRefused` and `IssuerUnavailable`."""
        if len(token) > MAX_TOKEN_CHARS:
            raise TokenRefused(f"The access token is longer than {MAX_TOKEN_CHARS} characters.")
        key_id, algorithm = _header(token)
        key = await self._keys.find(key_id, algorithm)
        if key is None:
            raise TokenRefused(
                "The access token is signed with a key that the authorization server does not have.", may_pass=True
            )
        claims = _signed_claims(token, key, algorithm)
        expires = self._check_times(claims)
        self._check_issuer_and_audience(claims)
        if "cnf" in claims:
            raise TokenRefused("The access token is bound to a key (`cnf`); send a plain bearer token (RFC 6750).")
        return AccessToken(_subject(claims), datetime.fromtimestamp(expires, UTC), claims)

    def _check_times(self, claims: Mapping[str, object]) -> float:
        """The end of the token, in seconds since 1970. The signature is checked first: the issuer made these times."""
        now = time.time()
        expires = _time_of(claims, "exp")
        for name in ("iat", "nbf"):
            if name in claims and _time_of(claims, name) > now + self._skew_seconds:
                raise TokenRefused(
                    "The access token is not valid yet. Check the clocks.", is_guess=False, may_pass=True
                )
        if expires <= now - self._skew_seconds:
            raise TokenRefused("The access token has expired. Get a new one.", is_guess=False)
        if expires > now + MAX_LIFETIME_SECONDS + self._skew_seconds:
            raise TokenRefused(
                f"The access token ends too late: its `exp` must be at most {MAX_LIFETIME_SECONDS // 86_400} days "
                "from now, in seconds since 1970."
            )
        return expires

    def _check_issuer_and_audience(self, claims: Mapping[str, object]) -> None:
        issuer, audience = _required(claims, "iss"), _required(claims, "aud")
        if not isinstance(issuer, str) or issuer != self._issuer:
            raise TokenRefused(f"The access token is from another issuer: its `iss` is not {self._issuer}.")
        named = cast(list[object], audience) if isinstance(audience, list) else [audience]
        if not all(isinstance(entry, str) for entry in named) or not set(self._audiences).intersection(named):
            raise TokenRefused(f"The access token is for another server: its `aud` is not {self._audiences[0]}.")


class TokenRefused(Unauthenticated):
    """The access token is not accepted."""

    def __init__(self, message: str, *, is_guess: bool = True, may_pass: bool = False) -> None:
        """Explain the refusal, without any part of the token.

        `is_guess`: the issuer did not make the token. `may_pass`: the token may become valid soon.
        """
        super().__init__(message)
        self.is_guess = is_guess
        self.may_pass = may_pass


def looks_like_access_token(bearer: str) -> bool:
    """Check for the dots of a JWT (RFC 7519), which Apify tokens do not have."""
    return "." in bearer


def _signed_claims(token: str, key: jwt.PyJWK, algorithm: str) -> Mapping[str, object]:
    options = cast(Options, {**_SIGNATURE_ONLY, "enforce_minimum_key_length": True})
    try:
        return cast(Mapping[str, object], jwt.decode(token, key, algorithms=[algorithm], options=options))
    except (jwt.PyJWTError, ValueError, OverflowError, RecursionError):
        raise TokenRefused("The access token is not signed by the authorization server, or is malformed.") from None


def _required(claims: Mapping[str, object], name: str) -> object:
    value = claims.get(name)
    if value is None:
        raise TokenRefused(f"The access token has no claim `{name}`.")
    return value


def _time_of(claims: Mapping[str, object], name: str) -> float:
    """Return a `NumericDate` (RFC 7519, section 2): a finite number of seconds since 1970, neither text nor `true`."""
    value = _required(claims, name)
    # Before the year 10000: neither NaN nor infinite, and it fits into a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 253_402_300_800:
        raise TokenRefused(f"The access token is malformed: its `{name}` must be a number of seconds since 1970.")
    return float(value)


def _subject(claims: Mapping[str, object]) -> str:
    subject = _required(claims, "sub")
    is_usable = isinstance(subject, str) and all("!" <= letter <= "~" for letter in subject)
    if not isinstance(subject, str) or not is_usable or not 0 < len(subject) <= _MAX_SUBJECT_CHARS:
        raise TokenRefused(
            f"The subject of the access token (`sub`) must have 1 to {_MAX_SUBJECT_CHARS} visible ASCII characters."
        )
    return subject


def _header(token: str) -> tuple[str | None, str]:
    """Key id and algorithm, as the token claims them. Raises `TokenRefused`."""
    if not _COMPACT.fullmatch(token):
        raise TokenRefused("The bearer token is not a well-formed access token (JWT).")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenRefused("The bearer token is not a well-formed access token (JWT).") from None
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused(f"The access token is not signed with one of {', '.join(sorted(ALGORITHMS))}.")
    if kind is not None and (not isinstance(kind, str) or kind.lower() not in _TYPES):
        raise TokenRefused("The bearer token is a JWT, but no access token (`typ`).")
    return (key_id if isinstance(key_id, str) else None), algorithm
