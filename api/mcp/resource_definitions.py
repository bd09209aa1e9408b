"""Resources of extensions (listed in `RESOURCES`) and modes, and addresses of the platform API that are resources."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_SECRETS = frozenset({"token", "signature"})
"""Parameters with credentials: the connection's caller reads, nobody else."""
READ_PARAMETERS = frozenset(
    "format clean offset limit fields outputFields omit unwind flatten desc attachment delimiter bom xmlRoot xmlRow "
    "skipHeaderRow skipHidden skipEmpty simplified skipFailedPages view exclusiveStartKey prefix collection "
    "waitForFinish raw".split()
)
"""Parameters of reads of storages, runs and logs (https://docs.apify.com/api/v2). Other parameters, such as another
method for the request, could do more than read.
"""


@dataclass(frozen=True)
class Resource:
    """A resource. A part `{name}` of `uri` makes it a template (RFC 6570); `read` receives the values of the parts."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    read: Callable[[Mapping[str, str]], str | bytes]
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    mode: str | None = None
    """The only mode that offers it; None for all modes."""
    payment: str | None = None
    """By what connections have to pay to be offered it; None for all connections."""
    is_app: bool = False
    """True to offer it only to connections that show apps, in modes where connections differ in that."""

    @property
    def is_template(self) -> bool:
        """True if the URI has parts to fill in."""
        return "{" in self.uri

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the parts when `uri` is a URI of this resource, else None."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.uri))
        found = re.fullmatch(pattern, uri)
        return found.groupdict() if found else None


@dataclass(frozen=True, slots=True)
class PlatformAddress:
    """A form of address, and the tool that reads the same: its rules count for the address, too."""

    path: tuple[str, ...]
    """The segments below `/v2`; `{name}` is any."""
    tool: str
    name: str | None = None
    """Of the template; None where the address can be read and is not listed."""
    query: str = ""
    """The template's parameters (RFC 6570)."""
    description: str = ""
    mime_type: str | None = None
    is_object: bool = False
    """True for an object of the API, which may contain signing keys."""

    def matches(self, segments: Sequence[str]) -> bool:
        """Check whether the segments match the path."""
        return len(segments) == len(self.path) and all(
            part.startswith("{") or part == segment for part, segment in zip(self.path, segments, strict=True)
        )

    def template(self, api_base_url: str) -> dict[str, str]:
        """Return the entry of `resources/templates/list`."""
        entry = {
            "uriTemplate": f"{api_base_url}/v2/{'/'.join(self.path)}{self.query}",
            "name": self.name or "",
            "description": self.description,
        }
        return {**entry, "mimeType": self.mime_type} if self.mime_type else entry


def is_web_address(uri: str) -> bool:
    """Check for an address that is read over HTTP."""
    return uri.lower().startswith(("http://", "https://"))


def segments_below(uri: str, api_base_url: str) -> tuple[tuple[str, ...], Mapping[str, str]] | None:
    """Return the path below `/v2` and the parameters, without credentials, of an address of the API.

    None for other addresses, for one with a user name, and for an ambiguous one.
    """
    try:
        parts, root = urlsplit(uri), urlsplit(api_base_url)
        same = (parts.scheme.lower(), parts.hostname, parts.port) == (root.scheme.lower(), root.hostname, root.port)
    except ValueError:
        return None
    prefix = f"{root.path.rstrip('/')}/v2/"
    if not same or parts.username is not None or parts.password is not None or not parts.path.startswith(prefix):
        return None
    segments = tuple(unquote(segment) for segment in parts.path.removeprefix(prefix).rstrip("/").split("/"))
    if any(segment in ("", ".", "..") or "/" in segment or "\\" in segment for segment in segments):
        return None
    given = parse_qsl(parts.query, keep_blank_values=True)
    return segments, {name: value for name, value in given if name not in _SECRETS}
