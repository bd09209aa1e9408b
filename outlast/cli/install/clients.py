"""The MCP clients whose configuration can be written: where each keeps it, and in which form."""

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

from outlast.cli.errors import BadInput

Platform = Literal["linux", "darwin", "win32"]
ClientName = Literal["claude-code", "claude-desktop", "cursor", "vscode", "windsurf", "codex", "gemini"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Whose files are meant: the home folder, the variables and the kind of a machine."""

    home: Path
    variables: Mapping[str, str]
    platform: Platform

    def application_data(self) -> Path:
        """Where desktop programs keep what is theirs."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.variables.get("APPDATA") or self.home / "AppData" / "Roaming")
        return Path(self.variables.get("XDG_CONFIG_HOME") or self.home / ".config")

    def has_program(self, name: str) -> bool:
        """Whether the program is on the PATH."""
        return shutil.which(name, path=self.variables.get("PATH")) is not None


@dataclass(frozen=True, slots=True)
class McpClient:
    """A client, and how its file describes a server.

    Places begin with `~`, or with `@data`, the folder of desktop programs. Before a `|` is a variable which, where it
    is set, names the file's folder instead. `source` is where the client's makers document its file.
    """

    id: ClientName
    title: str
    file: str
    source: str
    then: str
    """The user's next step, after which the change counts."""
    folder: str
    """It has been used on a machine that has this."""
    program: str | None = None
    project_file: str | None = None
    """In the folder of a project, for all who work there."""
    syntax: Literal["json", "toml"] = "json"
    servers: str = "mcpServers"
    """The name of the object in which its servers stand."""
    url: str | None = "url"
    """The field for a server's address; None where it only takes programs."""
    headers: str = "headers"
    stdio_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    http_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further fields in the entry of a program, and of an address."""
    variable: str | None = None
    """How a value names a variable of the environment; None where that is not documented."""

    def path(self, machine: Machine) -> Path:
        """The file of the user of `machine`."""
        return _resolved(self.file, machine)

    def is_found(self, machine: Machine) -> bool:
        """Whether the client seems to be there."""
        return _resolved(self.folder, machine).exists() or (
            self.program is not None and machine.has_program(self.program)
        )


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
    """The machine and the user of this process."""
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
    """The server that a client is to use, and what its connection offers."""

    url: str | None = None
    """Of an API; without it the client starts `outlast mcp`."""
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters of the connection: mode, tools and so on."""
    token: str | None = None
    token_variable: str | None = None
    """The variable that holds the token when the client starts."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    data_dir: Path | None = None

    def __repr__(self) -> str:
        """Without token, headers and variables."""
        return f"Server(url={self.url!r}, query={self.query!r})"


def entry(client: McpClient, server: Server, command: Sequence[str]) -> dict[str, JsonValue]:
    """The server as the client's file describes it; `command` is what starts `outlast`. Raises `BadInput`."""
    if server.token is not None and server.token_variable is not None:
        raise BadInput("--token and --token-env exclude each other: give the token, or the variable that has it.")
    return _program(client, server, command) if server.url is None else _address(client, server, server.url)


def outlast_command() -> list[str]:
    """The command that starts this installation of `outlast`, from any folder and without a PATH."""
    program = Path(sys.executable).with_name("outlast.exe" if sys.platform == "win32" else "outlast")
    return [str(program)] if program.is_file() else [sys.executable, "-m", "outlast.cli"]


def is_temporary(command: Sequence[str]) -> bool:
    """Whether the program is in an environment that `uvx` has made for one command: uv may remove it at any time."""
    return any(part.startswith("archive-v") for part in Path(command[0]).parts)


def address(text: str, query: Mapping[str, str]) -> str:
    """The address of the MCP endpoint: of an API's address, `/mcp` of it. Raises `BadInput`."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise BadInput(f"--url: {text!r} is no address of a server ({error}).") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"--url: {text!r} is no address of a server. Write it as http://127.0.0.1:8400")
    if parts.username is not None or parts.password is not None:
        raise BadInput("--url: an address with a password in it ends up in logs. Use --token or --header.")
    given = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query]
    path = parts.path if parts.path.strip("/") else "/mcp"
    # Commas and slashes of lists of Actors stay readable; the server takes both forms.
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode([*given, *query.items()], safe=",/"), ""))


def headers_of(texts: Sequence[str]) -> dict[str, str]:
    """The headers of `Name: value` texts. Raises `BadInput`, without the value: it may be a secret."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition(":")
        if not separator or not _HEADER_NAME.fullmatch(name.strip()) or not value.strip().isprintable():
            raise BadInput(f"--header: {name.strip()!r} is no header. Write it as 'Name: value'.")
        found[name.strip()] = value.strip()
    return found


def variables_of(texts: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of `NAME=value` and `NAME` texts, the latter with the value of this shell. Raises `BadInput`."""
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
        raise BadInput("--header is sent to a server's address: give it with --url, or use --env.")
    flags = [part for name, value in server.query.items() for part in (f"--{name}", value)]
    folder = ["--data-dir", str(server.data_dir.absolute())] if server.data_dir is not None else []
    variables = dict(server.variables)
    if server.token is not None:
        variables[_CALLER] = server.token
    if server.token_variable is not None:
        variables[_CALLER] = _reference(client, server.token_variable)
    found: dict[str, JsonValue] = {**client.stdio_fields, "command": command[0]}
    found["args"] = [*command[1:], "mcp", *flags, *folder]
    if variables:
        found["env"] = dict[str, JsonValue](variables)
    return found


def _address(client: McpClient, server: Server, url: str) -> dict[str, JsonValue]:
    if client.url is None:
        raise BadInput(
            f"The file of {client.title} takes programs only, and no address.",
            hint=f"Leave --url out: `outlast mcp install {client.id}`. Or add the address in the settings of "
            f"{client.title}, as a connector.",
        )
    if server.variables or server.data_dir is not None:
        raise BadInput("--env and --data-dir are for a program that the client starts: leave them out with --url.")
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
            hint="Give the token with the variable OUTLAST_TOKEN of this shell; the file is then yours alone to read.",
        )
    return client.variable.replace("NAME", variable)
