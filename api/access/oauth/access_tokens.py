"""Access tokens (JWT, RFC 9068): who they are about, and what they may be used for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

import jwt

from outlast.api.access.oauth.issuer_keys import IssuerKeys
from outlast.api.access.oauth.key_set import ALGORITHMS
from outlast.api.access.oauth.token_refusals import TokenRefused

MAX_TOKEN_CHARS = 16_384
_MAX_SUBJECT_CHARS = 150
"""A caller's id is part of names that Temporal and object stores bound."""
_TYPES = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
_REQUIRED = ["exp", "iss", "aud", "sub"]


@dataclass(frozen=True)
class AccessToken:
    """A verified token."""

    subject: str
    claims: Mapping[str, object]


class AccessTokens:
    """Verifies the tokens of one issuer for one resource."""

    def __init__(self, keys: IssuerKeys, *, issuer: str, audiences: tuple[str, ...], skew_seconds: float) -> None:
        """Tokens must be signed with one of `keys`, and name `issuer` and one of `audiences`."""
        self._keys = keys
        self._issuer = issuer
        self._audiences = audiences
        self._skew_seconds = skew_seconds

    async def verified(self, token: str) -> AccessToken:
        """The claims of the token. Raises `TokenRefused` and `IssuerUnavailable`."""
        if len(token) > MAX_TOKEN_CHARS:
            raise TokenRefused(f"The access token is longer than {MAX_TOKEN_CHARS} characters.")
        key_id, algorithm = _header(token)
        key = await self._keys.find(key_id, algorithm)
        if key is None:
            raise TokenRefused(
                "The access token is signed with a key that the authorization server does not have.", may_pass=True
            )
        claims = self._claims(token, key, algorithm)
        subject = claims["sub"]
        if not isinstance(subject, str) or not _is_usable(subject):
            raise TokenRefused(
                f"The subject of the access token (`sub`) must have 1 to {_MAX_SUBJECT_CHARS} visible ASCII characters."
            )
        if "cnf" in claims:
            raise TokenRefused("The access token is bound to a key (`cnf`); send a plain bearer token (RFC 6750).")
        return AccessToken(subject, claims)

    def _claims(self, token: str, key: jwt.PyJWK, algorithm: str) -> Mapping[str, object]:
        try:
            return cast(
                Mapping[str, object],
                jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    audience=self._audiences,
                    issuer=self._issuer,
                    leeway=self._skew_seconds,
                    options={"require": _REQUIRED, "enforce_minimum_key_length": True},
                ),
            )
        except (jwt.PyJWTError, ValueError, OverflowError, RecursionError) as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> NoReturn:
        """The signature is checked first: a token that fails later was made by the issuer."""
        if isinstance(error, jwt.ExpiredSignatureError):
            raise TokenRefused("The access token has expired. Get a new one.", is_guess=False) from None
        if isinstance(error, jwt.ImmatureSignatureError):
            raise TokenRefused(
                "The access token is not valid yet. Check the clocks.", is_guess=False, may_pass=True
            ) from None
        if isinstance(error, jwt.InvalidAudienceError):
            raise TokenRefused(
                f"The access token is for another server: its `aud` is not {self._audiences[0]}."
            ) from None
        if isinstance(error, jwt.InvalidIssuerError):
            raise TokenRefused(f"The access token is from another issuer: its `iss` is not {self._issuer}.") from None
        if isinstance(error, jwt.MissingRequiredClaimError):
            raise TokenRefused(f"The access token has no claim `{error.claim}`.") from None
        raise TokenRefused("The access token is not signed by the authorization server, or is malformed.") from None


def _header(token: str) -> tuple[str | None, str]:
    """Key id and algorithm, as the token claims them. Raises `TokenRefused`."""
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


def _is_usable(subject: str) -> bool:
    return 0 < len(subject) <= _MAX_SUBJECT_CHARS and all("!" <= letter <= "~" for letter in subject)
