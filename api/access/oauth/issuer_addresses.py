"""Which addresses an operator may name for an authorization server, and for this server."""

from urllib.parse import urlsplit

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def address_problem(url: str) -> str | None:
    """Why `url` cannot be an issuer or a resource (RFC 8414, section 2; RFC 9728, section 1.2); None when it can."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not an address"
    if parts.scheme not in ("http", "https") or not host:
        return "must be an address that begins with https://"
    if parts.scheme == "http" and host not in LOOPBACK:
        return "must begin with https://; http:// is for loopback only"
    if parts.username is not None or parts.query or parts.fragment:
        return "must have no user name, query or fragment"
    return None
