"""HTTP connections of Outlast to other machines: one pool, and a transport for `httpx2`, which the MCP SDK and the
libraries of model providers use.

Proxies and certificates are those of the environment (`outlast.proxies`). With `AddressRules`, the target of each
connection is checked, also behind a proxy: its name is resolved here, and the proxy gets the address that was checked.
"""

import asyncio
import base64
import contextlib
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import httpcore2
import httpx2

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.web.address_rules import AddressRules, IpAddress
from outlast.proxies import proxy_url

_MAX_PROXY_ANSWER_BYTES = 16 * 1024
_MAX_TUNNELS = 3
"""Addresses of a target that are tried through a proxy."""
_resolvers = ThreadPoolExecutor(128, thread_name_prefix="resolver")
"""Threads that look up hosts which users name. Such a name server may never answer, and a look-up cannot be cancelled:
in the event loop's own few threads, it would delay everything else of the process."""


class AnswerTooLargeError(httpcore2.RemoteProtocolError):
    """More was sent than is read from one connection."""


class ProxyFailed(httpcore2.ConnectError):
    """The proxy of the environment cannot be reached, or refuses the target. The message has no password."""


class OutboundPool(httpcore2.AsyncConnectionPool):
    """A pool of connections, each to an address that `rules` allow."""

    def __init__(
        self,
        rules: AddressRules | None = None,
        *,
        max_bytes: int | None = None,
        proxy_resolves: bool = False,
        max_connections: int = 100,
        max_keepalive_connections: int = 20,
    ) -> None:
        """Without `rules`, every address is allowed. A connection ends after `max_bytes` were read.

        `proxy_resolves`: a proxy gets names, also those that cannot be resolved here. Then it must refuse the addresses
        that `rules` forbid.
        """
        self._tls = _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        super().__init__(
            ssl_context=self._tls,
            max_connections=max_connections,
            max_keepalive_connections=max_keepalive_connections,
            keepalive_expiry=5.0,
        )
        self._rules = rules
        self._max_bytes = max_bytes
        self._proxy_resolves = proxy_resolves or rules is None

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        """Return a connection for requests to `origin` (`httpcore2.AsyncConnectionPool`)."""
        network = _Network(self._rules, self._proxy_of(origin), self._max_bytes, self._tls)
        network.names_target = self._proxy_resolves
        network.forwards = self._forwards(origin)
        return httpcore2.AsyncHTTPConnection(
            origin=origin, ssl_context=self._tls, keepalive_expiry=5.0, network_backend=network
        )

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request (`httpcore2.AsyncConnectionPool`)."""
        if self._forwards(request.url.origin):
            proxy = self._proxy_of(request.url.origin)
            url = request.url
            port = None if url.port == 80 else url.port  # as in the header `Host`
            bare = httpcore2.URL(scheme=url.scheme, host=url.host, port=port, target=url.target)
            whole = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=bytes(bare))
            headers = [*request.headers, *(_authorization(proxy) if proxy is not None else ())]
            request = httpcore2.Request(
                request.method, whole, headers=headers, content=request.stream, extensions=request.extensions
            )
        return await super().handle_async_request(request)

    def _forwards(self, origin: httpcore2.Origin) -> bool:
        """Return True for requests over plain HTTP that a proxy gets as they are, and resolves."""
        return origin.scheme == b"http" and self._proxy_resolves and self._proxy_of(origin) is not None

    @staticmethod
    def _proxy_of(origin: httpcore2.Origin) -> str | None:
        return proxy_url(origin.scheme.decode(), origin.host.decode(), origin.port, os.environ)


class OutboundTransport(httpx2.AsyncHTTPTransport):
    """An `OutboundPool` as a transport of `httpx2`, for responses whose end is far away."""

    def __init__(self, rules: AddressRules | None = None, **options: Any) -> None:
        """Take the arguments of `OutboundPool`."""
        pool = OutboundPool(rules, **options)
        super().__init__(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self._pool = pool


def outbound_client(
    rules: AddressRules | None = None, *, max_connections: int = 100, max_bytes: int | None = None, **settings: Any
) -> httpx2.AsyncClient:
    """Return a client for requests to other machines; `settings` are those of `httpx2.AsyncClient`."""
    transport = OutboundTransport(rules, max_connections=max_connections, max_bytes=max_bytes)
    return httpx2.AsyncClient(transport=transport, trust_env=False, **settings)


@cache
def _tls_context(file: str | None, folder: str | None) -> ssl.SSLContext:  # noqa: ARG001 (a context per environment)
    """Reading the certificates takes 20 ms, so that pools share them."""
    return httpx2.create_ssl_context()


class _Network(httpcore2.AsyncNetworkBackend):
    """Resolves a name, has the rules judge every address of it, and connects to one of those: no second look-up."""

    def __init__(
        self, rules: AddressRules | None, proxy: str | None, max_bytes: int | None, tls: ssl.SSLContext
    ) -> None:
        self.names_target = False
        """The proxy gets the name of the target."""
        self.forwards = False
        """The proxy gets requests, not a tunnel."""
        self._rules = rules
        self._proxy = proxy
        self._max_bytes = max_bytes
        self._tls = tls
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to `host` (`httpcore2.AsyncNetworkBackend`). Raises `AddressNotAllowed`."""
        resolved = await self._checked(host, port)
        if self._proxy is None:
            names = [str(address) for address in resolved] or [host]
            made = await self._first(names, port, timeout, local_address, socket_options)
        else:
            made = await self._through_proxy(self._proxy, host, port, resolved, timeout)
        return made if self._max_bytes is None else _BoundedStream(made, self._max_bytes)

    async def sleep(self, seconds: float) -> None:
        """Pause (`httpcore2.AsyncNetworkBackend`)."""
        await asyncio.sleep(seconds)

    async def _checked(self, host: str, port: int) -> list[IpAddress]:
        """Return the addresses of `host`, which are allowed. Empty if it is not resolved here."""
        if self._rules is None:
            return []
        try:
            resolved = await resolve(host, port)
        except ToolFailure:
            if self._proxy is not None and self.names_target:
                return []
            raise
        self._rules.check_resolved(host, port, resolved)
        return resolved

    async def _first(
        self,
        hosts: list[str],
        port: int,
        timeout: float | None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception | None = None
        for host in hosts:
            try:
                return await self._network.connect_tcp(host, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError("It has no address.")

    async def _through_proxy(
        self, proxy: str, host: str, port: int, resolved: list[IpAddress], timeout: float | None
    ) -> httpcore2.AsyncNetworkStream:
        """Return a tunnel to the target, or the connection with the proxy if it gets the requests themselves."""
        if self.forwards:
            return await self._connected(proxy, timeout)
        names = [host] if self.names_target else [str(address) for address in resolved[:_MAX_TUNNELS]]
        failure: Exception | None = None
        for name in names:
            stream = await self._connected(proxy, timeout)
            try:
                await _open_tunnel(stream, f"[{name}]:{port}" if ":" in name else f"{name}:{port}", proxy, timeout)
            except ProxyFailed as error:
                await stream.aclose()
                failure = error
            except BaseException:
                await stream.aclose()
                raise
            else:
                return stream
        raise failure or httpcore2.ConnectError(f"{host} has no address.")

    async def _connected(self, proxy: str, timeout: float | None) -> httpcore2.AsyncNetworkStream:
        parts = urlsplit(proxy)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ProxyFailed("its proxy is neither an http:// nor an https:// address")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            stream = await self._network.connect_tcp(parts.hostname, port, timeout)
            return stream if parts.scheme == "http" else await stream.start_tls(self._tls, parts.hostname, timeout)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
            raise ProxyFailed(f"the proxy {parts.hostname}:{port} cannot be reached") from None


async def _open_tunnel(stream: httpcore2.AsyncNetworkStream, target: str, proxy: str, timeout: float | None) -> None:
    """Have the proxy connect to `target` (RFC 9110, section 9.3.6). Raises `ProxyFailed`."""
    lines = [f"CONNECT {target} HTTP/1.1".encode(), f"Host: {target}".encode()]
    lines += [name + b": " + value for name, value in _authorization(proxy)]
    await stream.write(b"\r\n".join([*lines, b"", b""]), timeout)
    answer = b""
    while b"\r\n\r\n" not in answer:
        chunk = await stream.read(_MAX_PROXY_ANSWER_BYTES, timeout)
        answer += chunk
        if not chunk or len(answer) > _MAX_PROXY_ANSWER_BYTES:
            raise ProxyFailed("the proxy did not answer with HTTP")
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0].split(b" ")[1:2]
    if not status or not status[0].isdigit() or not status[0].startswith(b"2") or rest:
        shown = status[0].decode() if status and status[0].isdigit() else "something other than HTTP"
        raise ProxyFailed(f"the proxy answered {shown[:30]}")


def _authorization(proxy: str) -> list[tuple[bytes, bytes]]:
    """Return the header for the user and password of the proxy's address, if it has them."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return []
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return [(b"Proxy-Authorization", b"Basic " + base64.b64encode(credentials.encode()))]


async def resolve(host: str, port: int) -> list[IpAddress]:
    """Return the IP addresses of a host. The resolver also normalises an IP address in an unusual notation.

    Raises `ToolFailure` for a host that does not exist.
    """
    loop = asyncio.get_running_loop()
    try:
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await loop.run_in_executor(_resolvers, look_up)
    except (socket.gaierror, UnicodeError):
        raise ToolFailure.of(ErrorCategory.NOT_FOUND, f"There is no host {host!r}.", "Check the address.") from None
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(text) for text in texts]


class _BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection that ends when the other side has sent too much, whatever it is: also interim answers without end,
    each of which costs processor time.
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream, max_bytes: int) -> None:
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
    ) -> httpcore2.AsyncNetworkStream:
        try:
            secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            # httpcore leaves the connection open when it is cancelled.
            with contextlib.suppress(Exception):
                await self._stream.aclose()
            raise
        return _BoundedStream(secured, self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
