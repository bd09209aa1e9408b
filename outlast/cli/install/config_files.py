"""Reads configuration files of clients, and replaces them as a whole, with a copy of the old file; TOML."""

import codecs
import copy
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import ndiff
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import JsonValue

from outlast import json_text
from outlast.cli.install.clients import McpClient
from outlast.cli.options import CliError, ExitCode

_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file; `content` is None if it does not exist."""

    path: Path
    content: bytes | None

    @property
    def text(self) -> str:
        """Its text without a byte order mark. Raises `CliError`."""
        try:
            return (self.content or b"").removeprefix(codecs.BOM_UTF8).decode()
        except UnicodeDecodeError as error:
            raise _unchanged(self.path, f"it is not UTF-8 (byte {error.start})") from None

    def replace(self, text: str) -> Path | None:
        """Replace the file atomically, and return the path of the copy of the old one.

        Mode, owner and links stay. Only the owner can read a new file, and the copy, which may have secrets. Raises
        `CliError`, also if the file has changed since it was read.
        """
        mark = codecs.BOM_UTF8 if (self.content or b"").startswith(codecs.BOM_UTF8) else b""
        try:
            return self._replace(mark + text.encode())
        except OSError as error:
            raise _unchanged(self.path, error.strerror or str(error)) from error

    def _replace(self, content: bytes) -> Path | None:
        target = self.path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if self.content is not None else _PRIVATE
        backup = _written(self._backup_path(target), self.content) if self.content is not None else None
        if backup is not None:
            _keep_owner(backup, target)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            new = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            new.chmod(mode)
            _keep_owner(new, target)
            if _content(target) != self.content:
                raise _unchanged(self.path, "another program has just changed it", hint="Run the command again.")
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)
        return backup

    def _backup_path(self, target: Path) -> Path:
        """Return a path beside the file, with the time in its name: no copy replaces an earlier one."""
        moment = datetime.now(UTC)
        first = target.with_name(f"{target.name}.{moment:%Y%m%dT%H%M%SZ}.bak")
        return first if not first.exists() else target.with_name(f"{target.name}.{moment:%Y%m%dT%H%M%S.%fZ}.bak")


def read_config(path: Path) -> ConfigFile:
    """Read the file at `path`, which need not exist. Raises `CliError`."""
    try:
        return ConfigFile(path, _content(path))
    except OSError as error:
        raise _unchanged(path, error.strerror or str(error)) from error


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _written(path: Path, content: bytes) -> Path:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, _PRIVATE)) as file:
        file.write(content)
    return path


def _keep_owner(new: Path, old: Path) -> None:
    """Let root change another user's file without taking it from them."""
    if not old.exists() or not hasattr(os, "chown"):
        return
    was, now = old.stat(), new.stat()
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        os.chown(new, was.st_uid, was.st_gid)


def _unchanged(path: Path, reason: str, *, hint: str | None = None) -> CliError:
    return CliError(f"{path} was not changed: {reason}.", exit_code=ExitCode.FAILED, hint=hint)


_HIDDEN = "***"
_OPEN = frozenset({"type", "command", "cwd", "bearer_token_env_var"})
_ADDRESSES = frozenset({"url", "serverUrl", "httpUrl"})
_SECRET_NAME = re.compile(r"(?i)token|key|secret|password|auth")
_REFERENCE = re.compile(r"(Bearer )?(\$[A-Za-z_]\w*|\$\{(env:|input:)?[\w-]+\})")
"""A reference to a variable, which is not a secret."""


def difference(client: McpClient, name: str, before: JsonValue, after: JsonValue) -> list[str]:
    """Return the difference between the old and the new server `name`, as lines that begin with `-`, `+` or a blank.

    Values of headers and variables are `***`; if only a value changes, the new one is `*** (new)`.
    """
    old = _lines(client, name, _masked(before, None))
    new = _lines(client, name, _masked(after, before))
    return [line.rstrip() for line in ndiff(old, new) if not line.startswith("?")]


def _lines(client: McpClient, name: str, value: JsonValue) -> list[str]:
    if value is None:
        return []
    if client.syntax == "toml" and isinstance(value, dict):
        return dumped_toml((client.servers, name), value).splitlines()
    return f"{json.dumps(name)}: {json.dumps(value, indent=2, ensure_ascii=False)}".splitlines()


def _masked(entry: JsonValue, other: JsonValue) -> JsonValue:
    if not isinstance(entry, dict):
        return entry if entry is None else _HIDDEN
    others = other if isinstance(other, dict) else {}
    return {key: _masked_field(key, value, others.get(key)) for key, value in entry.items()}


