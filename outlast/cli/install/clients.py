"""The MCP clients whose configuration can be written: where each keeps it, and in which form."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

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
