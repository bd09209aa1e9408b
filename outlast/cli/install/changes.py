"""The change of a client's file that adds, replaces or takes out a server, worked out before anything is written."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from outlast.cli.errors import CliError, ExitCode
from outlast.cli.install import json_text, toml_text
from outlast.cli.install.clients import McpClient
from outlast.cli.install.config_files import ConfigFile, read_config
from outlast.cli.install.masking import difference


@dataclass(frozen=True, slots=True)
class Change:
    """The new content of a file. `lines` show it without secrets; there are none when nothing changes."""

    file: ConfigFile
    text: str
    lines: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        """Whether the file is not already as it is to be."""
        return self.text != self.file.text

    def make(self) -> Path | None:
        """Write it. Returns where the copy of the old file is. Raises `CliError`."""
        return self.file.replace(self.text) if self.is_needed else None


def planned(client: McpClient, path: Path, name: str, entry: dict[str, JsonValue] | None) -> Change:
    """The change of the file at `path` after which it has `entry` under `name`; None removes the server.

    Every other character of the file stays. Raises `CliError` where that cannot be promised.
    """
    file = read_config(path)
    before = _parsed(client, file, name, entry)
    was = _entry_of(client, before, name)
    if was == entry:
        return Change(file, file.text, ())
    try:
        text = _edited(client, file.text, name, entry)
        as_meant = _parsed_text(client, text) == _expected(client, before, name, entry)
    except (json_text.NotJson, json_text.CannotEdit, toml_text.NotToml) as error:
        raise _by_hand(client, path, str(error), name, entry) from None
    if not as_meant:
        raise _by_hand(client, path, f"{client.servers!r} is written in a way that cannot be edited", name, entry)
    return Change(file, text, tuple(difference(client, name, was, entry)))


def installed(client: McpClient, path: Path, name: str) -> bool:
    """Whether the server is in the file. False also for a file that cannot be read."""
    try:
        return _entry_of(client, _parsed_text(client, read_config(path).text), name) is not None
    except (CliError, json_text.NotJson, toml_text.NotToml):
        return False


def _parsed(client: McpClient, file: ConfigFile, name: str, entry: dict[str, JsonValue] | None) -> JsonValue:
    try:
        return _parsed_text(client, file.text)
    except (json_text.NotJson, toml_text.NotToml) as error:
        kind = "TOML" if client.syntax == "toml" else "JSON"
        raise _by_hand(client, file.path, f"it is no {kind} ({error})", name, entry) from None


def _parsed_text(client: McpClient, text: str) -> JsonValue:
    if client.syntax == "toml":
        return toml_text.parsed(text)
    return json_text.parsed(text) if text.strip() else {}


def _edited(client: McpClient, text: str, name: str, entry: dict[str, JsonValue] | None) -> str:
    path = (client.servers, name)
    if client.syntax == "toml":
        return toml_text.without_table(text, path) if entry is None else toml_text.with_table(text, path, entry)
    return json_text.without_member(text, path) if entry is None else json_text.with_member(text, path, entry)


def _expected(client: McpClient, before: JsonValue, name: str, entry: dict[str, JsonValue] | None) -> JsonValue:
    expected = cast("dict[str, dict[str, JsonValue]]", copy.deepcopy(before) if isinstance(before, dict) else {})
    servers = expected.setdefault(client.servers, {})
    if not isinstance(servers, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # it is what a user has written
        raise json_text.CannotEdit(f"{client.servers!r} is no object")
    if entry is None:
        servers.pop(name, None)
        if not servers and client.syntax == "toml":
            del expected[client.servers]  # TOML has no trace of a table whose last table is gone
    else:
        servers[name] = entry
    return cast(JsonValue, expected)


def _entry_of(client: McpClient, document: JsonValue, name: str) -> JsonValue:
    servers = document.get(client.servers) if isinstance(document, dict) else None
    return servers.get(name) if isinstance(servers, dict) else None


def _by_hand(client: McpClient, path: Path, reason: str, name: str, entry: dict[str, JsonValue] | None) -> CliError:
    """Instructions for a change by hand; the token is not in them."""
    message = f"{path} was not changed: {reason}."
    if entry is None:
        hint = f"Take {name!r} out of {client.servers!r} by hand, or mend the file and run the command again."
        return CliError(message, exit_code=ExitCode.FAILED, hint=hint)
    shown = tuple(line[2:] for line in difference(client, name, None, entry))
    hint = f"Mend it and run the command again, or add these lines to {client.servers!r} by hand ({client.source})."
    return CliError(message, exit_code=ExitCode.FAILED, hint=hint, lines=shown)