def _masked_field(key: str, value: JsonValue, other: JsonValue) -> JsonValue:
    if key in _OPEN:
        return value
    if key in _ADDRESSES and isinstance(value, str):
        return _masked_address(value)
    if key == "args" and isinstance(value, list):
        return _masked_arguments(value)
    if isinstance(value, dict):
        others: Mapping[str, JsonValue] = other if isinstance(other, dict) else {}
        return {name: _hidden(one, others.get(name)) for name, one in value.items()}
    return value if isinstance(value, bool | int | float) else _hidden(value, other)


def _hidden(value: JsonValue, other: JsonValue) -> str:
    if isinstance(value, str) and _REFERENCE.fullmatch(value):
        return value
    return _HIDDEN if other is None or value == other else f"{_HIDDEN} (new)"


def _masked_address(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return _HIDDEN
    query = [
        (name, _HIDDEN if _SECRET_NAME.search(name) else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query, safe=",/*"), parts.fragment))


def _masked_arguments(arguments: list[JsonValue]) -> JsonValue:
    """Mask the values of `--token` and similar flags."""
    shown: list[JsonValue] = []
    is_secret = False
    for argument in arguments:
        name, separator, _ = str(argument).partition("=")
        is_flag = name.startswith("-") and _SECRET_NAME.search(name) is not None
        is_header = name == "--header"
        shown.append(_HIDDEN if is_secret else f"{name}={_HIDDEN}" if is_flag and separator else argument)
        is_secret = (is_flag or is_header) and not separator
    return cast(JsonValue, shown)


@dataclass(frozen=True, slots=True)
class Change:
    """The new content of a file; `lines` show the difference without secrets."""

    file: ConfigFile
    text: str
    lines: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        """True if the file changes."""
        return self.text != self.file.text

    def make(self) -> Path | None:
        """Write the file, and return the path of the copy of the old one. Raises `CliError`."""
        return self.file.replace(self.text) if self.is_needed else None


Entries = Mapping[str, dict[str, JsonValue] | None]
"""Servers by their names; None for one to remove."""


def planned(client: McpClient, path: Path, entries: Entries, *, brief: Collection[str] = ()) -> Change:
    """Return the change that sets or removes these servers. Of those in `brief`, only the names are shown: a server
    that the user has written may have secrets anywhere.

    No other character of the file changes. Raises `CliError` if that is not possible.
    """
    file = read_config(path)
    try:
        before = _parsed_text(client, file.text)
    except (json_text.NotJson, NotToml) as error:
        raise _by_hand(client, path, f"it is not {client.syntax.upper()} ({error})", entries, brief) from None
    changed = {name: entry for name, entry in entries.items() if _entry_of(client, before, name) != entry}
    text, expected = file.text, before
    try:
        for name, entry in changed.items():
            text = _edited(client, text, name, entry)
            expected = _expected(client, expected, name, entry)
        as_meant = _parsed_text(client, text) == expected
    except (json_text.NotJson, json_text.CannotEdit, NotToml) as error:
        raise _by_hand(client, path, str(error), entries, brief) from None
    if not as_meant:
        raise _by_hand(client, path, f"{client.servers!r} is written in a way that cannot be edited", entries, brief)
    lines: list[str] = []
    for name, entry in changed.items():
        was = _entry_of(client, before, name)
        lines += _named(name, was, entry) if name in brief else difference(client, name, was, entry)
    return Change(file, text, tuple(lines))


def _named(name: str, before: JsonValue, after: JsonValue) -> list[str]:
    return [f"{mark} {json.dumps(name)}" for mark, entry in (("-", before), ("+", after)) if entry is not None]


def servers_in(client: McpClient, path: Path) -> dict[str, JsonValue]:
    """Return the servers in the client's file, as they are written; empty without a file. Raises `CliError`."""
    try:
        document = _parsed_text(client, read_config(path).text)
    except (json_text.NotJson, NotToml) as error:
        raise _unchanged(path, f"it is not {client.syntax.upper()} ({error})") from None
    servers = document.get(client.servers) if isinstance(document, dict) else None
    return servers if isinstance(servers, dict) else {}


def installed(client: McpClient, path: Path, name: str) -> bool:
    """Return whether the server is in the file; False also if the file cannot be read."""
    try:
        return _entry_of(client, _parsed_text(client, read_config(path).text), name) is not None
    except (CliError, json_text.NotJson, NotToml):
        return False


