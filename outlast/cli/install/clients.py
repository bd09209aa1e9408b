"""The MCP clients that can be configured: the place and the format of their files."""

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import JsonValue

from outlast.cli.options import BadInput

Platform = Literal["linux", "darwin", "win32"]
ClientName = Literal["claude-code", "claude-desktop", "cursor", "vscode", "windsurf", "codex", "gemini"]


@dataclass(frozen=True, slots=True)
class Machine:
    """The home folder, the variables and the platform of a user."""

    home: Path
    variables: Mapping[str, str]
    platform: Platform

    def application_data(self) -> Path:
        """Return the folder for the data of desktop programs."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.variables.get("APPDATA") or self.home / "AppData" / "Roaming")
        return Path(self.variables.get("XDG_CONFIG_HOME") or self.home / ".config")


@dataclass(frozen=True, slots=True)
class McpClient:
    """A client, and the format of a server in its file.

    Places begin with `~`, or with `@data`, the folder of desktop programs. A variable before `|` is the folder of the
    file if it is set.
    """

    id: ClientName
    title: str
    file: str
    source: str
    """Address of the documentation of the file."""
    then: str
    """Next step of the user, for the change to take effect."""
    folder: str
    """A place that exists if the client has been used."""
    program: str | None = None
    project_file: str | None = None
    """File in the folder of a project, for all who work on it."""
    syntax: Literal["json", "toml"] = "json"
    servers: str = "mcpServers"
    """Name of the object that contains the servers."""
    url: str | None = "url"
    """Field for the address of a server; None if the client accepts only programs."""
    headers: str = "headers"
    stdio_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    http_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further fields in the entry of a program or an address."""
    variable: str | None = None
    """Reference to an environment variable in a value; None if that is not documented."""

    def path(self, machine: Machine) -> Path:
        """Return the file of the user."""
        return _resolved(self.file, machine)

    def is_found(self, machine: Machine) -> bool:
        """Return whether the client seems to be installed."""
        is_on_path = self.program is not None and shutil.which(self.program, path=machine.variables.get("PATH"))
        return bool(is_on_path) or _resolved(self.folder, machine).exists()


CLIENTS: dict[str, McpClient] = {
    client.id: client
    for client in (
        McpClient(
            "claude-code",
            "Claude Code",
            "$CLAUDE_CONFIG_DIR|~/.claude.json",
            source="https://code.claude.com/docs/en/mcp",
            then="Restart `claude`; `/mcp` shows the server.",
            folder="~/.claude.json",
            program="claude",
            project_file=".mcp.json",
            stdio_fields={"type": "stdio"},
            http_fields={"type": "http"},
            variable="${NAME}",
        ),
        McpClient(
            "claude-desktop",
            "Claude Desktop",
            "@data/Claude/claude_desktop_config.json",
            source="https://modelcontextprotocol.io/docs/develop/connect-local-servers",
            then="Quit Claude Desktop and start it again; closing its window is not enough.",
            folder="@data/Claude",
            url=None,
        ),
        McpClient(
            "cursor",
            "Cursor",
            "~/.cursor/mcp.json",
            source="https://cursor.com/docs/mcp",
            then="Restart Cursor, and switch the server on in its settings.",
            folder="~/.cursor",
            program="cursor",
            project_file=".cursor/mcp.json",
            variable="${env:NAME}",
        ),
        McpClient(
            "vscode",
            "VS Code",
            "@data/Code/User/mcp.json",
            source="https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
            then="Start the server with the command `MCP: List Servers` of VS Code.",
            folder="@data/Code",
            program="code",
            project_file=".vscode/mcp.json",
            servers="servers",
            stdio_fields={"type": "stdio"},
            http_fields={"type": "http"},
            variable="${env:NAME}",
        ),
        McpClient(
            "windsurf",
            "Windsurf",
            "~/.codeium/windsurf/mcp_config.json",
            source="https://docs.windsurf.com/windsurf/cascade/mcp",
            then="Refresh the list of MCP servers in Windsurf.",
            folder="~/.codeium/windsurf",
            program="windsurf",
            url="serverUrl",
            variable="${env:NAME}",
        ),
        McpClient(
            "codex",
            "Codex CLI",
            "$CODEX_HOME|~/.codex/config.toml",
            source="https://developers.openai.com/codex/mcp",
            then="Restart `codex`; `/mcp` shows the server.",
            folder="~/.codex",
            program="codex",
            project_file=".codex/config.toml",
            syntax="toml",
            servers="mcp_servers",
            headers="http_headers",
        ),
        McpClient(
            "gemini",
            "Gemini CLI",
            "~/.gemini/settings.json",
            source="https://geminicli.com/docs/tools/mcp-server/",
            then="Restart `gemini`; `/mcp` shows the server.",
            folder="~/.gemini",
            program="gemini",
            project_file=".gemini/settings.json",
            # `url` would be the older transport, of server-sent events.
            url="httpUrl",
            variable="$NAME",
        ),
    )
}
"""By their ids, in the order in which they are listed."""


def this_machine() -> Machine:
    """Return the machine and the user of this process."""
    platform: Platform = "darwin" if sys.platform == "darwin" else "win32" if sys.platform == "win32" else "linux"
    return Machine(Path.home(), os.environ, platform)


def _resolved(place: str, machine: Machine) -> Path:
    variable, separator, rest = place.rpartition("|")
    if separator and (folder := machine.variables.get(variable.removeprefix("$"))):
        return Path(folder) / Path(rest).name
    if rest.startswith("@data/"):
        return machine.application_data() / rest.removeprefix("@data/")
    return machine.home / rest.removeprefix("~/")


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALLER = "OUTLAST_TOKEN"


