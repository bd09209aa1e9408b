"""Adds keys to a policy file and takes them away. Comments and order of the file stay.

What is written has an end mark, so that a file that is cut off later is noticed.
"""

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

_END_MARK = "end_mark = true  # the last line is [end]: without it, this file was cut off\n"
_WITHOUT_KEYS = 'anonymous = "none"  # the last key was revoked: nobody is let in without one\n'


def add_key(path: Path, entry: KeyEntry) -> None:
    """Add a key to the file at `path`, which is created when there is none. Raises `PolicyError`."""

    def added(document: TOMLDocument) -> bool:
        table = tomlkit.table()
        values = entry.model_dump(mode="python", exclude_none=True)
        for name, value in values.items():
            table.add(name, sorted(value) if name == "scopes" else value)
        keys = _keys_of(path, document)
        if keys is None:
            keys = tomlkit.aot()
            document.append("keys", keys)
        keys.append(table)  # pyright: ignore[reportUnknownMemberType]  # the library leaves the type open
        return True

    _edit(path, added)


def remove_key(path: Path, key_id: str) -> bool:
    """Take the key with this id away. Returns whether there was one. Raises `PolicyError`.

    With the last key gone, the file says `anonymous = "none"`, unless it has such a line already.
    """

    def removed(document: TOMLDocument) -> bool:
        keys = _keys_of(path, document) or ()
        place = next((index for index, table in enumerate(keys) if table.get("id") == key_id), None)
        if place is not None:
            del cast(AoT, keys)[place]
            if not len(keys):
                del document["keys"]
        return place is not None

    return _edit(path, removed)


def _keys_of(path: Path, document: TOMLDocument) -> AoT | None:
    keys = cast(object, document.get("keys"))  # pyright: ignore[reportUnknownMemberType]  # the library leaves it open
    if keys is None or isinstance(keys, AoT):
        return keys
    raise PolicyError(path, ["keys: write each key as a table, `[[keys]]`, so that keys can be added"])


def _edit(path: Path, change: Callable[[TOMLDocument], bool]) -> bool:
    """Write the file again if `change` says that it has changed its document. Raises `PolicyError`."""
    path = path.resolve()  # a link stays one
    try:
        with _locked(path.parent):
            text = path.read_text() if path.exists() else None
            if text is not None:
                parse_policy(path, text.encode())  # what was cut off must not become whole by an edit
            document = tomlkit.parse(text or "")
            document.pop("end", None)  # pyright: ignore[reportUnknownMemberType]  # the library leaves it open
            if not change(document):
                return False
            edited = _marked(document)
            parse_policy(path, edited)
            _replace(path, edited)
            return True
    except TOMLKitError as error:
        raise PolicyError(path, [f"is not TOML: {error}"]) from None
    except UnicodeDecodeError as error:
        raise PolicyError(path, [f"is not UTF-8 (byte {error.start})"]) from None
    except OSError as error:
        raise PolicyError(path, [f"cannot be changed: {error.strerror or error}"]) from error


def _marked(document: TOMLDocument) -> bytes:
    """The document with its end mark, and with a line that says what holds without keys if it has none."""
    document.pop("end_mark", None)  # pyright: ignore[reportUnknownMemberType]  # it comes first, and once
    first = _END_MARK
    if "keys" not in document and "anonymous" not in document:
        first += _WITHOUT_KEYS
    rest = tomlkit.dumps(document).strip("\n")
    gap = "\n" if rest.startswith("[") else ""
    return f"{first}{gap}{rest}\n\n[end]\n".encode()


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