def _parsed_text(client: McpClient, text: str) -> JsonValue:
    if client.syntax == "toml":
        return parsed_toml(text)
    return json_text.parsed(text) if text.strip() else {}


def _edited(client: McpClient, text: str, name: str, entry: dict[str, JsonValue] | None) -> str:
    path = (client.servers, name)
    if client.syntax == "toml":
        return without_table(text, path) if entry is None else with_table(text, path, entry)
    return json_text.without_member(text, path) if entry is None else json_text.with_member(text, path, entry)


def _expected(client: McpClient, before: JsonValue, name: str, entry: dict[str, JsonValue] | None) -> JsonValue:
    expected = cast("dict[str, dict[str, JsonValue]]", copy.deepcopy(before) if isinstance(before, dict) else {})
    servers = expected.setdefault(client.servers, {})
    if not isinstance(servers, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # written by a user
        raise json_text.CannotEdit(f"{client.servers!r} is not an object")
    if entry is None:
        servers.pop(name, None)
        if not servers and client.syntax == "toml":
            del expected[client.servers]  # TOML does not keep a table without tables
    else:
        servers[name] = entry
    return cast(JsonValue, expected)


def _entry_of(client: McpClient, document: JsonValue, name: str) -> JsonValue:
    servers = document.get(client.servers) if isinstance(document, dict) else None
    return servers.get(name) if isinstance(servers, dict) else None


def _by_hand(client: McpClient, path: Path, reason: str, entries: Entries, brief: Collection[str]) -> CliError:
    """Return an error with instructions for a change by hand, without the token."""
    message = f"{path} was not changed: {reason}."
    added = {name: entry for name, entry in entries.items() if entry is not None and name not in brief}
    if not added:
        names = ", ".join(map(repr, entries))
        hint = f"Remove {names} from {client.servers!r} by hand, or correct the file and run the command again."
        return CliError(message, exit_code=ExitCode.FAILED, hint=hint)
    shown = tuple(line[2:] for name, entry in added.items() for line in difference(client, name, None, entry))
    hint = f"Correct it and run the command again, or add these lines to {client.servers!r} by hand ({client.source})."
    return CliError(message, exit_code=ExitCode.FAILED, hint=hint, lines=shown)


_HEADER = re.compile(r"\s*\[")


class NotToml(Exception):
    """The text is not TOML. The message is the position of the error."""


def parsed_toml(text: str) -> JsonValue:
    """Return the tables of the text. Raises `NotToml`."""
    try:
        return cast(JsonValue, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at (line \d+, column \d+|end of document)", str(error))
        # No part of the text: it can contain secrets.
        raise NotToml(place[1] if place else "somewhere") from None


def dumped_toml(path: tuple[str, str], value: dict[str, JsonValue]) -> str:
    """Return the lines of the table at `path`."""
    import tomlkit  # noqa: PLC0415 (20 ms)

    return tomlkit.dumps({path[0]: {path[1]: value}}).removeprefix(f"[{path[0]}]\n")


def with_table(text: str, path: tuple[str, str], value: dict[str, JsonValue]) -> str:
    """Return the text with `value` as the table at `path`: in its old place, otherwise at the end."""
    kept, at = _without(text, path)
    lines = dumped_toml(path, value)
    if at is not None:
        return f"{kept[:at]}{lines}{kept[at:]}"
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{lines}"


def without_table(text: str, path: tuple[str, str]) -> str:
    """Return the text without the table at `path`."""
    kept, at = _without(text, path)
    return kept if at is None else kept[:at].rstrip("\n") + "\n" * bool(kept[:at].strip()) + kept[at:]


def _without(text: str, path: tuple[str, str]) -> tuple[str, int | None]:
    """Return the text without the lines of the table and its subtables, and their position."""
    names = r"\s*\.\s*".join(rf"""["']?{re.escape(name)}["']?""" for name in path)
    kept: list[str] = []
    taken: list[str] = []
    at: int | None = None
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            is_taken = re.match(rf"\s*\[\s*{names}\s*(\.[^\]]*)?\]", line) is not None
            if not is_taken:
                kept += _belongs_to_next(taken)
            elif at is None:
                at = sum(map(len, kept))
            taken = [line] if is_taken else []
            kept += [] if is_taken else [line]
        else:
            (taken or kept).append(line)
    return "".join(kept + _belongs_to_next(taken)), at


def _belongs_to_next(lines: list[str]) -> list[str]:
    """Return the comments and empty lines at the end, which belong to the next table."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return lines[end:]
