"""A small authorization server: registration, authorization code with PKCE, refresh, signed access tokens (RFC 9068).

The endpoints are those of the MCP SDK; what is granted, signed and published is here. Whoever asks is the same person,
who agrees to everything within `consents`.
"""

import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import build_metadata, create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.http.in_process import listening, serving

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
METADATA, KEYS = "/.well-known/oauth-authorization-server", "/keys"
HOUR_SECONDS = 3_600


class SigningKey:
    """A key pair with its id."""

    def __init__(self, algorithm: str = "ES256", key_id: str | None = None) -> None:
        """A new pair."""
        self.algorithm = algorithm
        self.id = key_id or secrets.token_hex(4)
        self.private = _new_key(algorithm)

    @property
    def public(self) -> dict[str, Any]:
        """As the key set has it."""
        key: Any = self.private.public_key()
        shape = {"ES": ECAlgorithm, "Ed": OKPAlgorithm}.get(self.algorithm[:2], RSAAlgorithm)
        return {**json.loads(shape.to_jwk(key)), "kid": self.id, "use": "sig"}

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """A token with these claims."""
        return jwt.encode(claims, self.private, self.algorithm, headers={"kid": self.id, "typ": "at+jwt", **header})


class LocalIssuer(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The authorization server. Tests change its keys and its state, and make tokens that it never made."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.subject = "ann"
        self.consents: set[str] | None = None
        """The scopes that the person agrees to; None for all."""
        self.keys = [SigningKey()]
        self.status = 200
        """What metadata and keys are answered with."""
        self.reads: Counter[str] = Counter()
        self.asked: list[AuthorizationParams] = []
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._refresh: dict[str, RefreshToken] = {}

    def rotate(self) -> SigningKey:
        """Sign with a new key from now on; the old one is gone at once."""
        self.keys = [SigningKey()]
        return self.keys[0]

    def claims(self, audience: str, scope: str = "", **changed: Any) -> dict[str, Any]:
        """What a token says; `changed` values replace these, and None leaves a claim out."""
        now = int(time.time())
        said = {
            "iss": self.url,
            "sub": self.subject,
            "aud": audience,
            "iat": now,
            "exp": now + HOUR_SECONDS,
            "scope": scope,
            **changed,
        }
        return {name: value for name, value in said.items() if value is not None}

    def token(self, audience: str, scope: str = "", **changed: Any) -> str:
        """A token as this server makes it."""
        return self.keys[0].sign(self.claims(audience, scope, **changed))

    def app(self) -> Starlette:
        """Its routes."""
        registration, revocation = ClientRegistrationOptions(enabled=True), RevocationOptions()
        own = [Route(METADATA, self._metadata), Route(KEYS, self._key_set)]
        return Starlette(routes=[*own, *create_auth_routes(self, AnyHttpUrl(self.url), None, registration, revocation)])

    async def _metadata(self, _: Request) -> Response:
        shape = build_metadata(AnyHttpUrl(self.url), None, ClientRegistrationOptions(enabled=True), RevocationOptions())
        document = shape.model_dump(mode="json", exclude_none=True)
        more = {
            "issuer": self.url,
            "jwks_uri": self.url + KEYS,
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }
        return self._answer("metadata", {**document, **more})

    async def _key_set(self, _: Request) -> Response:
        return self._answer("keys", {"keys": [key.public for key in self.keys]})

    def _answer(self, what: str, document: dict[str, Any]) -> Response:
        self.reads[what] += 1
        return JSONResponse(document, status_code=self.status)

    # What the SDK's endpoints ask for.

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.asked.append(params)
        granted = [scope for scope in params.scopes or () if self.consents is None or scope in self.consents]
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=granted,
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.subject,
        )
        self._codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state, iss=self.url)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._codes[authorization_code.code]
        return self._issued(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self._refresh[refresh_token.token]
        return self._issued(client, scopes, refresh_token.resource)

    def _issued(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        assert resource is not None, "the client named no resource (RFC 8707)"
        refresh = RefreshToken(
            token=secrets.token_urlsafe(32), client_id=client.client_id or "", scopes=scopes, resource=resource
        )
        self._refresh[refresh.token] = refresh
        scope = " ".join(scopes)
        token = self.token(resource, scope, client_id=client.client_id, jti=secrets.token_hex(8))
        return OAuthToken(access_token=token, expires_in=HOUR_SECONDS, scope=scope, refresh_token=refresh.token)


@asynccontextmanager
async def running_issuer() -> AsyncIterator[LocalIssuer]:
    """An authorization server on a free port."""
    listener, url = listening()
    issuer = LocalIssuer(url)
    async with serving(issuer.app(), listener):
        yield issuer


def _new_key(algorithm: str) -> PrivateKey:
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
