"""Access tokens (JWT, RFC 9068): verification, subject, scopes, and refusals."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import jwt
from jwt.types import Options

from outlast.api.access.oauth.issuer import ALGORITHMS, IssuerKeys
from outlast.api.errors import Unauthenticated

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
