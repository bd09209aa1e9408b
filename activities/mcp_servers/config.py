"""The file of MCP servers: the one that MCP clients have, and an object `outlast` per server.

`mcpServers` of Claude Desktop, Claude Code and Cursor, or `servers` of VS Code with its `inputs`. Comments and trailing
commas are read. Texts of `command`, `args`, `env`, `cwd`, `url` and `headers` may contain

    ${NAME}, ${env:NAME}, ${NAME:-default}    a variable of this process
    ${secret:NAME}                            the variable NAME, or the content of the file that NAME_FILE names
    ${caller:NAME}                            a secret of the caller, in args, env and headers; inserted for each call
    ${input:some-id}                          an input of VS Code: as ${secret:SOME_ID}, or the default of the input
    ${workspaceFolder}, ${userHome}           folders: that of the file, and that of the user
    $${                                       the text `${`

The whole file is refused for what is written wrongly in it. A variable that is not set is a problem of its server alone
(`problem`): each process has its own variables, and the API needs none of them.

Values of `args`, `env` and `headers` are secrets. No message, `repr` or digest of this module shows one.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, cast
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainValidator, ValidationError, field_validator

from outlast.activities.bounds import MAX_COUNT, MAX_SECONDS
from outlast.activities.mcp_servers.contracts import SessionScope, Verify
from outlast.activities.mcp_servers.pins import LockFile, LockFileError, file_version, lock_path
from outlast.activities.mcp_servers.texts import HELD_PLACE, SECRET_NAME, Texts, inserted, names_in
from outlast.activities.outputs.jmespath_client import problem_of
from outlast.activities.tool_secrets import ToolSecrets, hide_in_logs
from outlast.json_text import Node, NotJson, read
from outlast.suggestions import suggested

MAX_BYTES = 4 * 1024 * 1024
MAX_NAME_CHARS = 32
SERVER_NAME = re.compile(rf"(?!.*__)[A-Za-z0-9_-]{{1,{MAX_NAME_CHARS}}}(?<!_)")
"""`__` separates a server's name from that of its tool, so a name has no `__` in it and no `_` at its end."""
DEFAULT_IDLE_SECONDS = 600.0
log = logging.getLogger("outlast.mcp_servers")

Glob = Annotated[str, Field(min_length=1, max_length=200)]
"""A name of a tool in which `*`, `?` and `[...]` stand for characters, with upper and lower case."""


@dataclass(frozen=True, slots=True)
class RetryArgument:
    """The argument that gets the task's id: the server ignores a call with an id that it has seen."""

    argument: str


def _retry_rule(value: object) -> object:
    if value in ("always", "never") or isinstance(value, RetryArgument):
        return value
    if isinstance(value, dict):
        argument = cast("dict[str, object]", value).get("argument")
        if len(cast("dict[str, object]", value)) == 1 and isinstance(argument, str) and argument:
            return RetryArgument(argument)
    raise ValueError('is not "always", "never", or {"argument": "NAME"}')


def _approval(value: object) -> object:
    if isinstance(value, list | tuple):
        globs = tuple(cast("list[object]", value))
        if all(isinstance(one, str) and one for one in globs):
            return globs
    if isinstance(value, bool):
        return value
    raise ValueError('is not true, false, or a list of tools, such as ["delete_*"]')


class _Verify(Verify):
    model_config = ConfigDict(extra="forbid")

    @field_validator("done")
    @classmethod
    def _is_jmespath(cls, expression: str) -> str:
        if problem := problem_of(expression):
            raise ValueError(problem)
        return expression


