"""The policy file (TOML): reading, protection against accidental truncation, and edits of its keys.

A shorter file allows more: it lacks keys and denials. So a changed file that looks truncated is refused. Edits keep
comments and order, and write an end mark, so that later truncation is noticed.
"""

import difflib
import fcntl
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import tomlkit
from pydantic import BaseModel, ValidationError
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from outlast.api.access.api_keys import KeyHash
from outlast.api.access.policy import contracts
from outlast.api.access.policy.contracts import CallerEntry, KeyEntry, Policy

_END = re.compile(rb"\[[ \t]*end[ \t]*\][ \t]*(#.*)?")
MAX_BYTES = 4 * 1024 * 1024
_MODELS = [model for model in vars(contracts).values() if isinstance(model, type) and issubclass(model, BaseModel)]
_END_MARK = "end_mark = true  # the last line is [end]: without it, this file was cut off\n"
_WITHOUT_KEYS = 'anonymous = "none"  # the last key was revoked: nobody is let in without one\n'


def read_policy(path: Path) -> Policy:
    """Return the policy in the file at `path`. Raises `PolicyError` with a line for each thing that is wrong."""
    return read_policy_text(path).policy


@dataclass(frozen=True)
class PolicyText:
    """A policy file as it was read."""

    text: bytes
    policy: Policy

    @cached_property
    def is_whole(self) -> bool:
        """True if the last line is the end mark: nothing is cut off."""
        *_, last = said_lines(self.text)
        return self.policy.end is not None and _END.fullmatch(last) is not None


def read_policy_text(path: Path) -> PolicyText:
    """`read_policy`, and the text of the file."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(path, [f"cannot be read: {error.strerror or error}"]) from error
    return PolicyText(text, parse_policy(path, text))


def parse_policy(path: Path, text: bytes) -> Policy:
    """Return the policy in `text`, which is or shall be the file at `path`. Raises `PolicyError`."""
    if len(text) > MAX_BYTES:
        raise PolicyError(path, [f"is larger than {MAX_BYTES} bytes"])
    try:
        content: dict[str, object] = tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        raise PolicyError(path, [f"is not UTF-8 (byte {error.start})"]) from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:  # a number of too many digits
        raise PolicyError(path, [f"is not TOML: {error}"]) from None
    if not content:
        raise PolicyError(path, ['is empty: restore it, or write its settings, such as anonymous = "none"'])
    try:
        policy = Policy.model_validate(content)
    except ValidationError as error:
        raise PolicyError(path, _problems(error)) from None
    problems = [*_cuts(policy, text), *_double_keys(policy), *_unusable_keys(policy), *_double_tokens(policy)]
    if problems:
        raise PolicyError(path, problems)
    return policy


class PolicyError(ValueError):
    """The policy cannot be used. `problems` has one line for each reason, without any secret of the file."""

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"{path}: " + "; ".join(self.problems))


def said_lines(text: bytes) -> Iterator[bytes]:
    """The lines of a file that are neither blank nor a comment, without white space around them."""
    lines = (line.strip() for line in text.splitlines())
    return (line for line in lines if line and not line.startswith(b"#"))


def shrinkage(in_force: PolicyText, changed: PolicyText) -> list[str]:
    """Return a line for each reason to refuse `changed` as an accidental loss; empty for an intended edit.

    The last key is removed only by a file with an end mark that sets `anonymous`.
    """
    found: list[str] = []
    before, after = in_force.policy, changed.policy
    part, whole = changed.text.strip(), in_force.text.strip()
    if before.end is not None and after.end is None:
        found.append("has lost its end mark: the policy in force has the line [end], so this one must have it, too")
    elif before != after and len(part) < len(whole) and whole.startswith(part):
        found.append(
            "is the beginning of the policy in force, so it looks truncated; if you have removed the rest, write [end] "
            "as its last line, or a comment above that line if it is there"
        )
    if before.keys and not after.keys and not (changed.is_whole and after.anonymous is not None):
        found.append(
            "has lost its last key; if you have removed it, write the setting for requests without keys, such as "
            'anonymous = "none", and [end] as the last line'
        )
    return found


def weak_points(file: PolicyText) -> list[str]:
    """One line for each thing in a usable policy that an accident could make worse."""
    found: list[str] = []
    policy = file.policy
    if policy.end is None:
        found.append(
            "there is no end mark, so a truncated file can be mistaken for a whole one: write `end_mark = true` as "
            "the first line and `[end]` as the last"
        )
    elif not file.is_whole:
        found.append("there are lines after `[end]`, so a cut in them is not noticed: move `[end]` to the end")
    if policy.anonymous not in (None, "none") and policy.keys:
        found.append(
            f'anonymous = "{policy.anonymous}" lets requests without a key in as `local`, with all scopes, although '
            "there are keys"
        )
    return found


def _cuts(policy: Policy, text: bytes) -> list[str]:
    """Check the end mark of a file that declares one."""
    if policy.end_mark and not next(said_lines(text)).startswith(b"end_mark"):
        return ["end_mark: must be the first line, so that a truncated file is not mistaken for one without end mark"]
    if policy.end_mark and policy.end is None:
        return ["is truncated: it has end_mark = true, but does not end with [end]. Restore it"]
    return []


def _problems(error: ValidationError) -> list[str]:
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return [f"{_place(entry['loc'])}: {_reason(entry['type'], entry['loc'], entry['msg'])}" for entry in found]


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(
        f'"{part}"' if isinstance(part, str) and not part.isidentifier() else str(part) for part in location
    )


def _reason(kind: str, location: tuple[int | str, ...], message: str) -> str:
    if kind != "extra_forbidden":
        return message
    known = {name for model in _MODELS for name in model.model_fields}
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f"there is no such setting{f'; did you mean {near[0]!r}?' if near else ''}"


def _double_keys(policy: Policy) -> list[str]:
    ids = [key.id for key in policy.keys]
    return [f"keys: two keys have the id {name!r}" for name in sorted({name for name in ids if ids.count(name) > 1})]


def _unusable_keys(policy: Policy) -> list[str]:
    found: list[str] = []
    for key in policy.keys:
        if not key.caller.startswith("key:"):
            found.append(f"keys: the caller of {key.id!r} must be a caller of API keys, `key:NAME`")
        try:
            KeyHash.parse(key.hash)
        except ValueError as error:
            found.append(f"keys: the hash of {key.id!r} {error}")
    return found


def _double_tokens(policy: Policy) -> list[str]:
    entries: Mapping[str, CallerEntry] = {"defaults": policy.defaults, **policy.callers}
    return [
        f"{name}: name either apify_token_env or apify_token_file"
        for name, entry in entries.items()
        if entry.apify_token_env is not None and entry.apify_token_file is not None
    ]


def add_key(path: Path, entry: KeyEntry) -> None:
    """Add a key to the file at `path`, which is created if absent. Raises `PolicyError`."""

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
    """Remove the key with this id. Returns False if absent. Raises `PolicyError`.

    Without keys, the file gets `anonymous = "none"`, unless it has such a line.
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
    """Write the file again if `change` returns True. Raises `PolicyError`."""
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
    """Return the document with its end mark, and with the access without keys if it has none."""
    document.pop("end_mark", None)  # pyright: ignore[reportUnknownMemberType]  # it comes first, and once
    first = _END_MARK
    if "keys" not in document and "anonymous" not in document:
        first += _WITHOUT_KEYS
    rest = tomlkit.dumps(document).strip("\n")
    gap = "\n" if rest.startswith("[") else ""
    return f"{first}{gap}{rest}\n\n[end]\n".encode()


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Serialise concurrent edits."""
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
