"""URIs of resources of MCP servers, as clients see them. Pure.

A resource keeps the URI of its server if no other server may have one with it, and it is none of Outlast's.
`outlast://servers/NAME/URI` means the resource of one server in any case; both can be read.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from outlast.activities.contracts import JsonObject
from outlast.activities.mcp_servers.contracts import ServerListing

_PREFIX = "outlast://servers/"
_ALIAS = re.compile(re.escape(_PREFIX) + r"([A-Za-z0-9_-]{1,32})/(.+)", re.DOTALL)
_OUR_SCHEMES = ("outlast:", "ui:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.")


def alias_of(server: str, uri: str) -> str:
    """Return the URI that means a resource, or a template, of one server in any case."""
    return f"{_PREFIX}{server}/{uri}"


class AmbiguousUri(ValueError):
    """Several servers may have the resource. `uris` mean each of them."""

    def __init__(self, uri: str, uris: Iterable[str]) -> None:
        self.uris = tuple(uris)
        super().__init__(f"Several MCP servers may have {uri}. Read one of: {', '.join(self.uris)}")


@dataclass(frozen=True)
class OwnUri:
    """A resource of a server under the server's own URI."""

    server: str
    uri: str


class ServerUris:
    """The URIs of the servers that one client is offered."""

    def __init__(self, listings: Mapping[str, ServerListing], is_ours: Callable[[str], bool]) -> None:
        """`is_ours` is true for URIs of Outlast's own resources."""
        self._servers = frozenset(listings)
        self._is_ours = is_ours
        self._listed: dict[str, set[str]] = {}
        self._prefixes: dict[str, tuple[str, ...]] = {}
        for name, listing in listings.items():
            for uri in _texts(listing.resources, "uri"):
                self._listed.setdefault(uri, set()).add(name)
            prefixes = (template.partition("{")[0] for template in _texts(listing.resource_templates, "uriTemplate"))
            self._prefixes[name] = tuple({prefix for prefix in prefixes if _SCHEME.match(prefix)})

    def target(self, uri: str) -> OwnUri | None:
        """Return the one server that has the resource; None if none has. Raises `AmbiguousUri`."""
        written = _ALIAS.fullmatch(uri)
        if written is not None:
            return OwnUri(written[1], written[2]) if written[1] in self._servers else None
        owners = () if self._is_reserved(uri) else self._owners(uri)
        if len(owners) > 1:
            raise AmbiguousUri(uri, (alias_of(owner, uri) for owner in owners))
        return OwnUri(owners[0], uri) if owners else None

    def shown(self, server: str, uri: str) -> str:
        """Return the URI under which a resource of a server is listed and linked."""
        if uri.startswith(_PREFIX) or self._is_reserved(uri) or self._owners(uri) != (server,):
            return alias_of(server, uri)
        return uri

    def shown_template(self, server: str, template: str) -> str:
        """Return the template of a server as it is listed: no URI made from it may be one of another server."""
        prefix = template.partition("{")[0]
        others = (one for name, prefixes in self._prefixes.items() if name != server for one in prefixes)
        is_shared = any(one.startswith(prefix) or prefix.startswith(one) for one in others)
        is_listed = any(uri.startswith(prefix) and owners != {server} for uri, owners in self._listed.items())
        is_own = _SCHEME.match(prefix) is not None and not self._is_reserved(prefix)
        return template if is_own and not is_shared and not is_listed else alias_of(server, template)

    def target_of_template(self, template: str) -> OwnUri | None:
        """Return the server of a listed template, and the template as its server has it."""
        written = _ALIAS.fullmatch(template)
        if written is not None:
            return OwnUri(written[1], written[2]) if written[1] in self._servers else None
        prefix = template.partition("{")[0]
        owners = [name for name, prefixes in self._prefixes.items() if prefix in prefixes]
        return OwnUri(owners[0], template) if len(owners) == 1 else None

    def _owners(self, uri: str) -> tuple[str, ...]:
        """Return the servers that list a resource, or a template that begins like it."""
        listed = self._listed.get(uri, set())
        by_template = {name for name, prefixes in self._prefixes.items() if uri.startswith(prefixes)}
        return tuple(sorted(listed | by_template))

    def _is_reserved(self, uri: str) -> bool:
        return uri.lower().startswith(_OUR_SCHEMES) or self._is_ours(uri)


def _texts(entries: Iterable[JsonObject], key: str) -> Iterable[str]:
    return (value for entry in entries if isinstance(value := entry.get(key), str))
