"""Fingerprints of what belongs together: the ring of sealing keys, a Temporal database, an output store.

They are recorded where the parts are kept: by the embedded stack in `version.json` of its data directory, by every
worker in the output store. A process that is started on a part that is missing, or that belongs to another stack,
finds this out before it writes, seals or deletes anything.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

KEY_BYTES = 32
_FINGERPRINT_CHARS = 32
_KEY_FORM = "A sealing key entry must read `KEYID:base64 of 32 bytes`."


def parse_ring(text: str) -> dict[str, bytes]:
    """Read a ring of `KEYID:base64` entries, separated by line breaks or commas; `#` starts a comment line.

    The sealing key comes first. Raises `ValueError`, without any part of a key, for a ring that cannot be used.
    """
    keys: dict[str, bytes] = {}
    for entry in (part.strip() for line in text.splitlines() for part in line.split(",")):
        if not entry or entry.startswith("#"):
            continue
        key_id, separator, encoded = entry.partition(":")
        if not separator:
            raise ValueError(_KEY_FORM)
        try:
            keys[key_id] = base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise ValueError(f"Sealing key {key_id!r} is not base64.") from error
    check_ring(keys)
    return keys


def check_ring(keys: Mapping[str, bytes]) -> None:
    """Raise `ValueError` for a ring without a key, or with one of another size."""
    if not keys:
        raise ValueError("No sealing key: give at least one line `KEYID:base64 of 32 bytes`.")
    for key_id, key in keys.items():
        if len(key) != KEY_BYTES:
            raise ValueError(f"Sealing key {key_id!r} has {len(key)} bytes; AES-256 needs {KEY_BYTES}.")


def fingerprints(ring: Mapping[str, bytes], subject: str = "ring", content: bytes = b"") -> dict[str, str]:
    """The fingerprint of `content` under each key of the ring, the sealing key's first.

    They are keyed digests: whoever does not have the ring cannot test a guess of the content, nor learn of the keys.
    """
    text = f"outlast fingerprint\0{subject}\0".encode() + content
    return {
        key_id: hmac.new(key, text, hashlib.sha256).hexdigest()[:_FINGERPRINT_CHARS] for key_id, key in ring.items()
    }


def ring_problem(recorded: Mapping[str, str], ring: Mapping[str, bytes]) -> str | None:
    """The reason why `ring` is not the recorded one or its successor; None when it is.

    A ring may gain keys, and lose those that no longer seal. The key that sealed last has to be in it.
    """
    if not recorded:
        return None
    own = fingerprints(ring)
    for key_id, known in recorded.items():
        if key_id in own and not hmac.compare_digest(own[key_id], known):
            return f"the key {key_id!r} is not the one that had this id before"
    sealing = next(iter(recorded))
    if sealing not in own:
        return f"the key {sealing!r} is missing, which secrets were sealed with last"
    return None


class StoreOwner(BaseModel):
    """The database and the ring whose work is in an output store; written by workers, one object per namespace."""

    model_config = ConfigDict(frozen=True)

    namespace_id: str
    """Temporal's id of the namespace, made at random with each database."""
    keys: dict[str, str] = {}
    """Fingerprints of the ring, see `fingerprints`."""


def owner_key(namespace: str) -> str:
    """The key of the object that names the owner of what a Temporal namespace keeps in the store."""
    return f"owner/{as_folder(namespace)}.json"


def as_folder(name: str) -> str:
    """`name` as one segment of a key: bytes other than letters, digits, `_` and `-` become `=` and two hex digits."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: "".join(f"={byte:02X}" for byte in found[0].encode()), name)
