"""Puts Outlast in front of the servers of a client, and takes it away again.

The servers move from the client's file to a file of Outlast (docs/mcp-servers.md), and the client gets Outlast instead.
A second file beside it, `NAME.wrapped.json`, records what was moved, by the paths of the clients' files:

    {"/home/me/.claude.json": {"client": "claude-code", "name": "outlast", "before": null, "entries": {"git": {...}},
     "moved": {"git": "git"}, "backup": "/home/me/.claude.json.TIME.bak", "sha256": "..."}}

Both files may contain secrets, as the client's file does: only their owner can read them.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from outlast.cli.install.clients import ClientName, McpClient, this_machine
from outlast.cli.install.config_files import Change, Entries, planned, read_config, servers_in
from outlast.cli.options import CliError, ExitCode

Entry = dict[str, JsonValue]


class Wrapped(BaseModel):
    """What was moved out of one file of a client."""

    client: ClientName
    name: str
    """The name of Outlast in the file."""
    before: Entry | None = None
    """The entry that Outlast had."""
    entries: dict[str, Entry]
    """The entries of the client, as they were written."""
    moved: dict[str, str]
    """Names in Outlast's file by names in the client's."""
    backup: str | None = None
    sha256: str | None = None
    """The copy of the client's file, and the digest of what was written instead; None after a second time."""


_RECORDS: TypeAdapter[dict[str, Wrapped]] = TypeAdapter(dict[str, Wrapped])
_OF_OUTLAST = McpClient("claude-code", "Outlast", "", source="docs/mcp-servers.md", then="", folder="")
"""The format of Outlast's own file."""


@dataclass(frozen=True, slots=True)
class Wrapping:
    """Servers of a client that Outlast can start, and what keeps the others where they are."""

    client: McpClient
    path: Path
    file: Path
    moved: Mapping[str, str]
    """Names in Outlast's file by names in the client's."""
    entries: Mapping[str, Entry]
    """As the client has them."""
    added: Mapping[str, Entry]
    """As Outlast's file has them, by their names there."""
    left: Mapping[str, str] = field(default_factory=dict[str, str])
    """Reasons by the names of the servers that stay in the client."""
    notes: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables for Outlast that the client asks the user for."""

    def changes(self, name: str, entry: Entry) -> tuple[Change, Change]:
        """Return the changes of Outlast's file and of the client's, with Outlast as `name`. Raises `CliError`."""
        gone: Entries = dict.fromkeys(self.moved)
        of_client = planned(self.client, self.path, {**gone, name: entry}, brief=self.moved)
        return planned(_OF_OUTLAST, self.file, self.added, brief=self.added), of_client

    def make(self, name: str, changes: tuple[Change, Change]) -> Path | None:
        """Write Outlast's file, the record and the client's file, in this order. Return the copy of the last one."""
        own, of_client = changes
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # it may become the data directory of a stack
        own.make()
        records = _records(self.file)
        known = records.get(str(self.path))
        before = known.before if known is not None else _entry(servers_in(self.client, self.path).get(name))
        wrapped = Wrapped(
            client=self.client.id,
            name=name,
            before=before,
            entries={**(known.entries if known else {}), **self.entries},
            moved={**(known.moved if known else {}), **self.moved},
        )
        _write(self.file, {**records, str(self.path): wrapped})
        backup = of_client.make()
        if known is None and backup is not None:
            exact = {"backup": str(backup), "sha256": _sha256(of_client.text)}
            _write(self.file, {**records, str(self.path): wrapped.model_copy(update=exact)})
        return backup


def wrapping(client: McpClient, path: Path, file: Path, *, name: str, leave: Collection[str]) -> Wrapping:
    """Return what moves from the client's file at `path` to Outlast's `file`. Raises `CliError`."""
    servers = servers_in(client, path)
    own = servers_in(_OF_OUTLAST, file)
    known = _records(file).get(str(path))
    moved, entries, added, left = dict[str, str](), dict[str, Entry](), dict[str, Entry](), dict[str, str]()
    notes, inputs = list[str](), dict[str, str]()
    for old, written in servers.items():
        entry = _entry(written)
        if old == name or entry is None:
            continue
        used = dict[str, str]()
        converter = _Converter(client, path, used)
        converted = converter.entry(entry)
        reason, missing = _problem(file, converted)
        if converter.is_of_user and "${workspaceFolder" in json.dumps(entry):
            reason = "depends on the folder that is open in the client"
        if old in leave or reason is not None:
            left[old] = reason or "--leave"
            continue
        new = known.moved[old] if known is not None and old in known.moved else _free_name(client, old, converted, own)
        own[new] = added[new] = converted
        moved[old], entries[old] = new, entry
        inputs |= used
        notes += [f"{old} is called {new} in Outlast."] if new != old else []
        notes += [f"{old}: {one}" for one in missing if not used]
    unknown = [one for one in leave if one not in servers]
    if unknown:
        raise CliError(f"--leave: {path} has no server {unknown[0]!r}.", exit_code=ExitCode.USAGE)
    return Wrapping(client, path, file, moved, entries, added, left, tuple(notes), inputs)


def unwrapping(client: McpClient, path: Path, file: Path) -> "Unwrapping":
    """Return how the servers move back to the client's file at `path`. Raises `CliError` if none were moved."""
    records = _records(file)
    wrapped = records.get(str(path))
    if wrapped is None:
        raise CliError(
            f"No servers of {path} were moved to {file}.",
            exit_code=ExitCode.FAILED,
            hint="Name the file that they were moved to: `--mcp-servers FILE`.",
        )
    servers = servers_in(client, path)
    kept = [name for name in wrapped.entries if name in servers]
    back: Entries = {wrapped.name: wrapped.before} | {
        name: entry for name, entry in wrapped.entries.items() if name not in kept
    }
    change = planned(client, path, back, brief=wrapped.entries)
    if wrapped.sha256 == _sha256(change.file.text) and wrapped.backup is not None:
        exact = read_config(Path(wrapped.backup))
        change = Change(change.file, exact.text, change.lines) if exact.content is not None else change
    others = {new for at, other in records.items() if at != str(path) for new in other.moved.values()}
    gone: Entries = dict.fromkeys(new for new in wrapped.moved.values() if new not in others)
    left = {at: other for at, other in records.items() if at != str(path)}
    of_outlast = planned(_OF_OUTLAST, file, gone, brief=gone)
    return Unwrapping(client, wrapped.name, file, change, of_outlast, left, tuple(kept), tuple(wrapped.moved))


