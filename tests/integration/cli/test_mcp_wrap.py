"""`outlast mcp install CLIENT --wrap` and `--undo`, on the files of clients in a home of their own."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from outlast.activities.mcp_servers.config import HttpServer, StdioServer, read_servers
from outlast.cli.commands.mcp import _use_servers_of
from outlast.cli.install.clients import CLIENTS, Machine
from outlast.cli.install.config_files import parsed_toml
from outlast.cli.options import CliError
from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.state import StackAddresses, StackState
from outlast.json_text import parsed
from tests.integration.cli.conftest import Outlast

SECRET = "very-secret-token"
CURSOR = """\
{
    // by hand
    "theme": "dark",
    "mcpServers": {
        // the team's
        "git": {"command": "uvx", "args": ["x", "very-secret-token"], "env": {"TOKEN": "very-secret-token"}},
        "wiki pages": {"url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer ${env:WIKI}"}}, // slow
        "old": {"type": "sse", "url": "https://old.example/sse"},
        "off": {"command": "x", "disabled": true},
        "here": {"command": "x", "args": ["${workspaceFolder}"]}
    }
}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "WIKI"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file that servers move to."""
    return tmp_path / "own" / "servers.json"


def client_file(home: Path, client: str, text: str) -> Path:
    path = CLIENTS[client].path(Machine(home, {}, "linux"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def servers_of(path: Path) -> Any:
    document: Any = parsed_toml(path.read_text()) if path.suffix == ".toml" else parsed(path.read_text())
    return next(document[key] for key in ("mcpServers", "servers", "mcp_servers") if key in document)


def test_the_servers_move_behind_outlast_and_back_without_a_trace(outlast: Outlast, home: Path, file: Path) -> None:
    path = client_file(home, "cursor", CURSOR)
    wrap = ("mcp", "install", "cursor", "--wrap", "--mcp-servers", str(file))
    shown = outlast(*wrap, "--dry-run")
    assert (shown.code, path.read_text(), file.parent.exists()) == (0, CURSOR, False)
    ended = outlast(*wrap)
    assert ended.code == 0
    assert SECRET not in shown.out + shown.err + ended.out + ended.err
    assert [line.strip() for line in shown.out.splitlines() if "- " in line] == ['- "git"', '- "wiki pages"']
    servers = servers_of(path)
    assert list(servers) == ["old", "off", "here", "outlast"]
    assert servers["outlast"]["args"] == ["mcp", "--mcp-servers", str(file)]
    assert "// by hand" in path.read_text()
    moved = read_servers(file, {"WIKI": "w"})
    assert moved["git"] == StdioServer("git", "uvx", ("x", SECRET), {"TOKEN": SECRET}, home)
    assert moved["wiki-pages"] == HttpServer("wiki-pages", "https://wiki.example/mcp", {"Authorization": "Bearer w"})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.with_name("servers.wrapped.json").stat().st_mode) == 0o600
    assert "old stays in Cursor: type: is the older transport" in ended.said
    assert "off stays in Cursor: is disabled" in ended.said
    assert "here stays in Cursor: depends on the folder that is open in the client" in ended.said
    assert "wiki pages is called wiki-pages in Outlast" in ended.said
    assert "WIKI is not set" in ended.said
    undone = outlast("mcp", "install", "cursor", "--undo", "--json").document
    assert undone["moved_back"] == ["git", "wiki pages"]
    assert path.read_text() == CURSOR
    assert dict(read_servers(file, {})) == {}
    again = outlast("mcp", "install", "cursor", "--undo", "--mcp-servers", str(file))
    assert (again.code, "No servers of" in again.said) == (1, True)


def test_a_second_time_moves_what_is_new_and_a_file_that_has_changed_keeps_its_changes(
    outlast: Outlast, home: Path, file: Path
) -> None:
    path = client_file(home, "claude-code", '{"mcpServers": {"a": {"command": "a"}, "outlast": {"command": "mine"}}}')
    wrap = ("mcp", "install", "claude-code", "--wrap", "--mcp-servers", str(file), "--json")
    assert outlast(*wrap).document["moved"] == {"a": "a"}
    document = json.loads(path.read_text())
    document["mcpServers"] |= {"b": {"command": "b"}, "a": {"command": "a", "args": ["new"]}}
    path.write_text(json.dumps({**document, "theme": "light"}))
    assert outlast(*wrap).document["moved"] == {"b": "b", "a": "a"}
    assert list(servers_of(path)) == ["outlast"]
    assert outlast(*wrap).document["changed"] is False
    a = read_servers(file, {})["a"]
    assert isinstance(a, StdioServer)
    assert a.args == ("new",)
    copies = [*path.parent.glob("*.bak"), *file.parent.glob("*.bak")]
    assert {copy.parent for copy in copies} == {path.parent, file.parent}
    assert {stat.S_IMODE(copy.stat().st_mode) for copy in copies} == {0o600}
    document["mcpServers"] = {**servers_of(path), "b": {"command": "mine"}}
    path.write_text(json.dumps({**document, "theme": "light"}))
    ended = outlast("mcp", "install", "claude-code", "--undo")
    assert "b is in Claude Code again, and stays as it is" in ended.said
    assert json.loads(path.read_text())["theme"] == "light"
    assert servers_of(path) == {
        "outlast": {"command": "mine"},
        "b": {"command": "mine"},
        "a": {"command": "a", "args": ["new"]},
    }


def test_two_clients_share_a_file_and_different_servers_get_different_names(
    outlast: Outlast, home: Path, file: Path
) -> None:
    same, first, second = {"command": "same"}, {"command": "one"}, {"command": "two"}
    client_file(home, "cursor", json.dumps({"mcpServers": {"same": same, "git": first}}))
    gemini = client_file(home, "gemini", json.dumps({"mcpServers": {"same": same, "git": second}}))
    flags = ("--wrap", "--mcp-servers", str(file), "--json")
    assert outlast("mcp", "install", "cursor", *flags).document["moved"] == {"same": "same", "git": "git"}
    assert outlast("mcp", "install", "gemini", *flags).document["moved"] == {"same": "same", "git": "git-gemini"}
    assert list(servers_of(file)) == ["same", "git", "git-gemini"]
    assert outlast("mcp", "install", "cursor", "--undo").code == 0
    assert list(servers_of(file)) == ["same", "git-gemini"], "what another client needs stays"
    assert outlast("mcp", "install", "gemini", "--undo").code == 0
    assert servers_of(gemini) == {"same": same, "git": second}


CODEX = """\
model = "x"

