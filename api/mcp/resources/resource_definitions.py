"""A resource. Extensions list theirs in `RESOURCES`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


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
    """Whether only connections that show apps are offered it, where the mode's connections differ in that."""

    @property
    def is_template(self) -> bool:
        """Whether the URI has parts to fill in."""
        return "{" in self.uri

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the parts when `uri` is a URI of this resource, else None."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.uri))
        found = re.fullmatch(pattern, uri)
        return found.groupdict() if found else None
