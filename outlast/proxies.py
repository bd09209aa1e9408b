"""Proxies and certificates of a corporate network, as the environment names them.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, of which the lower-case forms come first; `SSL_CERT_FILE` and
`SSL_CERT_DIR`. Proxies are never used for this machine.
"""

import ipaddress
import ssl
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from urllib.parse import urlsplit

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1")
_SCHEMES = ("https", "http")


def proxy_url(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """Return the address of the proxy for requests to `host`, which may contain a password; None without one."""
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    proxy = next((value for name in names if (value := environ.get(name, "").strip())), None)
    if proxy is None or _is_loopback(host) or _is_exempt(host, port, _exemptions(environ)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def exempt_loopback(environ: MutableMapping[str, str]) -> None:
    """Add this machine to `NO_PROXY`, for libraries and processes that would use a proxy for it as well."""
    if not any(
        environ.get(name) for scheme in (*_SCHEMES, "all") for name in (f"{scheme}_proxy", f"{scheme}_PROXY".upper())
    ):
        return
    entries = _exemptions(environ)
    value = ",".join([*entries, *(name for name in _LOOPBACK_NAMES if name not in entries)])
    environ["NO_PROXY"] = environ["no_proxy"] = value


def network_problems(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each variable that cannot be used, without passwords."""
    found = [_certificate_problem(environ)]
    for scheme in _SCHEMES:
        proxy = proxy_url(scheme, "proxied.example", 443, {**environ, "NO_PROXY": "", "no_proxy": ""})
        found.append(_proxy_problem(scheme, proxy) if proxy is not None else None)
    return tuple(dict.fromkeys(line for line in found if line is not None))


def _certificate_problem(environ: Mapping[str, str]) -> str | None:
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if file:
        try:
            ssl.create_default_context(cafile=file)
        except (OSError, ssl.SSLError) as error:
            reason = "has no certificates in PEM format" if isinstance(error, ssl.SSLError) else str(error.strerror)
            return f"SSL_CERT_FILE names {file}, which cannot be used: {reason}."
    elif folder and not any(Path(one).is_dir() for one in folder.split(":")):
        return f"SSL_CERT_DIR names {folder}, which is not a folder."
    return None


def _proxy_problem(scheme: str, proxy: str) -> str | None:
    try:
        parts = urlsplit(proxy)
        is_usable = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if is_usable:
        return None
    return f"The proxy of {scheme.upper()}_PROXY or ALL_PROXY is not usable: write it as http://HOST:PORT or https://HOST:PORT."


def _exemptions(environ: Mapping[str, str]) -> list[str]:
    text = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return [entry for part in text.replace(",", " ").split() if (entry := part.strip())]


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host.lower().rstrip(".") == "localhost" or (address is not None and address.is_loopback)


def _is_exempt(host: str, port: int, entries: list[str]) -> bool:
    return any(_matches(entry.lower(), host.lower().rstrip("."), port) for entry in entries)


def _matches(entry: str, host: str, port: int) -> bool:
    """Match as curl does: `*`, a name and those below it, an address or a block of them; also with a port."""
    if entry == "*":
        return True
    address = _address(host)
    try:
        network = ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        name, _, number = entry.rpartition(":") if entry.count(":") == 1 or "]:" in entry else (entry, "", "")
        if number and number != str(port):
            return False
        name = name.strip("[]").removeprefix("*").lstrip(".")
        return host == name or (bool(name) and host.endswith(f".{name}") and address is None)
    return address is not None and address in network


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