class ServerOptions(BaseModel):
    """The object `outlast` of a server. Of several patterns that match a tool, the first one counts."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    session: SessionScope | None = Field(default=None, description="Calls that share a session; default: by its tools.")
    only: tuple[Glob, ...] = Field(default=(), min_length=1, description="Tools that are offered; default: all.")
    except_: tuple[Glob, ...] = Field(default=(), alias="except", description="Tools that are not offered.")
    retry: dict[Glob, Annotated[Literal["always", "never"] | RetryArgument, PlainValidator(_retry_rule)]] = Field(
        default_factory=dict, description="Whether a call that may have been executed is sent again."
    )
    verify: dict[Glob, _Verify] = Field(default_factory=dict, description="How to find out if a call was executed.")
    approve: Annotated[tuple[Glob, ...] | bool, PlainValidator(_approval)] = Field(
        default=False, description="Tools whose calls wait for an approval."
    )
    timeout_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS, allow_inf_nan=False)
    max_concurrent: int | None = Field(default=None, ge=1, le=MAX_COUNT, description="Calls at a time, per session.")
    max_concurrent_per_caller: int | None = Field(
        default=None, ge=1, le=MAX_COUNT, description="Calls of one caller at a time, per session."
    )
    idle_seconds: float = Field(default=DEFAULT_IDLE_SECONDS, ge=0, le=MAX_SECONDS, allow_inf_nan=False)
    stateless: bool = Field(default=False, description="Whether a lost session loses nothing.")
    resources: bool = Field(default=True, description="Whether its resources are offered.")
    prompts: bool = Field(default=True, description="Whether its prompts are offered.")

    def offers(self, tool: str) -> bool:
        """Return whether the tool is offered."""
        return (not self.only or _matches(self.only, tool)) and not _matches(self.except_, tool)

    def uses(self, tool: str) -> bool:
        """Return whether the tool is offered, or checks what another one has done."""
        return self.offers(tool) or any(check.tool == tool for check in self.verify.values())

    def retry_of(self, tool: str) -> Literal["always", "never"] | RetryArgument | None:
        """Return the rule for repeated calls of the tool; None if its annotations decide."""
        return next((rule for glob, rule in self.retry.items() if fnmatchcase(tool, glob)), None)

    def verify_of(self, tool: str) -> Verify | None:
        """Return how to find out whether a call of the tool was executed, if that is configured."""
        return next((check for glob, check in self.verify.items() if fnmatchcase(tool, glob)), None)

    def asks_approval(self, tool: str) -> bool:
        """Return whether calls of the tool wait for an approval."""
        return self.approve if isinstance(self.approve, bool) else _matches(self.approve, tool)


def _matches(globs: Iterable[str], tool: str) -> bool:
    return any(fnmatchcase(tool, glob) for glob in globs)


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a process. Texts are resolved, unless there is a `problem`."""

    name: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that the file sets."""
    cwd: Path = Path()
    """The configured folder, otherwise the one of the file."""
    options: ServerOptions = field(default_factory=ServerOptions)
    problem: str | None = None
    """Reason why this process cannot start the server, such as a variable that is not set; without secrets."""
    caller_secrets: tuple[str, ...] = ()
    """Names of the secrets of callers that its texts need."""
    inserted: ToolSecrets = field(default_factory=lambda: ToolSecrets({}), repr=False, compare=False)
    """The secrets of a caller that its texts contain. They are hidden in what the server says."""

    def with_secrets(self, secrets: Mapping[str, str]) -> "StdioServer":
        """Return the server with the secrets of a caller. Without one of them, the text that needs it is left out.

        Raises `ValueError` for a value that cannot be inserted, without the value.
        """
        args = tuple(text for one in self.args if (text := inserted(one, secrets)) is not None)
        env = {name: text for name, one in self.env.items() if (text := inserted(one, secrets)) is not None}
        return replace(self, args=args, env=env, inserted=ToolSecrets(secrets))

    @property
    def kind(self) -> Literal["stdio"]:
        """The transport."""
        return "stdio"

    @property
    def shown(self) -> str:
        """The server for people: its program, without arguments."""
        return self.command


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server at an address (Streamable HTTP). Texts are resolved, unless there is a `problem`."""

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    options: ServerOptions = field(default_factory=ServerOptions)
    problem: str | None = None
    """Reason why this process cannot use the server, such as a variable that is not set; without secrets."""
    caller_secrets: tuple[str, ...] = ()
    """Names of the secrets of callers that its texts need."""
    inserted: ToolSecrets = field(default_factory=lambda: ToolSecrets({}), repr=False, compare=False)
    """The secrets of a caller that its texts contain. They are hidden in what the server says."""

    def with_secrets(self, secrets: Mapping[str, str]) -> "HttpServer":
        """As `StdioServer` does."""
        headers = {name: text for name, one in self.headers.items() if (text := inserted(one, secrets)) is not None}
        if bad := next((name for name, text in headers.items() if not _is_header_value(text)), None):
            raise ValueError(f"a secret of the caller has characters that the header {bad} cannot have")
        return replace(self, headers=headers, inserted=ToolSecrets(secrets))

    @property
    def kind(self) -> Literal["http"]:
        """The transport."""
        return "http"

    @property
    def shown(self) -> str:
        """The server for people: its address, without a query, which may hold a key."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


McpServer = StdioServer | HttpServer


def _is_header_value(text: str) -> bool:
    return text.isascii() and text.isprintable()


def is_reached_alike(one: McpServer, other: McpServer) -> bool:
    """Return whether a session with `one` is a session with `other`: only their options may differ."""
    return replace(one, options=other.options) == other


class ServersFileError(ValueError):
    """The file cannot be used. `problems` has a line for each reason, with line and key, without secrets."""

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"{path}: " + "; ".join(self.problems))


class Servers(Mapping[str, McpServer]):
    """The servers of a file, by their names."""

    def __init__(
        self,
        servers: Iterable[McpServer] = (),
        *,
        entries: Mapping[str, JsonValue] | None = None,
        notes: Iterable[str] = (),
        secret_files: Iterable[Path] = (),
    ) -> None:
        """`entries` are the servers as they are written, for `digest`."""
        self._servers = {server.name: server for server in servers}
        self._entries = dict(entries or {})
        self.notes = tuple(notes)
        """Parts of the file that have no effect, a line each."""
        self.secret_files = tuple(dict.fromkeys(secret_files))
        """Files that values were read from."""

    def __getitem__(self, name: str) -> McpServer:
        return self._servers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)

    def digest(self, name: str) -> str:
        """Return a digest (64 hexadecimal digits) of how the file says to reach the server, before variables are
        inserted: equal in all processes, for equal entries. Options of Outlast do not change it.
        """
        return _slow_digest(json.dumps(self._entries.get(name), sort_keys=True))


@cache
def _slow_digest(text: str) -> str:
    """Histories hold the digest, and files hold passwords: each guess costs as much time as this call (10 ms)."""
    return hashlib.scrypt(text.encode(), salt=b"outlast mcp server", n=2**12, r=8, p=1, dklen=32).hex()


def read_servers(path: Path, environ: Mapping[str, str]) -> Servers:
    """Return the servers in the file at `path`, with the variables of `environ`. Raises `ServersFileError`.

    Values that are secrets by their place or their name are hidden in the logs of this process from now on.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ServersFileError(path, [f"cannot be read: {error.strerror or error}"]) from None
    return parse_servers(path, content, environ)


