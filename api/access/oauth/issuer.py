"""The metadata that an authorization server publishes (RFC 8414, OpenID Connect Discovery), and its keys."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from typing import cast
from urllib.parse import urlsplit

import httpx

from outlast.api.access.oauth.key_set import KeySet

_MAX_BYTES = 512 * 1024
_TOTAL_SECONDS = 10
_OK, _TOO_MANY = 200, 429


class IssuerError(Exception):
    """The issuer does not answer, or not as it should. The message says which, without an answer's text."""


class Issuer:
    """Reads an authorization server. Proxies of the environment are used; redirects are not followed."""

    def __init__(self, url: str) -> None:
        """The issuer that calls itself `url`, to the letter."""
        self.url = url
        self._ssl: ssl.SSLContext | None = None

    async def keys(self) -> KeySet:
        """The keys that it publishes now. Raises `IssuerError`."""
        self._ssl = self._ssl or httpx.create_ssl_context()
        try:
            async with (
                asyncio.timeout(_TOTAL_SECONDS),
                httpx.AsyncClient(verify=self._ssl, timeout=_TOTAL_SECONDS / 2) as http,
            ):
                address = await self._keys_address(http)
                return KeySet.parse(await _document(http, address))
        except (TimeoutError, httpx.TimeoutException):
            raise IssuerError(f"{self.url} does not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise IssuerError(f"{self.url} cannot be reached ({type(error).__name__})") from None
        except (ValueError, RecursionError) as error:
            reason = "no JSON" if isinstance(error, RecursionError | json.JSONDecodeError) else str(error)
            raise IssuerError(f"{self.url} publishes keys that cannot be used: {reason}") from None

    async def _keys_address(self, http: httpx.AsyncClient) -> str:
        """Where the keys are, as the metadata says."""
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


def metadata_addresses(issuer: str) -> Iterator[str]:
    """Where the metadata of an issuer may be: the places that MCP has clients try, in its order."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}/.well-known/openid-configuration{path}"
    if path:
        yield f"{origin}{path}/.well-known/openid-configuration"


async def _document(http: httpx.AsyncClient, address: str, *, or_none: bool = False) -> object:
    """The JSON at an address; with `or_none`, None when there is nothing."""
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
