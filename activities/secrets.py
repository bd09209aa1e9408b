"""Secrets: their encryption, their placeholders in JSON documents, and their files.

Authenticated encryption of secrets and content, with key ids for rotation: AES-256-GCM (NIST SP 800-38D), random
96-bit nonce. Secrets are decrypted only inside activities: no history, database or log has them in clear text. The
purpose (the caller's id) is authenticated, so a copied value does not decrypt for another caller.

Placeholders in JSON documents, for secrets and for large parts of inputs.

    {"$sealed": {"key_id": ..., "ciphertext": ...}}                          a secret, encrypted
    {"$kept": {"sha256": ..., "size_bytes": 7800000, "begin": "[{},{},..."}}  a large part, stored

The API encrypts secrets in place and activities decrypt them. Large parts are in the object store, so that workflow
code decodes a placeholder instead of millions of values. See docs/decisions/0014-opaque-inputs.md.

Secrets from files: every secret `NAME` may be given as `NAME_FILE`, the path of a file with it. Runtimes show a
container's environment, and children and core dumps contain it; a mounted file is not exposed. A variable takes
precedence over its file; an empty file counts as missing.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import AliasChoices, Field, JsonValue, SecretStr, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from outlast.activities.contracts import Contract, Digest, SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.fingerprints import KEY_BYTES, check_ring, parse_ring

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

NONCE_BYTES = 12
TAG_BYTES = 16
MAX_KEY_ID_BYTES = 40
_KEY_BYTES = 32


class ContentKeyMissing(Exception):
    """The content was encrypted under a key that is not in the ring. The message names the key."""


class ContentDamaged(Exception):
    """The content does not open: it was changed, cut, or belongs to another place."""


class ContentCipher:
    """Encrypts with the first key of the ring, and decrypts with any of them."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """`keys` is the ring. Raises `ValueError` for a key id of more than `MAX_KEY_ID_BYTES`."""
        for key_id in keys:
            if len(key_id.encode()) > MAX_KEY_ID_BYTES:
                raise ValueError(f"With encryption, a key id has at most {MAX_KEY_ID_BYTES} bytes: {key_id!r}.")
        self._keys = dict(keys)
        self.key_id = next(iter(keys))
        self._derived = lru_cache(maxsize=4096)(self._derive)

    def encrypt(self, data: bytes, *, tenant: str, bound_to: bytes, nonce: bytes | None = None) -> bytes:
        """Nonce and ciphertext of `data`. It opens for the same tenant and the same `bound_to` only."""
        nonce = nonce or secrets.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self._derived(self.key_id, tenant)).encrypt(nonce, data, bound_to)

    def decrypt(self, key_id: str, data: bytes, *, tenant: str, bound_to: bytes) -> bytes:
        """Return the content that `encrypt` was given. Raises `ContentKeyMissing` or `ContentDamaged`."""
        if key_id not in self._keys:
            raise ContentKeyMissing(
                f"This was encrypted under the key {key_id!r}, which is not in the ring of sealing keys. Put it back "
                "(OUTLAST_SEAL_KEYS or OUTLAST_SEAL_KEYS_FILE), for API and worker."
            )
        try:
            return AESGCM(self._derived(key_id, tenant)).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError) as error:
            raise ContentDamaged("Encrypted content does not open: it was changed or moved.") from error

    def nonce_of(self, data: bytes, *, tenant: str) -> bytes:
        """Return a nonce that follows from the content: the same content is encrypted to the same bytes again."""
        key = self._derived(self.key_id, f"nonces of {tenant}")
        return hmac.new(key, data, hashlib.sha256).digest()[:NONCE_BYTES]

    def _derive(self, key_id: str, tenant: str) -> bytes:
        derivation = HKDF(SHA256(), _KEY_BYTES, salt=None, info=f"outlast content 1\0{tenant}".encode())
        return derivation.derive(self._keys[key_id])


class SecretSealer:
    """Seals with the first key of the ring and opens with any of them. To rotate keys, put the new key first and keep
    the old one as long as tasks that were encrypted under it may run.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """`keys` is `{key id: 32 bytes}`, the encrypting key first. Raises `SealError` for no key or a wrong size."""
        try:
            check_ring(keys)
        except ValueError as error:
            raise SealError(str(error)) from error
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._keys = dict(keys)
        self._sealing_key_id = next(iter(keys))

    @classmethod
    def from_text(cls, text: str) -> "SecretSealer":
        """Read a ring of `KEYID:base64` entries, separated by line breaks or commas; `#` starts a comment line."""
        try:
            return cls(parse_ring(text))
        except ValueError as error:
            raise SealError(str(error)) from error

    @classmethod
    def from_file(cls, path: Path) -> "SecretSealer":
        """Read the ring from a file, see `from_text`. Raises `SealError` when it cannot be read."""
        try:
            return cls.from_text(path.read_text())
        except OSError as error:
            raise SealError(f"Cannot read the sealing keys in {path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise SealError(f"The sealing keys in {path} are not text: the file is damaged.") from error

    @classmethod
    def ephemeral(cls) -> "SecretSealer":
        """Return a ring with one random key that is lost with the process; for tests and single-process use."""
        return cls({"ephemeral": secrets.token_bytes(KEY_BYTES)})

    def content_cipher(self) -> ContentCipher:
        """Return the cipher of contents under keys that are derived from this ring."""
        return ContentCipher(self._keys)

    @property
    def ring(self) -> Mapping[str, bytes]:
        """The keys by id, the encrypting key first. For fingerprints; nothing else needs them."""
        return self._keys

    def seal(self, secret: SecretStr, *, purpose: str) -> SealedSecret:
        """Encrypt `secret`; it opens only for the same `purpose`."""
        key_id, sealed = self.seal_bytes(secret.get_secret_value().encode(), purpose=purpose)
        return SealedSecret(key_id=key_id, ciphertext=base64.b64encode(sealed).decode())

    def seal_bytes(self, data: bytes, *, purpose: str) -> tuple[str, bytes]:
        """Encrypt content; returns the id of the key and the encrypted bytes, which open for the same `purpose`."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return self._sealing_key_id, nonce + self._ciphers[self._sealing_key_id].encrypt(nonce, data, purpose.encode())

    def open_bytes(self, key_id: str, sealed: bytes, *, purpose: str) -> bytes:
        """Open what `seal_bytes` has encrypted. Raises `SealError` as `open` does."""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise SealError(f"Sealing key {key_id!r} is not in the ring; was it rotated out too early?")
        try:
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError) as error:
            raise SealError("Sealed content cannot be opened: it was changed, or sealed for another owner.") from error

    def digests(self, value: JsonValue) -> tuple[str, ...]:
        """Keyed digests of `value`, one per key of the ring, the encrypting key's first. Equal secrets have equal
        digests, also after a rotation, and the digests do not help to guess a secret.
        """
        text = json.dumps(value, sort_keys=True).encode()
        return tuple(hmac.new(key, text, hashlib.sha256).hexdigest() for key in self._keys.values())

    def derived_keys(self, purpose: str) -> dict[str, bytes]:
        """A key of 32 bytes for `purpose` from each key of the ring, by its id, the encrypting key's first (RFC 5869).
        A derived key reveals nothing about the ring, nor about the key of another purpose.
        """
        return {
            key_id: HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose.encode()).derive(key)
            for key_id, key in self._keys.items()
        }

    def open(self, sealed: SealedSecret, *, purpose: str) -> SecretStr:
        """Open an encrypted secret. Raises `SealError` for an unknown key, another purpose or a changed ciphertext."""
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise SealError(f"Sealing key {sealed.key_id!r} is not in the ring; was it rotated out too early?")
        try:
            raw = base64.b64decode(sealed.ciphertext, validate=True)
            plain = cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], purpose.encode())
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise SealError("A secret cannot be opened: it was changed, or encrypted for another caller.") from error
        return SecretStr(plain.decode())


_KEPT = "$kept"
_SEALED = "$sealed"
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_BEGIN_CHARS = 200
MASK = "[secret]"
"""The text that replaces an encrypted value where people read a document; `unmasked` turns it back."""


class KeptPart(Contract):
    """The JSON text that a mark replaces."""

    sha256: Digest
    size_bytes: int = Field(ge=0)
    begin: str = Field(default="", description="How the text begins, for people; empty for a secret.")
    secret: bool = Field(default=False, description="Whether the part is an encrypted secret.")

    @property
    def as_mark(self) -> dict[str, JsonValue]:
        """The mark, as a document holds it."""
        return {_KEPT: self.model_dump(mode="json")}

    @classmethod
    def of(cls, text: bytes, digest: str, *, secret: bool) -> "KeptPart":
        """Return the description of a JSON text with the SHA-256 `digest`."""
        begin = "" if secret else text[:_BEGIN_CHARS].decode(errors="ignore")
        return cls(sha256=digest, size_bytes=len(text), begin=begin, secret=secret)


def is_mark(value: object) -> bool:
    """Return True if `value` has the form of a mark."""
    return isinstance(value, dict) and set(value) == {_KEPT}  # pyright: ignore[reportUnknownArgumentType]


def hides_secret(value: Mapping[Any, Any]) -> bool:
    """Return True if `value` is the mark of an encrypted secret."""
    part = part_of(value)
    return part is not None and part.secret


def part_of(value: object) -> KeptPart | None:
    """Return the part that the mark `value` replaces; None for any other value, also for a mark not made here."""
    if not is_mark(value):
        return None
    try:
        return KeptPart.model_validate(value[_KEPT])  # type: ignore[index]  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]
    except ValidationError:
        return None


def seal_value(value: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """Return the encrypted form of `value`, which may enter a history."""
    sealed = sealer.seal(SecretStr(json.dumps(value)), purpose=_input_purpose(purpose))
    return {_SEALED: sealed.model_dump(mode="json")}


def open_values(document: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """`document` with every encrypted value opened. Raises `SealError` for one encrypted for another purpose."""
    if isinstance(document, list):
        return [open_values(part, sealer, purpose=purpose) for part in document]
    if not isinstance(document, dict):
        return document
    if set(document) == {_SEALED}:
        return _open_value(cast(object, document[_SEALED]), sealer, _input_purpose(purpose))
    return {key: open_values(part, sealer, purpose=purpose) for key, part in document.items()}


def _open_value(sealed: object, sealer: SecretSealer, purpose: str) -> JsonValue:
    try:
        secret = SealedSecret.model_validate(sealed)
    except ValidationError:
        # A caller can write `$sealed` too: that is an invalid input, and a retry does not help.
        raise SealError("A `$sealed` value in the input was not sealed by this server.") from None
    return _JSON.validate_json(sealer.open(secret, purpose=purpose).get_secret_value())


def _input_purpose(purpose: str) -> str:
    """Return the purpose of input values: a token or payment of the same caller must not open as an input value."""
    return f"input:{purpose}"


def server_secret_purpose(caller_id: str) -> str:
    """Return the purpose of a caller's secrets for MCP servers: they open for nothing else."""
    return f"server secret:{caller_id}"


def is_sealed(value: Mapping[Any, Any]) -> bool:
    """Return True if `value` has the form of an encrypted value."""
    return set(value) == {_SEALED}


def masked(document: JsonValue) -> JsonValue:
    """`document` with `MASK` instead of every encrypted value."""
    if isinstance(document, list):
        return [masked(part) for part in document]
    if not isinstance(document, dict):
        return document
    if is_sealed(document) or hides_secret(document):
        return MASK
    return {key: masked(part) for key, part in document.items()}


def places_of_masks(document: JsonValue, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Return the paths in `document` whose value is the text `MASK`."""
    if isinstance(document, dict):
        return {place for key, part in document.items() for place in places_of_masks(part, (*at, key))}
    if isinstance(document, list):
        return {place for number, part in enumerate(document) for place in places_of_masks(part, (*at, number))}
    return {at} if document == MASK else set()


def unmasked(edited: JsonValue, original: JsonValue) -> JsonValue:
    """`edited` with the encrypted values of `original` at the places where both documents show `MASK`."""
    if edited == MASK:
        return original if masked(original) == MASK else edited
    if isinstance(edited, dict):
        own = original if isinstance(original, dict) else {}
        return {key: unmasked(part, own.get(key)) for key, part in edited.items()}
    if isinstance(edited, list):
        kept = original if isinstance(original, list) else []
        return [unmasked(part, kept[place] if place < len(kept) else None) for place, part in enumerate(edited)]
    return edited


SUFFIX = "_FILE"
_OF_THE_STORE = {"AWS_ACCESS_KEY_ID": "aws_access_key_id", "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key"}
"""Credentials of an S3 store that are secrets, with obstore's names for them."""


def is_secret(field: FieldInfo) -> bool:
    """Return True if a setting must not be shown."""
    return field.annotation is SecretStr or SecretStr in get_args(field.annotation)


def names_of(name: str, field: FieldInfo, prefix: str) -> tuple[str, ...]:
    """Return the variables that the setting `name` is read from, the first one winning."""
    alias = field.validation_alias
    choices = map(str, alias.choices) if isinstance(alias, AliasChoices) else (f"{prefix}{name.upper()}",)
    return tuple(choice for choice in choices if choice.isupper())


def secret_file_variables(settings: "type[BaseSettings]") -> frozenset[str]:
    """Return the variables that name the file of a secret of `settings`."""
    return frozenset(f"{name}{SUFFIX}" for names in _secrets_of(settings).values() for name in names)


def read_secret_files(settings: "type[BaseSettings]", environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of `settings` that are read from files, by the setting's name. Raises `ValueError`, naming the
    variable and the file but nothing of its content, when a file cannot be read.
    """
    found: dict[str, str] = {}
    for setting, names in _secrets_of(settings).items():
        for name in names:
            secret = secret_from_file(name, environment)
            if secret is not None:
                found.setdefault(setting, secret)
    return found


def secret_from_file(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the secret whose file `NAME_FILE` names, without white space around it. Raises `ValueError` as above."""
    variable = f"{name}{SUFFIX}"
    path = environment.get(variable)
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except OSError as error:
        raise ValueError(f"{variable}: {path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{variable}: {path} is not text in UTF-8") from error


def store_credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Credentials of an S3 store that are read from files, under obstore's names; variables win, as everywhere."""
    found = {
        option: secret_from_file(name, environment)
        for name, option in _OF_THE_STORE.items()
        if not environment.get(name)
    }
    return {option: secret for option, secret in found.items() if secret is not None}


def _secrets_of(settings: "type[BaseSettings]") -> dict[str, tuple[str, ...]]:
    return dict(_named_secrets(settings))


def _named_secrets(settings: "type[BaseSettings]") -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the secrets and their variables, except the one whose file is a separate setting."""
    prefix = settings.model_config.get("env_prefix", "")
    for name, field in settings.model_fields.items():
        if is_secret(field) and f"{name}{SUFFIX.lower()}" not in settings.model_fields:
            yield name, names_of(name, field, prefix)