def parse_servers(path: Path, content: bytes, environ: Mapping[str, str]) -> Servers:
    """Return the servers in `content`, which is or shall be the file at `path`. Raises `ServersFileError`."""
    if len(content) > MAX_BYTES:
        raise ServersFileError(path, [f"is larger than {MAX_BYTES} bytes"])
    try:
        text = content.decode("utf-8-sig")
        root = read(text)
    except UnicodeDecodeError as error:
        raise ServersFileError(path, [f"is not UTF-8 (byte {error.start})"]) from None
    except NotJson as error:
        raise ServersFileError(path, [f"is not JSON ({error})"]) from None
    return _Reader(path, text, environ).servers(_Value(root, root.start, ()))


class ServersFile:
    """A file of servers that is read again when it changes, or a file of a secret that it names; and its lock file.

    A file that cannot be used leaves the servers as they were: the log has the reason, and `problem`.
    """

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        """Read the file. Raises `ServersFileError`."""
        self.path = path
        self.problem: str | None = None
        self._environ = environ
        self._read_version = _versions([path])
        self._servers = Servers()
        try:
            self.lock = LockFile(lock_path(path))
        except LockFileError as error:
            raise ServersFileError(path, [str(error)]) from None
        self._load()

    @property
    def current(self) -> Servers:
        """The servers in force. Costs one `stat` per file if nothing has changed."""
        version = _versions([self.path, *self._servers.secret_files])
        if version != self._read_version:
            self._read_version = version
            try:
                self._load()
            except ServersFileError as error:
                self.problem = str(error)
                log.error("The previous MCP servers stay in force: %s", error)  # noqa: TRY400 (the message is for operators)
        return self._servers

    def _load(self) -> None:
        before = _versions([self.path])
        servers = read_servers(self.path, self._environ)
        self._servers, self.problem = servers, None
        self._read_version = before + _versions(servers.secret_files)
        for note in servers.notes:
            log.info("%s: %s", self.path, note)
        for server in servers.values():
            if server.problem is not None:
                log.warning("The MCP server %s cannot be used: %s", server.name, server.problem)
        log.info("MCP servers loaded", extra={"servers": len(servers)})