@dataclass(frozen=True, slots=True)
class Unwrapping:
    """Servers that move back to a client."""

    client: McpClient
    name: str
    file: Path
    change: Change
    of_outlast: Change
    records: Mapping[str, Wrapped]
    """Of the other files of clients."""
    kept: tuple[str, ...]
    """Names that the client has again, and keeps as they are."""
    names: tuple[str, ...]

    def make(self) -> Path | None:
        """Write the client's file, Outlast's file and the record, in this order. Return the copy of the first one."""
        backup = self.change.make()
        self.of_outlast.make()
        _write(self.file, self.records)
        return backup


def wrapped_into(client: McpClient, path: Path, name: str) -> Path | None:
    """Return the file that the servers of the client's file were moved to; None if they were not."""
    entry = _entry(servers_in(client, path).get(name)) or {}
    args = entry.get("args")
    words = [str(word) for word in args] if isinstance(args, list) else []
    place = words.index("--mcp-servers") + 1 if "--mcp-servers" in words else len(words)
    file = Path(words[place]) if place < len(words) else None
    return file if file is not None and str(path) in _records(file) else None


def _entry(value: JsonValue) -> Entry | None:
    return value if isinstance(value, dict) else None


def _problem(file: Path, entry: Entry) -> tuple[str | None, list[str]]:
    """Return why Outlast cannot start the server, and what it lacks to do so in this shell."""
    from outlast.activities.mcp_servers.config import ServersFileError, parse_servers  # noqa: PLC0415 (server)

    try:
        found = parse_servers(file, json.dumps({"mcpServers": {"it": entry}}).encode(), os.environ)
    except ServersFileError as error:
        return error.problems[0].partition("mcpServers.it")[2].lstrip(".: "), []
    if "it" not in found:
        return found.notes[-1].partition("mcpServers.it ")[2], []
    problem = found["it"].problem
    return None, [] if problem is None else [part.partition(": ")[2] for part in problem.split("; ")]