[mcp_servers.git]
command = "uvx"
args = ["${literal}"]
env_vars = ["GIT_TOKEN"]
disabled_tools = ["git_reset"]

[mcp_servers.wiki]
url = "https://wiki.example/mcp"
bearer_token_env_var = "WIKI"
http_headers = { X-Team = "blue" }
"""


def test_the_forms_of_other_clients_are_converted(
    outlast: Outlast, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = client_file(home, "codex", CODEX)
    flags = ("--wrap", "--mcp-servers", str(file))
    assert outlast("mcp", "install", "codex", *flags).code == 0
    assert list(servers_of(path)) == ["outlast"]
    servers = read_servers(file, {"GIT_TOKEN": "g", "WIKI": "w"})
    git, wiki = servers["git"], servers["wiki"]
    assert isinstance(git, StdioServer)
    assert isinstance(wiki, HttpServer)
    assert (git.args, git.env, git.options.offers("git_reset")) == (("${literal}",), {"GIT_TOKEN": "g"}, False)
    assert wiki.headers == {"X-Team": "blue", "Authorization": "Bearer w"}
    assert outlast("mcp", "install", "codex", "--undo").code == 0
    assert path.read_text() == CODEX
    client_file(home, "gemini", '{"mcpServers": {"wiki": {"httpUrl": "https://$WIKI_HOST/mcp"}}}')
    client_file(
        home,
        "vscode",
        '{"inputs": [{"id": "wiki-key"}], "servers": {"key": {"command": "x", "env": {"K": "${input:wiki-key}"}}}}',
    )
    assert outlast("mcp", "install", "gemini", *flags).code == 0
    assert outlast("mcp", "install", "vscode", *flags).code == 0
    servers = read_servers(file, {"WIKI_HOST": "w.example", "WIKI_KEY": "k"})
    assert servers["wiki"] == HttpServer("wiki", "https://w.example/mcp")
    assert servers["key"] == StdioServer("key", "x", (), {"K": "k"}, home)
    vscode = CLIENTS["vscode"].path(Machine(home, {}, "linux"))
    assert servers_of(vscode)["outlast"]["env"] == {"WIKI_KEY": "${input:wiki-key}"}


def test_a_client_that_joins_a_stack_uses_its_servers_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_MCP_SERVERS_FILE", "")

    def join(theirs: str | None, own: str | None) -> str:
        file = tmp_path / theirs if theirs else None
        state = StackState(pid=1, started_at="", addresses=StackAddresses(), parts={}, ports={}, mcp_servers_file=file)
        _use_servers_of(state, StackConfig(data_dir=tmp_path, mcp_servers=tmp_path / own if own else None))
        return os.environ["OUTLAST_MCP_SERVERS_FILE"]

    assert join(None, None) == ""
    for own in (None, "a.json"):
        assert join("a.json", own) == str(tmp_path / "a.json")
    with pytest.raises(CliError, match=r"has no MCP servers, .*--mcp-servers .*/b\.json"):
        join(None, "b.json")
    with pytest.raises(CliError, match=r"has the MCP servers of .*/a\.json"):
        join("a.json", "b.json")


def test_what_makes_no_sense_is_refused(outlast: Outlast, home: Path, file: Path, tmp_path: Path) -> None:
    path = client_file(home, "cursor", CURSOR)
    for wrong, reason in (
        (("--wrap", "--url", "http://localhost:8400"), "leave them out with --url"),
        (("--wrap", "--project", str(tmp_path)), "are for your own file"),
        (("--wrap", "--leave", "nothing"), "has no server 'nothing'"),
        (("--leave", "git"), "only for --wrap"),
        (("--mcp-servers", str(file)), "cannot be read"),
    ):
        ended = outlast("mcp", "install", "cursor", *wrong)
        assert (ended.code, reason in ended.said) == (2, True), (wrong, ended.said)
    assert path.read_text() == CURSOR
    left = outlast("mcp", "install", "cursor", "--wrap", "--mcp-servers", str(file), "--leave", "git", "--json")
    assert (left.document["left"]["git"], list(left.document["moved"])) == ("--leave", ["wiki pages"])


def test_the_servers_are_not_lost_when_outlast_is_removed(outlast: Outlast, home: Path, file: Path) -> None:
    path = client_file(home, "cursor", CURSOR)
    assert outlast("mcp", "install", "cursor", "--wrap", "--mcp-servers", str(file)).code == 0
    ended = outlast("mcp", "uninstall", "cursor")
    assert (ended.code, "outlast mcp install cursor --undo" in ended.said) == (1, True)
    assert "outlast" in servers_of(path)


def test_by_default_the_file_is_in_the_data_directory(outlast: Outlast, home: Path, tmp_path: Path) -> None:
    client_file(home, "cursor", CURSOR)
    data_dir = tmp_path / "stack"
    ended = outlast("mcp", "install", "cursor", "--wrap", "--data-dir", str(data_dir), "--json").document
    assert ended["servers_file"] == str(data_dir / "mcp-servers.json")
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert list(read_servers(data_dir / "mcp-servers.json", {})) == ["git", "wiki-pages"]