def _versions(paths: Iterable[Path]) -> tuple[tuple[int, ...] | None, ...]:
    """Differs when a file, or what it links to, was written or replaced; None for a file that does not exist."""
    return tuple(map(file_version, paths))


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the file and its place."""

    node: Node
    at: int
    """Position of its name, otherwise of the value."""
    path: tuple[str | int, ...]

    @property
    def value(self) -> JsonValue:
        return self.node.value

    @property
    def members(self) -> "list[tuple[str, _Value]]":
        return [
            (name, _Value(member.value, member.start, (*self.path, name))) for name, member in self.node.members or ()
        ]

    @property
    def entries(self) -> "list[_Value]":
        return [_Value(entry, entry.start, (*self.path, index)) for index, entry in enumerate(self.node.entries)]

    def get(self, name: str) -> "_Value | None":
        """Return the last member with this name, as JSON parsers do."""
        return next((value for key, value in reversed(self.members) if key == name), None)

    def nearest(self, path: Sequence[str | int]) -> "_Value":
        """Return the value at `path` below this one, or the last one on the way to it that exists."""
        found = self
        for part in path:
            below = found.get(part) if isinstance(part, str) else next(iter(found.entries[part : part + 1]), None)
            if below is None:
                break
            found = below
        return found


_URLS = ("url", "serverUrl", "httpUrl")
_STDIO = frozenset({"command", "args", "env", "cwd"})
_HTTP = frozenset({*_URLS, "headers"})
_BOTH = frozenset({"type", "disabled", "enabled", "outlast"})
_KNOWN = _STDIO | _HTTP | _BOTH
_TYPES = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PROJECT_FOLDERS = frozenset({".vscode", ".cursor", ".claude", ".gemini"})


def project_folder(path: Path) -> Path:
    """Return the folder that relative folders in the file at `path` are relative to."""
    folder = path.absolute().parent
    return folder.parent if folder.name in _PROJECT_FOLDERS else folder


class _Reader:
    """Reads one file, and collects everything that is wrong with it."""

    def __init__(self, path: Path, text: str, environ: Mapping[str, str]) -> None:
        self._path = path
        self._text = text
        self._problems: list[str] = []
        self._notes: list[str] = []
        self._folder = project_folder(path)
        self._texts = Texts(environ, self._folder)

    def servers(self, root: _Value) -> Servers:
        """Return the servers. Raises `ServersFileError` with all problems."""
        found: dict[str, McpServer] = {}
        entries: dict[str, JsonValue] = {}
        self._texts.inputs = self._inputs(root)
        for name, entry in self._entries(root):
            server = self._server(name, entry)
            if server is not None:
                found[name] = server
                entries[name] = {key: value.value for key, value in entry.members if key != "outlast"}
        if self._problems:
            raise ServersFileError(self._path, self._problems)
        return Servers(found.values(), entries=entries, notes=self._notes, secret_files=self._texts.secret_files)

    def _entries(self, root: _Value) -> list[tuple[str, _Value]]:
        """Return the servers as they are written, with valid names."""
        lists = [value for name, value in root.members if name in ("mcpServers", "servers")]
        if not lists:
            self._problem(root, "has no object `mcpServers` (Claude, Cursor) or `servers` (VS Code)")
        found: dict[str, _Value] = {}
        for servers in lists:
            if servers.node.members is None:
                self._problem(servers, "is not an object of servers by their names")
            for name, entry in servers.members:
                if name in found:
                    self._problem(entry, f"is also in line {self._line(found[name])}; give one of them another name")
                elif SERVER_NAME.fullmatch(name) is None:
                    self._problem(entry, f"is not a valid name of a server: {_NAME_RULE}. Try {valid_name(name)!r}")
                found[name] = entry
        return list(found.items())

    def _server(self, name: str, entry: _Value) -> McpServer | None:
        if entry.node.members is None:
            self._problem(entry, "is not an object with `command`, or with `url`")
            return None
        self._check_keys(entry)
        options = self._options(entry)
        kind = self._kind(entry)
        if _is(entry.get("disabled"), True) or _is(entry.get("enabled"), False):
            self._note(entry, "is disabled, so it is not offered")
            return None
        if kind is None:
            return None
        unset: list[str] = []
        server = (self._stdio if kind == "stdio" else self._http)(name, entry, options, unset)
        if isinstance(server, StdioServer) and _is_outlast(server):
            self._note(entry, "starts Outlast itself, so it is not offered")
            return None
        return server

    def _check_keys(self, entry: _Value) -> None:
        seen = set[str]()
        is_stdio = entry.get("command") is not None
        for key, value in entry.members:
            if key in seen:
                self._problem(value, "is there twice")
            seen.add(key)
            if key == "envFile":
                self._problem(value, 'is not read: write its variables into `env`, as "NAME": "${NAME}"')
            elif key not in _KNOWN:
                near = _suggested_key(key)
                if near is not None:
                    self._problem(value, f"is unknown; did you mean {near!r}?")
                else:
                    self._note(value, "is not used by Outlast")
            elif key in (_HTTP if is_stdio else _STDIO):
                self._note(value, "is not used: it belongs to the other kind of server")

    def _kind(self, entry: _Value) -> str | None:
        """Return `stdio` or `http`; None after a problem."""
        written = entry.get("type")
        address = self._address(entry)
        if written is not None and written.value == "sse":
            reason = "is the older transport, server-sent events, which Outlast does not use; does the server have an"
            self._problem(written, f"{reason} address for Streamable HTTP, such as /mcp? Then write `http`")
            return None
        if written is not None and (not isinstance(written.value, str) or written.value not in _TYPES):
            self._problem(written, "is not `stdio` or `http`")
            return None
        if entry.get("command") is not None and address is not None:
            self._problem(entry, f"has `command` and `{address.path[-1]}`: keep one of them")
            return None
        given = "stdio" if entry.get("command") is not None else "http" if address is not None else None
        if given is None or (written is not None and _TYPES[str(written.value)] != given):
            needed = "`command`, or `url`" if written is None else _needed(_TYPES[str(written.value)])
            self._problem(entry, f"has no {needed}")
            return None
        return given

    @staticmethod
    def _address(entry: _Value) -> _Value | None:
        return next((value for key in _URLS if (value := entry.get(key)) is not None), None)

    def _stdio(self, name: str, entry: _Value, options: ServerOptions, unset: list[str]) -> StdioServer:
        command = self._resolved(entry.get("command"), unset)
        args = [self._resolved(value, unset) for value in self._list(entry.get("args"))]
        env = self._map(entry.get("env"), unset)
        for key in env:
            if "=" in key or not key:
                self._problem(entry.nearest(["env", key]), "is not a name of a variable")
        cwd = entry.get("cwd")
        folder = Path(self._resolved(cwd, unset) if cwd is not None else "").expanduser()
        if not command.strip() and not unset:
            self._problem(entry.nearest(["command"]), "is not a program")
        problem, needed = "; ".join(unset) or None, names_in((*args, *env.values()))
        self._check_no_secrets(entry, command, str(folder))
        return StdioServer(name, command, tuple(args), env, self._folder / folder, options, problem, needed)

    def _http(self, name: str, entry: _Value, options: ServerOptions, unset: list[str]) -> HttpServer:
        address = self._address(entry)
        url = self._resolved(address, unset)
        headers = self._map(entry.get("headers"), unset)
        for key, value in headers.items():
            if _HEADER_NAME.fullmatch(key) is None or not _is_header_value(HELD_PLACE.sub("", value)):
                self._problem(entry.nearest(["headers", key]), "is not a valid name or value of a header")
        if address is not None and not unset and (reason := _wrong_address(url)):
            self._problem(address, reason)
        self._check_no_secrets(entry, url)
        return HttpServer(name, url, headers, options, "; ".join(unset) or None, names_in(headers.values()))

    def _check_no_secrets(self, entry: _Value, *texts: str) -> None:
        if names_in(texts):
            self._problem(entry, "has ${caller:...} where it is not allowed: only `args`, `env` and `headers` may")

    def _list(self, value: _Value | None) -> list[_Value]:
        if value is not None and not isinstance(value.value, list):
            self._problem(value, "is not a list of texts")
        return value.entries if value is not None else []

    def _map(self, value: _Value | None, unset: list[str]) -> dict[str, str]:
        """Return the texts of `env` or `headers`. Null leaves a name out, as in VS Code."""
        if value is not None and value.node.members is None:
            self._problem(value, "is not an object of texts by their names")
        found: dict[str, str] = {}
        for key, one in value.members if value is not None else ():
            if one.value is not None:
                found[key] = self._resolved(one, unset)
                if SECRET_NAME.search(key) and "\0" not in found[key]:
                    hide_in_logs(key, found[key].removeprefix("Bearer "))
        return found

    def _resolved(self, value: _Value | None, unset: list[str]) -> str:
        """Return the text with its variables; names in `unset` the variables that are not set."""
        if value is None:
            return ""
        written = value.value
        if isinstance(written, int | float) and not isinstance(written, bool):
            return self._text[value.node.start : value.node.end]
        if not isinstance(written, str):
            self._problem(value, "is not a text")
            return ""
        if "\0" in written:
            self._problem(value, "contains the character NUL")
            return ""
        try:
            text, missing = self._texts.resolved(written)
        except ValueError as error:
            self._problem(value, str(error))
            return ""
        unset += [f"{self._place(value)}: {reason}" for reason in missing]
        return text

    def _options(self, entry: _Value) -> ServerOptions:
        written = entry.get("outlast")
        if written is None:
            return ServerOptions()
        try:
            return ServerOptions.model_validate_json(json.dumps(written.value))
        except ValidationError as error:
            for found in error.errors(include_input=False, include_url=False):
                place = written.nearest(found["loc"])
                left = [part for part in found["loc"][len(place.path) - len(written.path) :] if isinstance(part, str)]
                self._problem(place, _reason(found["type"], found["msg"], left, place.path))
            return ServerOptions()

    def _inputs(self, root: _Value) -> dict[str, str | None]:
        """Return the defaults of VS Code's inputs by their ids; None for one without default."""
        found: dict[str, str | None] = {}
        for entry in self._list(root.get("inputs")):
            name, default = entry.get("id"), entry.get("default")
            if name is None or not isinstance(name.value, str):
                self._problem(entry, "has no `id`")
            else:
                found[name.value] = default.value if default and isinstance(default.value, str) else None
        return found

    def _problem(self, value: _Value, reason: str) -> None:
        self._problems.append(f"{self._place(value)}: {reason}" if value.path else reason)

    def _note(self, value: _Value, reason: str) -> None:
        self._notes.append(f"{self._place(value)} {reason}")

    def _place(self, value: _Value) -> str:
        """Return the line and the key of a value."""
        keys = "".join(f"[{part}]" if isinstance(part, int) else f".{_shown_key(part)}" for part in value.path)
        return f"line {self._line(value)}{', ' if keys else ''}{keys.removeprefix('.')}"

    def _line(self, value: _Value) -> int:
        return self._text.count("\n", 0, value.at) + 1


