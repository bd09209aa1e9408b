"""This server as an OAuth resource: its metadata (RFC 9728) and its challenges (RFC 6750)."""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import cast
from urllib.parse import urlsplit

from outlast.activities.contracts import JsonObject
from outlast.api.access.policy.contracts import OAuthEntry, Scope

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_FIRST: tuple[Scope, ...] = ("read", "call", "cancel")
"""Scopes for a client's first request: those of a new API key. Approvals are for people."""
_HARMLESS: frozenset[Scope] = frozenset(_FIRST)
_SCOPE_CLAIMS = frozenset({"scope", "scp"})


class OAuthResource:
    """The metadata for clients, and what their tokens allow. The policy may change while the API runs."""

    def __init__(self, url: str, issuer: str, mapping: Callable[[], OAuthEntry]) -> None:
        self.url = url
        """The address that tokens are made for, as it was set."""
        self._issuer = issuer
        self._mapping = mapping

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the metadata: below the path of the resource, and at the root."""
        return tuple(dict.fromkeys((urlsplit(metadata_address(self.url)).path, WELL_KNOWN, f"{WELL_KNOWN}/mcp")))

    def metadata(self) -> JsonObject:
        """The metadata of the resource (RFC 9728, section 2). Addresses are as they were set: clients compare texts."""
        mapping = self._mapping()
        return {
            "resource": self.url,
            "authorization_servers": [self._issuer],
            "bearer_methods_supported": ["header"],
            **({"scopes_supported": list(mapping.scopes)} if _are_scopes(mapping) else {}),
            "resource_name": "Outlast",
        }

    def scopes_of(self, claims: Mapping[str, object]) -> frozenset[Scope]:
        """Return Outlast's scopes for a token with these claims."""
        mapping = self._mapping()
        # The claim with this name, else the one that the dots in it lead to.
        values = (
            claims[name] if name in claims else reduce(_entry, name.split("."), claims) for name in mapping.claims
        )
        words = [word for value in values for word in _words(value)]
        return frozenset(scope for word in words for scope in mapping.scopes.get(word, ()))

    def challenge(self, *, error: str | None = None) -> str:
        """Return `WWW-Authenticate` of a 401; `error` explains why the token is refused."""
        quoted = "".join(letter for letter in error or "" if " " <= letter <= "~" and letter not in '"\\')
        error_fields = [] if error is None else ['error="invalid_token"', f'error_description="{quoted}"']
        return self._challenge(error_fields, (self._name_of((scope,)) for scope in _FIRST))

    def scope_challenge(self, needed: Iterable[Scope]) -> str:
        """Return `WWW-Authenticate` of a 403, with the scope that the request needs."""
        return self._challenge(['error="insufficient_scope"'], [self._name_of(needed)])

    def _challenge(self, error_fields: list[str], names: Iterable[str | None]) -> str:
        where = f'resource_metadata="{metadata_address(self.url)}"'
        known = " ".join(dict.fromkeys(name for name in names if name))
        return "Bearer " + ", ".join(
            ['realm="outlast"', *error_fields, *([f'scope="{known}"'] if known else []), where]
        )

    def _name_of(self, needed: Iterable[Scope]) -> str | None:
        """Return the issuer's scope that gives one of `needed`, and the least besides."""
        mapping = self._mapping()
        if not _are_scopes(mapping):
            return None
        wanted = set(needed)
        # A client that only reads should not request an operator's scopes.
        giving = [
            (len(given - wanted - _HARMLESS), len(given), name)
            for name, given in mapping.scopes.items()
            if given & wanted
        ]
        return min(giving, default=(0, 0, None), key=lambda entry: entry[:2])[2]


def metadata_address(resource: str) -> str:
    """Return the address of a resource's metadata (RFC 9728, section 3.1)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def _are_scopes(mapping: OAuthEntry) -> bool:
    """Check whether clients can request the values that the policy maps: roles cannot be requested."""
    return not _SCOPE_CLAIMS.isdisjoint(mapping.claims)


def _entry(value: object, name: str) -> object:
    return cast(Mapping[str, object], value).get(name) if isinstance(value, Mapping) else None


def _words(value: object) -> list[str]:
    """Return the entries of a claim: a list, or words separated by spaces alone (RFC 6749, section 3.3).

    Other white space does not separate: an issuer that lets a user choose part of a word would give scopes away.
    """
    if isinstance(value, str):
        return value.split(" ")
    return [entry for entry in cast(list[object], value) if isinstance(entry, str)] if isinstance(value, list) else []
