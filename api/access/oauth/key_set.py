"""The public keys that an authorization server publishes (RFC 7517)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from jwt import PyJWK, PyJWTError

_ALGORITHMS: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""Which algorithms fit a key, by type and curve. None is symmetric: a public key must not serve as a shared secret."""
ALGORITHMS = frozenset(name for names in _ALGORITHMS.values() for name in names)

_Place = tuple[str | None, str]
"""Key id and algorithm."""


@dataclass(frozen=True)
class KeySet:
    """Keys that verify signatures, as the issuer wrote them."""

    keys: tuple[Mapping[str, object], ...]
    _parsed: dict[_Place, PyJWK | None] = field(default_factory=dict[_Place, PyJWK | None])

    @classmethod
    def parse(cls, document: object) -> "KeySet":
        """The usable keys of a JSON Web Key Set: none for encryption, none that is symmetric. Raises `ValueError`."""
        entries = cast(Mapping[str, object], document).get("keys") if isinstance(document, Mapping) else None
        if not isinstance(entries, list):
            raise ValueError("the keys are not a JSON Web Key Set")  # noqa: TRY004  # a stranger's document, not a bug
        found = [cast(Mapping[str, object], key) for key in cast(list[object], entries) if isinstance(key, Mapping)]
        usable = tuple(key for key in found if _fitting(key) and key.get("use") in (None, "sig"))
        if not usable:
            raise ValueError("there is no key for an asymmetric signature among the keys")
        return cls(usable)

    def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """The key for a token's header; without a key id, the only key that fits. None when there is no such key."""
        place = key_id, algorithm
        if place not in self._parsed:
            fitting = [key for key in self.keys if algorithm in _fitting(key)]
            named = fitting if key_id is None else [key for key in fitting if key.get("kid") == key_id]
            if len(named) != 1:
                return None
            self._parsed[place] = _parsed(named[0], algorithm)
        return self._parsed[place]


def _fitting(key: Mapping[str, object]) -> tuple[str, ...]:
    """The algorithms for which a key may be used."""
    kind, curve, named = key.get("kty"), key.get("crv"), key.get("alg")
    names = _ALGORITHMS.get((str(kind), None if kind == "RSA" else str(curve)), ())
    return names if named is None else tuple(name for name in names if name == named)


def _parsed(key: Mapping[str, object], algorithm: str) -> PyJWK | None:
    try:
        return PyJWK(dict(key), algorithm)
    except PyJWTError:
        return None
