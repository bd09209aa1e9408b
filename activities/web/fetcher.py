"""Fetching web pages under `AddressRules`: each hop is checked, each connection goes to an address that was checked."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpcore2

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.media import decoded
from outlast.activities.web.address_rules import AddressRules, WebAddress
from outlast.activities.web.network import OutboundPool, ProxyFailed

MAX_HOPS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_USER_AGENT = "Outlast (documentation and page tools)"
_INFLATE_STEP_BYTES = 65_536
_MAX_HEAD_BYTES = 128 * 1024
"""Headers and interim answers of a page, beside its body; all of them count."""
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES = frozenset({"text/markdown", "text/plain", "text/x-markdown"})
XML_TYPES = frozenset({"application/xml", "text/xml"})


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits on size and time. All hops of one fetch share the time."""

    max_bytes: int = 5 * 1024 * 1024
    total_seconds: float = 20.0
    connect_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class WebPage:
    """The answer of an address, redirects followed."""

    address: WebAddress
    mime_type: str
    text: str
    size_bytes: int


class WebFetcher:
    """Fetches text under one set of rules. Sends no cookies and no credentials."""

    def __init__(self, rules: AddressRules, limits: FetchLimits | None = None, *, proxy_resolves: bool = False) -> None:
        """For `proxy_resolves`, see `OutboundPool`."""
        self.rules = rules
        self._limits = limits or FetchLimits()
        self._pool = OutboundPool(
            rules,
            max_bytes=self._limits.max_bytes + _MAX_HEAD_BYTES,
            proxy_resolves=proxy_resolves,
            max_connections=20,
            # What is read from a connection is limited, so that none serves two pages.
            max_keepalive_connections=0,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.aclose()

    async def fetch(self, address: WebAddress, *, accept: frozenset[str]) -> WebPage:
        """The page at `address`, whose type must be in `accept`. Raises `ToolFailure` when it cannot be fetched."""
        try:
            async with asyncio.timeout(self._limits.total_seconds):
                return await self._follow(address, accept)
        except (TimeoutError, httpcore2.TimeoutException):
            raise _failed(address, "it did not answer in time", ErrorCategory.TIMEOUT) from None
        except ProxyFailed as error:
            raise _failed(address, str(error), ErrorCategory.NETWORK) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.UnsupportedProtocol, OSError) as error:
            raise _failed(address, f"the connection failed ({type(error).__name__})", ErrorCategory.NETWORK) from None

    async def _follow(self, address: WebAddress, accept: frozenset[str]) -> WebPage:
        for _ in range(MAX_HOPS):
            self.rules.check(address)
            page = await self._hop(address, accept)
            if isinstance(page, WebPage):
                return page
            address = page
        raise _failed(address, f"it redirects more than {MAX_HOPS} times", ErrorCategory.VALIDATION)

    async def _hop(self, address: WebAddress, accept: frozenset[str]) -> WebPage | WebAddress:
        """Return one request: the page, or the address of its redirect."""
        headers: Mapping[str | bytes, str | bytes] = {
            "Host": address.netloc,
            "Accept": ", ".join(sorted(accept)),
            "Accept-Encoding": "gzip",
            "User-Agent": _USER_AGENT,
        }
        limits = self._limits
        timeouts = {"connect": limits.connect_seconds, "read": limits.total_seconds, "pool": limits.total_seconds}
        url = httpcore2.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target)
        async with self._pool.stream("GET", url, headers=headers, extensions={"timeout": timeouts}) as response:
            answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            if response.status in _REDIRECTS and "location" in answered:
                return WebAddress.parse(answered["location"], base=address)
            _check_status(address, response.status)
            mime_type = answered.get("content-type", "").partition(";")[0].strip().lower()
            if mime_type not in accept:
                raise _failed(address, f"its type is {mime_type or 'not given'}", ErrorCategory.VALIDATION)
            body = await self._read_body(address, response, answered.get("content-encoding", "identity").lower())
        text, _ = decoded(body, answered.get("content-type", ""), is_last=True)
        return WebPage(address, mime_type, text, len(body))

    async def _read_body(self, address: WebAddress, response: httpcore2.Response, encoding: str) -> bytes:
        if encoding not in ("identity", "gzip"):
            raise _failed(address, f"it is encoded as {encoding}", ErrorCategory.VALIDATION)
        chunks: AsyncIterator[bytes] = response.aiter_stream()
        body = bytearray()
        async for chunk in _inflated(chunks) if encoding == "gzip" else chunks:
            body += chunk
            if len(body) > self._limits.max_bytes:
                raise _failed(address, f"it is larger than {self._limits.max_bytes} bytes", ErrorCategory.VALIDATION)
        return bytes(body)


async def _inflated(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Decompress gzip in small steps, so that the size is checked before a few bytes can fill the memory."""
    inflater: Any = zlib.decompressobj(wbits=31)
    async for chunk in chunks:
        rest = chunk
        while rest and not inflater.eof:
            try:
                yield inflater.decompress(rest, _INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise httpcore2.RemoteProtocolError(str(error)) from None
            rest = inflater.unconsumed_tail


def _check_status(address: WebAddress, status: int) -> None:
    if status in (404, 410):
        raise _failed(address, "there is no such page", ErrorCategory.NOT_FOUND)
    if status == 429:
        raise _failed(address, "it asks for fewer requests (429)", ErrorCategory.RATE_LIMIT)
    if status >= 500:
        raise _failed(address, f"its server answered {status}", ErrorCategory.PLATFORM)
    if status != 200:
        raise _failed(address, f"its server answered {status}", ErrorCategory.VALIDATION)


def _failed(address: WebAddress, reason: str, category: ErrorCategory) -> ToolFailure:
    retryable = category in (
        ErrorCategory.TIMEOUT,
        ErrorCategory.NETWORK,
        ErrorCategory.RATE_LIMIT,
        ErrorCategory.PLATFORM,
    )
    hint = "Try again later, or try another page." if retryable else "Try another page."
    return ToolFailure.of(category, f"{address.url} could not be fetched: {reason}.", hint, retryable=retryable)