_NAME_RULE = f"1 to {MAX_NAME_CHARS} letters, digits, - and _, without __ and without _ at its end"


def valid_name(name: str) -> str:
    """Return a valid name that resembles `name`."""
    words = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", name))[:MAX_NAME_CHARS]
    return words.strip("-_") or "server"


def _shown_key(key: str) -> str:
    return key if re.fullmatch(r"[\w@/*?+-]{1,100}", key) else json.dumps(key[:100])


def _suggested_key(key: str) -> str | None:
    """Return the key that `key` was probably meant to be; None if it is another client's."""
    folded = key.lower().replace("_", "").replace("-", "")
    same = next((known for known in _KNOWN if known.lower() == folded), None)
    return same or _MISSPELT.get(folded)


_MISSPELT = {
    "arg": "args",
    "agrs": "args",
    "arguments": "args",
    "cmd": "command",
    "comand": "command",
    "commands": "command",
    "environment": "env",
    "envs": "env",
    "uri": "url",
    "urls": "url",
    "header": "headers",
    "httpheaders": "headers",
    "workingdirectory": "cwd",
    "disable": "disabled",
    "options": "outlast",
}


def _needed(kind: str) -> str:
    return "`command`" if kind == "stdio" else "`url`"


def _is(value: _Value | None, expected: bool) -> bool:
    return value is not None and value.value is expected


def _reason(kind: str, message: str, left: list[str], path: tuple[str | int, ...]) -> str:
    if kind == "extra_forbidden":
        model = Verify if "verify" in path else ServerOptions
        known = [field.alias or name for name, field in model.model_fields.items()]
        return f"is not an option; the options are {suggested(known, str(path[-1]))}"
    if kind == "missing" and left:
        return f"has no {left[-1]!r}"
    return "is an empty list" if kind == "too_short" else message.removeprefix("Value error, ")


def _is_outlast(server: StdioServer) -> bool:
    """Return whether the server is Outlast, whose tools would contain themselves."""
    words = [Path(server.command).stem, *server.args]
    return "mcp" in words and ("outlast" in words or "outlast.cli" in words)


def _wrong_address(url: str) -> str | None:
    """Return what is wrong with an address, without any of it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "is not an address"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "is not an address, such as https://example.com/mcp"
    if parts.username is not None or parts.password is not None:
        return "has a user or a password in it: write it into `headers`, as Authorization"
    return None