@dataclass(frozen=True, slots=True)
class Server:
    """The server for a client to use, and the parameters of the connection."""

    url: str | None = None
    """Address of an API; without it, the client starts `outlast mcp`."""
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters of the connection, such as mode and tools."""
    token: str | None = field(default=None, repr=False)
    token_variable: str | None = None
    """Variable that holds the token when the client starts."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    data_dir: Path | None = None
    tools_from: Sequence[str] = ()
    """Modules with the user's tools: names, or absolute paths."""
    mcp_servers: Path | None = None
    """File with MCP servers behind Outlast."""


def entry(client: McpClient, server: Server, command: Sequence[str]) -> dict[str, JsonValue]:
    """Return the server in the format of the client's file; `command` starts `outlast`. Raises `BadInput`."""
    if server.token is not None and server.token_variable is not None:
        raise BadInput("--token and --token-env exclude each other: give the token, or the variable that holds it.")
    return _program(client, server, command) if server.url is None else _address(client, server, server.url)


def outlast_command() -> list[str]:
    """Return the command that starts this installation of `outlast`, from any folder and without a PATH."""
    program = Path(sys.executable).with_name("outlast.exe" if sys.platform == "win32" else "outlast")
    return [str(program)] if program.is_file() else [sys.executable, "-m", "outlast.cli"]


def is_temporary(command: Sequence[str]) -> bool:
    """Return whether the program is in a temporary environment of `uvx`, which uv can remove at any time."""
    return any(part.startswith("archive-v") for part in Path(command[0]).parts)


def address(text: str, query: Mapping[str, str]) -> str:
    """Return the address of the MCP endpoint; the default path is `/mcp`. Raises `BadInput`."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise BadInput(f"--url: {text!r} is not the address of a server ({error}).") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"--url: {text!r} is not the address of a server. Write it as http://127.0.0.1:8400")
    if parts.username is not None or parts.password is not None:
        raise BadInput("--url: an address with a password appears in logs. Use --token or --header.")
    given = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query]
    path = parts.path if parts.path.strip("/") else "/mcp"
    # Commas and slashes in lists of Actors stay readable; the server accepts both forms.
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode([*given, *query.items()], safe=",/"), ""))


def headers_of(texts: Sequence[str]) -> dict[str, str]:
    """Parse `Name: value` texts. Raises `BadInput` without the value, which may be a secret."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition(":")
        if not separator or not _HEADER_NAME.fullmatch(name.strip()) or not value.strip().isprintable():
            raise BadInput(f"--header: {name.strip()!r} is not a header. Write it as 'Name: value'.")
        found[name.strip()] = value.strip()
    return found


def variables_of(texts: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Parse `NAME=value` and `NAME` texts; the latter take the value of this shell. Raises `BadInput`."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not _VARIABLE_NAME.fullmatch(name):
            raise BadInput("--env: write it as NAME, or as NAME=value.")
        if not separator and name not in environment:
            raise BadInput(f"--env: {name} is not set in this shell. Set it, or write {name}=value.")
        found[name] = value if separator else environment[name]
    return found


def _program(client: McpClient, server: Server, command: Sequence[str]) -> dict[str, JsonValue]:
    if server.headers:
        raise BadInput("--header is only for the address of a server: give it with --url, or use --env.")
    flags = [part for name, value in server.query.items() for part in (f"--{name}", value)]
    folder = ["--data-dir", str(server.data_dir.absolute())] if server.data_dir is not None else []
    own = ["--tools-from", ",".join(server.tools_from)] if server.tools_from else []
    own += ["--mcp-servers", str(server.mcp_servers.absolute())] if server.mcp_servers is not None else []
    variables = dict(server.variables)
    if server.token is not None:
        variables[_CALLER] = server.token
    if server.token_variable is not None:
        variables[_CALLER] = _reference(client, server.token_variable)
    found: dict[str, JsonValue] = {**client.stdio_fields, "command": command[0]}
    found["args"] = [*command[1:], "mcp", *flags, *folder, *own]
    if variables:
        found["env"] = dict[str, JsonValue](variables)
    return found


def _address(client: McpClient, server: Server, url: str) -> dict[str, JsonValue]:
    if client.url is None:
        raise BadInput(
            f"The file of {client.title} takes programs only, not addresses.",
            hint=f"Leave --url out: `outlast mcp install {client.id}`. Or add the address in the settings of "
            f"{client.title}, as a connector.",
        )
    if server.variables or server.data_dir is not None or server.tools_from or server.mcp_servers is not None:
        raise BadInput(
            "--env, --data-dir, --tools-from, --mcp-servers and --wrap are only for a program that the client starts: "
            "leave them out with --url."
        )
    found: dict[str, JsonValue] = {**client.http_fields, client.url: address(url, server.query)}
    headers = dict(server.headers)
    if server.token is not None:
        headers["Authorization"] = f"Bearer {server.token}"
    if server.token_variable is not None and client.syntax == "toml":
        found["bearer_token_env_var"] = server.token_variable
    elif server.token_variable is not None:
        headers["Authorization"] = f"Bearer {_reference(client, server.token_variable)}"
    if headers:
        found[client.headers] = dict[str, JsonValue](headers)
    return found


def _reference(client: McpClient, variable: str) -> str:
    if not _VARIABLE_NAME.fullmatch(variable):
        raise BadInput("--token-env: write the name of a variable.")
    if client.variable is None:
        raise BadInput(
            f"The file of {client.title} cannot name a variable here.",
            hint="Set OUTLAST_TOKEN in this shell to the token. Only you can read the file.",
        )
    return client.variable.replace("NAME", variable)