def _free_name(client: McpClient, name: str, entry: Entry, own: Mapping[str, JsonValue]) -> str:
    """Return a name for the server in Outlast's file: its own, unless another server has it there."""
    from outlast.activities.mcp_servers.config import MAX_NAME_CHARS, valid_name  # noqa: PLC0415 (server)

    first = valid_name(name)
    suffixes = ["", f"-{client.id}", *(f"-{number}" for number in range(2, 1_000))]
    names = (f"{first[: MAX_NAME_CHARS - len(suffix)].rstrip('_')}{suffix}" for suffix in suffixes)
    return next(one for one in names if own.get(one) in (None, entry))


_KEPT = frozenset("type command args env cwd envFile url serverUrl httpUrl headers disabled enabled outlast".split())
_ONLY = ("enabled_tools", "includeTools")
_EXCEPT = ("disabled_tools", "disabledTools", "excludeTools")
_INPUT = re.compile(r"\$\{input:([\w.-]+)\}")
_DOLLAR = re.compile(r"\$([A-Za-z_]\w*)")


class _Converter:
    """Writes an entry of a client as Outlast reads it, with the folder that it has in the client."""

    def __init__(self, client: McpClient, path: Path, inputs: dict[str, str]) -> None:
        from outlast.activities.mcp_servers.config import project_folder  # noqa: PLC0415 (server)

        machine = this_machine()
        self._client = client
        self.is_of_user = path == client.path(machine)
        self._folder = machine.home if self.is_of_user else project_folder(path)
        self._inputs = inputs

    def entry(self, entry: Entry) -> Entry:
        """Return the entry. Keys that only concern the client are left out."""
        found: Entry = {key: self._texts(value) for key, value in entry.items() if key in _KEPT and key != "outlast"}
        headers = self._headers(entry)
        if headers:
            found["headers"] = headers
        if isinstance(names := entry.get("env_vars"), list):
            env = _entry(found.get("env")) or {}
            found["env"] = {**{str(name): f"${{{name}}}" for name in names}, **env}
        if "command" in found:
            found["cwd"] = str(self._folder / str(found.get("cwd") or ""))
        options = {**self._tools(entry), **(_entry(entry.get("outlast")) or {})}
        return {**found, "outlast": options} if options else found

    def _headers(self, entry: Entry) -> Entry:
        found = _entry(self._texts(entry.get("headers", entry.get("http_headers")))) or {}
        for header, variable in (_entry(entry.get("env_http_headers")) or {}).items():
            found[header] = f"${{{variable}}}"
        if variable := entry.get("bearer_token_env_var"):
            found["Authorization"] = f"Bearer ${{{variable}}}"
        return found

    @staticmethod
    def _tools(entry: Entry) -> Entry:
        """Return the client's choice of tools as options of Outlast."""
        only = next((entry[key] for key in _ONLY if entry.get(key)), None)
        left = next((entry[key] for key in _EXCEPT if entry.get(key)), None)
        return {key: value for key, value in (("only", only), ("except", left)) if value is not None}

    def _texts(self, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self._texts(one) for one in value]
        if isinstance(value, dict):
            return {key: self._texts(one) for key, one in value.items()}
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        """Return a text with the references that Outlast knows."""
        if self._client.variable is None:  # `${` has no meaning in this client
            return text.replace("${", "$${")
        if self._client.variable == "$NAME":
            text = _DOLLAR.sub(r"${\1}", text)
        if not self.is_of_user:
            text = text.replace("${workspaceFolder}", str(self._folder))
        return _INPUT.sub(self._input, text)

    def _input(self, found: re.Match[str]) -> str:
        """Let the client ask for the value, and pass it to Outlast as a variable."""
        variable = re.sub(r"\W", "_", found[1]).upper()
        self._inputs[variable] = found[0]
        return f"${{{variable}}}"


def _record_file(file: Path) -> Path:
    return file.with_name(f"{file.stem}.wrapped.json")


def _records(file: Path) -> dict[str, Wrapped]:
    path = _record_file(file)
    try:
        return _RECORDS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise CliError(f"{path} cannot be read: {reason}.", exit_code=ExitCode.FAILED) from None


def _write(file: Path, records: Mapping[str, Wrapped]) -> None:
    path = _record_file(file)
    if not records:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
        new.write(_RECORDS.dump_json(dict(records), indent=2))
    Path(new.name).replace(path)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
