"""Fetching web pages under `AddressRules`: each hop is checked, each connection goes to an address that was checked."""

import asyncio
import ipaddress
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

import httpcore
import httpx

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.media import decoded
from outlast.activities.web.address_rules import AddressRules, IpAddress, WebAddress

MAX_HOPS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_USER_AGENT = "Outlast (documentation and page tools)"
_INFLATE_STEP_BYTES = 65_536
_MAX_HEAD_BYTES = 128 * 1024
"""Headers and interim answers of a page, beside its body; all of them count."""
_resolvers = ThreadPoolExecutor(128, thread_name_prefix="resolver")
"""Threads that look up hosts which users name. Such a name server may never answer, and a look-up cannot be cancelled:
in the event loop's own few threads, it would delay everything else of the process."""

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


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Resolves a name, has the rules judge every address of it, and connects to one of those: no second look-up."""

    def __init__(self, rules: AddressRules, *, max_bytes: int) -> None:
        self._rules = rules
        self._max_bytes = max_bytes
        self._network = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to `host` (`httpcore.AsyncNetworkBackend`). Raises `AddressNotAllowed`."""
        resolved = await _resolve(host, port)
        self._rules.check_resolved(host, port, resolved)
        failure: Exception | None = None
        for address in resolved:
            try:
                made = await self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
                return _BoundedStream(made, self._max_bytes)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address.")

    async def sleep(self, seconds: float) -> None:
        """Pause (`httpcore.AsyncNetworkBackend`)."""
        await asyncio.sleep(seconds)


class _BoundedStream(httpcore.AsyncNetworkStream):
    """A connection that ends when the other side has sent too much, whatever it is: also interim answers without end,
    each of which costs processor time.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream, max_bytes: int) -> None:
        self._stream = stream
        self._left = max_bytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._left <= 0:
            raise AnswerTooLargeError("It sent too much.")
        read = await self._stream.read(min(max_bytes, self._left), timeout)
        self._left -= len(read)
        return read

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            # httpcore leaves the connection open when it is cancelled.
            await self._stream.aclose()
            raise
        return _BoundedStream(secured, self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class AnswerTooLargeError(httpcore.RemoteProtocolError):
    """More was sent than is read from one connection."""


class WebFetcher:
    """Fetches text under one set of rules. Sends no cookies and no credentials, and uses no proxy."""

    def __init__(self, rules: AddressRules, limits: FetchLimits | None = None) -> None:
        self.rules = rules
        self._limits = limits or FetchLimits()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            network_backend=GuardedNetwork(rules, max_bytes=self._limits.max_bytes + _MAX_HEAD_BYTES),
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
        except (TimeoutError, httpcore.TimeoutException):
            raise _failed(address, "it did not answer in time", ErrorCategory.TIMEOUT) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, OSError) as error:
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
        url = httpcore.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target)
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

    async def _read_body(self, address: WebAddress, response: httpcore.Response, encoding: str) -> bytes:
        if encoding not in ("identity", "gzip"):
            raise _failed(address, f"it is encoded as {encoding}", ErrorCategory.VALIDATION)
        chunks: AsyncIterator[bytes] = response.aiter_stream()
        body = bytearray()
        async for chunk in _inflated(chunks) if encoding == "gzip" else chunks:
            body += chunk
            if len(body) > self._limits.max_bytes:
                raise _failed(address, f"it is larger than {self._limits.max_bytes} bytes", ErrorCategory.VALIDATION)
        return bytes(body)


async def _resolve(host: str, port: int) -> list[IpAddress]:
    """Return the IP addresses of a host. The resolver also normalises an IP address in an unusual notation."""
    loop = asyncio.get_running_loop()
    try:
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await loop.run_in_executor(_resolvers, look_up)
    except (socket.gaierror, UnicodeError):
        raise ToolFailure.of(ErrorCategory.NOT_FOUND, f"There is no host {host!r}.", "Check the address.") from None
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(text) for text in texts]


async def _inflated(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Decompress gzip in small steps, so that the size is checked before a few bytes can fill the memory."""
    inflater: Any = zlib.decompressobj(wbits=31)
    async for chunk in chunks:
        rest = chunk
        while rest and not inflater.eof:
            try:
                yield inflater.decompress(rest, _INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise httpcore.RemoteProtocolError(str(error)) from None
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
