"""`outlast mcp install` and `uninstall`, on the files of clients in a home of their own."""

import json
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from outlast.cli.install.clients import CLIENTS, ClientName, Machine
from outlast.cli.install.config_files import read_config
from outlast.cli.options import CliError
from tests.integration.cli.conftest import Outlast

OUTLAST = str(Path(sys.executable).parent / "outlast")
SECRET = "apify_api_very-secret"
OTHERS = """\
{
    // by hand
    "mcpServers": {
        "wiki": {"url": "https://wiki.example/mcp", "key": "hush"}
    }
}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def written(client: str, home: Path) -> Any:
    """Return the server in the file of the client."""
    path = CLIENTS[client].path(Machine(home, {}, "linux"))
    document = tomllib.loads(path.read_text()) if path.suffix == ".toml" else json.loads(path.read_text())
    return document[CLIENTS[client].servers]["outlast"]


PLACES = {
    "claude-code": (".claude.json", ".claude.json", ".claude.json"),
    "claude-desktop": tuple(
        f"{data}/Claude/claude_desktop_config.json"
        for data in (".config", "Library/Application Support", "AppData/Roaming")
    ),
    "cursor": (".cursor/mcp.json",) * 3,
    "vscode": tuple(
        f"{data}/Code/User/mcp.json" for data in (".config", "Library/Application Support", "AppData/Roaming")
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "codex": (".codex/config.toml",) * 3,
    "gemini": (".gemini/settings.json",) * 3,
}


def test_where_each_client_keeps_its_servers(tmp_path: Path) -> None:
    platforms = ("linux", "darwin", "win32")
    found = {
        name: tuple(client.path(Machine(tmp_path, {}, kind)).relative_to(tmp_path).as_posix() for kind in platforms)
        for name, client in CLIENTS.items()
    }
    assert found == PLACES
    assert set(get_args(ClientName)) == set(CLIENTS)
    moved = Machine(tmp_path, {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "APPDATA": "/a"}, "win32")
    assert [CLIENTS[name].path(moved).as_posix() for name in ("claude-code", "codex", "vscode")] == [
        "/c/.claude.json",
        "/x/config.toml",
        "/a/Code/User/mcp.json",
    ]


PROGRAM = {"command": OUTLAST, "args": ["mcp", "--tools", "docs"], "env": {"APIFY_TOKEN": SECRET}}
BEARER = {"Authorization": f"Bearer {SECRET}"}
ADDRESS = "https://outlast.example/mcp?mode=openai"
PROGRAMS = dict.fromkeys(CLIENTS, PROGRAM) | {name: {"type": "stdio", **PROGRAM} for name in ("claude-code", "vscode")}
ADDRESSES = {
    "claude-code": {"type": "http", "url": ADDRESS, "headers": BEARER},
    "cursor": {"url": ADDRESS, "headers": BEARER},
    "vscode": {"type": "http", "url": ADDRESS, "headers": BEARER},
    "windsurf": {"serverUrl": ADDRESS, "headers": BEARER},
    "codex": {"url": ADDRESS, "http_headers": BEARER},
    "gemini": {"httpUrl": ADDRESS, "headers": BEARER},
}
REFERENCES = {
    "claude-code": "${TEAM_TOKEN}",
    "cursor": "${env:TEAM_TOKEN}",
    "vscode": "${env:TEAM_TOKEN}",
    "windsurf": "${env:TEAM_TOKEN}",
    "gemini": "$TEAM_TOKEN",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_form_that_each_client_reads(
    outlast: Outlast, home: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APIFY_TOKEN", SECRET)
    program = outlast("mcp", "install", client, "--tools", "docs", "--env", "APIFY_TOKEN")
    assert (program.code, written(client, home)) == (0, PROGRAMS[client])
    monkeypatch.setenv("OUTLAST_TOKEN", SECRET)
    address = ("mcp", "install", client, "--url", "https://outlast.example", "--mode", "openai")
    at_address = outlast(*address)
    assert SECRET not in program.out + program.err + at_address.out + at_address.err
    if client == "claude-desktop":
        assert (at_address.code, "takes programs only" in at_address.said) == (2, True)
        return
    assert (at_address.code, written(client, home)) == (0, ADDRESSES[client])
    by_name = outlast(*address, "--token-env", "TEAM_TOKEN")
    if client == "codex":
        assert written(client, home) == {"url": ADDRESS, "bearer_token_env_var": "TEAM_TOKEN"}
    else:
        assert written(client, home)["headers"] == {"Authorization": f"Bearer {REFERENCES[client]}"}
    assert SECRET not in by_name.out
    assert outlast(*address, "--token-env", "TEAM_TOKEN").out.strip().endswith("nothing to change.")


OFFERED = ["--mode", "apify", "--ui", "apps", "--tools", "actors"]
CONNECTION = [*OFFERED, "--payment", "x402", "--telemetry-enabled", "false"]
FLAGS = ["mcp", *CONNECTION]
QUERY = "mode=apify&ui=apps&tools=actors&payment=x402&telemetry-enabled=false"


@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_connection_offers_is_in_the_command_or_the_address(outlast: Outlast, home: Path, client: str) -> None:
    assert outlast("mcp", "install", client, *CONNECTION).code == 0
    assert written(client, home)["args"] == FLAGS
    address = CLIENTS[client].url
    if address is None:
        return
    assert outlast("mcp", "install", client, "--url", "https://o.example/mcp?payment=skyfire", *CONNECTION).code == 0
    assert written(client, home)[address] == f"https://o.example/mcp?{QUERY}"


def test_words_that_say_nothing_are_told_and_a_payment_that_there_is_not_is_refused(
    outlast: Outlast, home: Path
) -> None:
    refused = [
        ("--mode", "apify", "--payment", "x204"),
        ("--mode", "default", "--payment", "x402"),
        ("--mode", "openai", "--payment", ""),
    ]
    for wrong in refused:
        ended = outlast("mcp", "install", "cursor", *wrong)
        assert (ended.code, "has no payment" in ended.said) == (2, True), wrong
    assert list(home.iterdir()) == []
    told = outlast("mcp", "install", "cursor", "--mode", "default", "--ui", "apps", "--dry-run")
    assert (told.code, "--ui has no effect" in told.said) == (0, True)
    told = outlast("mcp", "install", "cursor", "--payment", "x204", "--dry-run")
    assert (told.code, "has the payment 'x204'" in told.said) == (0, True)
    silent = outlast("mcp", "install", "cursor", "--ui", "apps", "--payment", "x402", "--dry-run")
    assert (silent.code, "!" in silent.said) == (0, False)


def test_the_rest_of_the_file_stays_and_a_copy_is_kept(outlast: Outlast, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "dotfiles" / "mcp.json"
    file.parent.mkdir()
    file.write_text(OTHERS)
    file.chmod(0o640)
    (home / ".cursor").mkdir()
    link = home / ".cursor" / "mcp.json"
    link.symlink_to(file)
    shown = outlast("mcp", "install", "cursor", "--token", SECRET, "--dry-run")
    assert (shown.code, file.read_text()) == (0, OTHERS)
    assert f'+   "command": "{OUTLAST}"' in shown.out
    assert '+     "OUTLAST_TOKEN": "***"' in shown.out
    assert "hush" not in shown.out
    first = outlast("mcp", "install", "cursor", "--token", SECRET, "--json").document
    assert (first["changed"], Path(first["backup"]).read_text()) == (True, OTHERS)
    assert "// by hand" in file.read_text()
    assert '"wiki": {"url": "https://wiki.example/mcp", "key": "hush"}' in file.read_text()
    assert link.is_symlink()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, Path(first["backup"]))] == [0o640, 0o600]
    before = file.read_bytes()
    again = outlast("mcp", "install", "cursor", "--token", SECRET, "--json").document
    assert (again["changed"], again["backup"], again["difference"], file.read_bytes()) == (False, None, [], before)
    changed = outlast("mcp", "install", "cursor", "--token", f"{SECRET}-2", "--json").document["difference"]
    assert [x for x in changed if x[0] in "+-"] == [
        '-     "OUTLAST_TOKEN": "***"',
        '+     "OUTLAST_TOKEN": "*** (new)"',
    ]
    gone = outlast("mcp", "uninstall", "cursor")
    assert (gone.code, file.read_text()) == (0, OTHERS)
    assert SECRET not in gone.out + json.dumps([first, again, changed])
    assert len(list(file.parent.glob("*.bak"))) == 3


def test_a_file_that_cannot_be_read_is_left_alone(outlast: Outlast, home: Path) -> None:
    broken = {"gemini": '{"mcpServers": {"a": hush}}', "codex": 'key = "x" "hush"'}
    for client, text in broken.items():
        path = CLIENTS[client].path(Machine(home, {}, "linux"))
        path.parent.mkdir()
        path.write_text(text)
        ended = outlast("mcp", "install", client, "--token", SECRET)
        assert (ended.code, path.read_text()) == (1, text)
        assert "Correct it and run the command again" in ended.said
        assert "line 1, column" in ended.said
        assert OUTLAST in ended.said, "what to add by hand"
        assert not {"hush", SECRET} & set(ended.said.replace('"', " ").split())
        assert sorted(path.parent.iterdir()) == [path]
    inline = home / ".codex" / "config.toml"
    inline.write_text("mcp_servers = {outlast = {command = 'x'}}\n")
    ended = outlast("mcp", "install", "codex")
    assert (ended.code, inline.read_text()) == (1, "mcp_servers = {outlast = {command = 'x'}}\n")


def test_a_change_of_another_program_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    read = read_config(path)
    path.write_text('{"theirs": 1}')
    with pytest.raises(CliError, match="another program has just changed it"):
        read.replace('{"ours": 1}')
    assert path.read_text() == '{"theirs": 1}'


def test_a_new_file_is_for_its_owner_only_and_a_projects_file_has_no_secret(
    outlast: Outlast, home: Path, tmp_path: Path
) -> None:
    assert outlast("mcp", "install", "claude-code", "--token", SECRET).code == 0
    assert stat.S_IMODE((home / ".claude.json").stat().st_mode) == 0o600
    refused = outlast("mcp", "install", "vscode", "--project", str(tmp_path), "--token", SECRET)
    assert (refused.code, "--token-env" in refused.said) == (2, True)
    team = ("--project", str(tmp_path), "--url", "https://outlast.example", "--token-env", "TEAM_TOKEN")
    assert outlast("mcp", "install", "vscode", *team, "--name", "team").code == 0
    assert list(json.loads((tmp_path / ".vscode" / "mcp.json").read_text())["servers"]) == ["team"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--url", "outlast.example"),
        ("--url", "http://user:pw@outlast.example"),
        ("--url", "http://[x"),
        ("--url", "http://outlast.example", "--header", "no header"),
        ("--url", "http://outlast.example", "--env", "A=1"),
        ("--header", "A: b"),
        ("--env", "NOT_SET_ANYWHERE"),
        ("--token", "a", "--token-env", "B"),
        ("--name", "a.b"),
        ("--project", ".", "--file", "x"),
    ],
)
def test_what_makes_no_sense_is_refused(outlast: Outlast, home: Path, wrong: tuple[str, ...]) -> None:
    assert outlast("mcp", "install", "cursor", *wrong).code == 2
    assert list(home.iterdir()) == []


def test_without_a_client_they_are_listed(outlast: Outlast, home: Path) -> None:
    outlast("mcp", "install", "cursor")
    (home / ".gemini").mkdir()
    listed = outlast("mcp", "install", "--json").document["clients"]
    assert [row["client"] for row in listed] == list(CLIENTS)
    assert {row["client"] for row in listed if row["installed"]} == {"cursor"}
    assert {"cursor", "gemini"} <= {row["client"] for row in listed if row["found"]}
    assert "claude-desktop" in outlast("mcp", "install").out


def test_a_program_that_uv_may_remove_is_told(
    outlast: Outlast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "uv" / "archive-v0" / "x" / "bin" / "python"))
    assert "uv tool install 'outlast[embedded]'" in outlast("mcp", "install", "cursor", "--dry-run").said
    assert "uv tool" not in outlast("mcp", "install", "cursor", "--url", "http://127.0.0.1:1", "--dry-run").said


def test_a_flag_of_the_server_before_the_command_is_not_lost(outlast: Outlast, home: Path) -> None:
    assert outlast("mcp", "--tools", "docs", "install", "cursor").code == 2
    assert list(home.iterdir()) == []
    assert "no mode 'apifi'" in outlast("mcp", "install", "cursor", "--mode", "apifi").said
