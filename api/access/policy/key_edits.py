"""Adds keys to a policy file and takes them away. Comments and order of the file stay."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from outlast.api.access.policy.contracts import KeyEntry
from outlast.api.access.policy.policy_file import PolicyError, parse_policy


def add_key(path: Path, entry: KeyEntry) -> None:
    """Add a key to the file at `path`, which is created when there is none. Raises `PolicyError`."""

    def added(document: TOMLDocument) -> None:
        table = tomlkit.table()
        values = entry.model_dump(mode="python", exclude_none=True)
        for name, value in values.items():
            table.add(name, sorted(value) if name == "scopes" else value)
        keys = _keys_of(path, document)
        if keys is None:
            keys = tomlkit.aot()
            document.append("keys", keys)
        keys.append(table)  # pyright: ignore[reportUnknownMemberType]  # the library leaves the type open

    _edit(path, added)


def remove_key(path: Path, key_id: str) -> bool:
    """Take the key with this id away. Returns whether there was one. Raises `PolicyError`."""
    found = False

    def removed(document: TOMLDocument) -> None:
        nonlocal found
        keys = _keys_of(path, document)
        for index, table in enumerate(keys or ()):
            if keys is not None and table.get("id") == key_id:
                del keys[index]
                found = True
                break
        if keys is not None and not len(keys):
            del document["keys"]

    _edit(path, removed)
    return found


def _keys_of(path: Path, document: TOMLDocument) -> AoT | None:
    keys = cast(object, document.get("keys"))  # pyright: ignore[reportUnknownMemberType]  # the library leaves it open
    if keys is None or isinstance(keys, AoT):
        return keys
    raise PolicyError(path, ["keys: write each key as a table, `[[keys]]`, so that keys can be added"])


def _edit(path: Path, change: Callable[[TOMLDocument], None]) -> None:
    path = path.resolve()  # a link stays one
    try:
        with _locked(path.parent):
            text = path.read_text() if path.exists() else ""
            document = tomlkit.parse(text)
            change(document)
            edited = tomlkit.dumps(document).encode()
            parse_policy(path, edited)
            if edited != text.encode():
                _replace(path, edited)
    except TOMLKitError as error:
        raise PolicyError(path, [f"is not TOML: {error}"]) from None
    except UnicodeDecodeError as error:
        raise PolicyError(path, [f"is not UTF-8 (byte {error.start})"]) from None
    except OSError as error:
        raise PolicyError(path, [f"cannot be changed: {error.strerror or error}"]) from error


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Two edits at once come one after the other."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Readers see the old file or the new one, whole. It is its owner's only, whatever it was before."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
