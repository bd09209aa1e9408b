"""The rules on web addresses that may be fetched. Pure; the fetcher applies them before and at each connection. An
address is checked twice: as text (scheme, port, user, origin), and as the IP addresses to which its host resolves when
the connection is made (`fetcher`), so that neither a redirect nor a changed DNS answer bypasses the rules.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote

import httpx

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL_CHARS = 2_048
_DEFAULT_PORTS = {"http": 80, "https": 443}
_WEB_PORTS = frozenset({80, 443, 8080, 8443})
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses as seen through a NAT64 gateway (RFC 6052)."""

_ALLOWED_BY = (
    "To allow this machine, private networks and all ports, the operator sets OUTLAST_ALLOW_PRIVATE_ADDRESSES=true for "
    "API and worker."
)


class AddressNotAllowed(ToolFailure):
    """The address may not be fetched."""

    def __init__(self, address: str, reason: str, hint: str | None = None, *, is_private: bool = False) -> None:
        """`reason` completes the sentence "It may not be fetched: ..."; `is_private` if `allow_private` allows it."""
        self.reason = reason
        self.remedy = _ALLOWED_BY if is_private else ""
        shown = address if len(address) <= 200 else address[:199] + "…"
        super().__init__(
            ErrorEnvelope.permanent(
                ErrorCategory.PERMISSION,
                "",
                f"{shown!r} may not be fetched: {reason}.",
                hint=hint or "Give the full address of a public web page, such as https://example.com/page.",
            )
        )


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An http(s) address, parsed once, so that the checked address is the one that is connected to."""

    scheme: str
    host: str
    port: int
    target: str
    fragment: str

    @classmethod
    def parse(cls, text: str, *, base: "WebAddress | None" = None) -> Self:
        """Parse an address, relative to `base` if given. Raises `AddressNotAllowed` for an invalid one."""
        if len(text) > MAX_URL_CHARS:
            raise AddressNotAllowed(text, f"it is longer than {MAX_URL_CHARS} characters")
        if "\\" in text or any(ord(letter) <= 0x20 or ord(letter) == 0x7F for letter in text):
            raise AddressNotAllowed(text, "it has characters that are not allowed in an address")
        try:
            url = httpx.URL(base.url).join(text) if base else httpx.URL(text)
        except (httpx.InvalidURL, ValueError):
            raise AddressNotAllowed(text, "it is not a valid address") from None
        if url.scheme not in _DEFAULT_PORTS:
            raise AddressNotAllowed(text, "only http and https are fetched")
        if url.userinfo:
            raise AddressNotAllowed(text, "it contains a user name")
        host = url.raw_host.decode("ascii").rstrip(".").lower()
        port = url.port or _DEFAULT_PORTS[url.scheme]
        if not _HOST.fullmatch(host) or port > 65_535:
            raise AddressNotAllowed(text, "its host or port is not valid")
        return cls(url.scheme, host, port, url.raw_path.decode("ascii"), url.fragment)

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def netloc(self) -> str:
        """Host and port as the `Host` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address without its fragment."""
        return f"{self.scheme}://{self.netloc}{self.target}"

    def is_below(self, base: "WebAddress") -> bool:
        """Return True for `base` or an address in its folder. A path that a server may read as `..` is outside."""
        path = unquote(self.target.partition("?")[0])
        if self.origin != base.origin or ".." in path.replace("\\", "/").split("/"):
            return False
        folder = base.target.partition("?")[0]
        return path.startswith(folder if folder.endswith("/") else folder + "/") or path == folder.rstrip("/")


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The addresses that may be fetched: with `sites`, only addresses below one of them, else any public address.
    `trusts_sites` means that an operator configured the sites: their hosts may have any IP address, loopback too.
    `allow_private` allows private and loopback addresses; link-local ones, where clouds serve credentials, are never
    allowed.
    """

    sites: tuple[WebAddress, ...] = ()
    trusts_sites: bool = False
    allow_private: bool = False

    def check(self, address: WebAddress) -> None:
        """Check an address as text. Raises `AddressNotAllowed`."""
        if self.sites:
            if not any(address.is_below(site) for site in self.sites):
                named = " or ".join(site.url for site in self.sites)
                hint = f"Fetch addresses below {named}."
                raise AddressNotAllowed(address.url, "it is outside the documentation", hint)
        elif address.port not in _WEB_PORTS and not self.allow_private:
            ports = ", ".join(map(str, sorted(_WEB_PORTS)))
            raise AddressNotAllowed(address.url, f"its port is not one of {ports}", is_private=True)

    def check_resolved(self, host: str, port: int, resolved: Iterable[IpAddress]) -> None:
        """Check the IP addresses of `host`: all must be allowed. Raises `AddressNotAllowed`."""
        if self.trusts_sites and any((site.host, site.port) == (host, port) for site in self.sites):
            return
        for address in resolved:
            if not self._may_connect(address):
                reason, is_private = "it resolves to an address that is not public", _is_private(unwrapped(address))
                raise AddressNotAllowed(host, reason, is_private=is_private)

    def _may_connect(self, address: IpAddress) -> bool:
        plain = unwrapped(address)
        return is_public(plain) or (self.allow_private and _is_private(plain))


def _is_private(plain: IpAddress) -> bool:
    return (plain.is_private or plain.is_loopback) and not (
        plain.is_link_local or plain.is_unspecified or plain.is_multicast
    )


def is_public(address: IpAddress) -> bool:
    """Return True if an address belongs to a host on the public internet."""
    plain = unwrapped(address)
    site_local = isinstance(plain, ipaddress.IPv6Address) and plain.is_site_local
    return plain.is_global and not (plain.is_multicast or plain.is_reserved or plain.is_unspecified or site_local)


def unwrapped(address: IpAddress) -> IpAddress:
    """Return the IPv4 address embedded in an IPv6 address (mapped, 6to4, Teredo, NAT64), else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    return inner or address
