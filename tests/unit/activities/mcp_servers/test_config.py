"""The file of MCP servers: the forms of clients, variables, what is wrong with it, and changes while a process runs."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outlast.activities.mcp_servers.config import (
    HttpServer,
    RetryArgument,
    Servers,
    ServersFile,
    ServersFileError,
    StdioServer,
    read_servers,
)
from outlast.activities.tool_secrets import hide_known

TOKEN = "tok-5ecret-value"


def servers_in(folder: Path, text: str, **environ: str) -> Servers:
    return read_servers(written(folder, text), environ)


def written(folder: Path, text: str, name: str = "mcp.json") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def one(folder: Path, entry: Mapping[str, Any], **environ: str) -> StdioServer | HttpServer:
    return servers_in(folder, json.dumps({"mcpServers": {"one": entry}}), **environ)["one"]


def stdio(folder: Path, entry: Mapping[str, Any], **environ: str) -> StdioServer:
    server = one(folder, entry, **environ)
    assert isinstance(server, StdioServer)
    return server


def http(folder: Path, entry: Mapping[str, Any], **environ: str) -> HttpServer:
    server = one(folder, entry, **environ)
    assert isinstance(server, HttpServer)
    return server


def problems_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(ServersFileError) as refused:
        servers_in(folder, text)
    return list(refused.value.problems)


def problem_of(folder: Path, entry: Mapping[str, Any]) -> str:
    """Return the only problem with the entry, without its place."""
    (problem,) = problems_of(folder, json.dumps({"mcpServers": {"one": entry}}))
    place, _, reason = problem.partition(": ")
    assert place.startswith("line 1, mcpServers.one")
    return reason


CLAUDE = """\
{
  "theme": "dark",
  "mcpServers": {
    "git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"], "env": {"GIT_PAGER": "cat", "LEVEL": 3}},
    "wiki": {"type": "http", "url": "https://wiki.example/mcp?key=k", "headers": {"X-Team": "blue"}}
  }
}
"""
VSCODE = """\
{
  // asked once by VS Code
  "inputs": [
    {"type": "promptString", "id": "wiki-token", "description": "Token", "password": true},
    {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
  ],
  "servers": {
    "wiki": {
      "url": "https://${input:region}.wiki.example/mcp", "headers": {"Authorization": "Bearer ${input:wiki-token}"},
    },
    "files": {"command": "${workspaceFolder}/files", "env": {"OFF": null}, /* no arguments */},
  },
}
"""


def test_the_file_of_claude_and_cursor(tmp_path: Path) -> None:
    servers = servers_in(tmp_path, CLAUDE)
    assert list(servers) == ["git", "wiki"]
    assert servers["git"] == StdioServer(
        "git", "uvx", ("mcp-server-git",), {"GIT_PAGER": "cat", "LEVEL": "3"}, tmp_path
    )
    assert servers["wiki"] == HttpServer("wiki", "https://wiki.example/mcp?key=k", {"X-Team": "blue"})
    assert servers["wiki"].shown == "https://wiki.example/mcp"


def test_the_file_of_vs_code_with_comments_and_inputs(tmp_path: Path) -> None:
    path = written(tmp_path, VSCODE, ".vscode/mcp.json")
    servers = read_servers(path, {"WIKI_TOKEN": TOKEN})
    assert servers["wiki"] == HttpServer("wiki", "https://eu.wiki.example/mcp", {"Authorization": f"Bearer {TOKEN}"})
    assert servers["files"] == StdioServer("files", f"{tmp_path}/files", cwd=tmp_path)
    without = read_servers(path, {})["wiki"].problem
    assert without is not None
    assert "servers.wiki.headers.Authorization" in without
    assert "set WIKI_TOKEN or WIKI_TOKEN_FILE" in without


def test_variables_and_their_defaults(tmp_path: Path) -> None:
    args = ["${A}", "${env:A}-${A}", "${B:-none}", "${B:-}", "$${A}", "$A", "{A}"]
    server = stdio(tmp_path, {"command": "${A}/x", "args": args}, A="a")
    assert server.command == "a/x"
    assert server.args == ("a", "a-a", "none", "", "${A}", "$A", "{A}")


def test_a_secret_comes_from_its_variable_or_its_file_and_is_hidden_in_logs(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    entry = {"command": "x", "env": {"WIKI": "${secret:WIKI}"}}
    assert stdio(tmp_path, entry, WIKI_FILE=str(file)).env == {"WIKI": "from-a-file"}
    assert hide_known("its token is from-a-file") == "its token is [secret WIKI]"
    assert stdio(tmp_path, entry, WIKI="direct", WIKI_FILE=str(file)).env == {"WIKI": "direct"}
    http(tmp_path, {"url": "http://localhost/mcp", "headers": {"Authorization": "Bearer in-the-file"}})
    assert hide_known("sent in-the-file") == "sent [secret Authorization]"


def test_a_variable_that_is_not_set_is_a_problem_of_its_server_alone(tmp_path: Path) -> None:
    text = '{"mcpServers": {\n"a": {"command": "a", "env": {"KEY": "${NO_KEY}"}},\n"b": {"command": "b"}}}'
    servers = servers_in(tmp_path, text)
    assert servers["a"].problem == "line 2, mcpServers.a.env.KEY: NO_KEY is not set in the environment of this process"
    assert servers["b"].problem is None
    secret = one(tmp_path, {"url": "http://localhost/mcp", "headers": {"X-Key": "${secret:NO_KEY}"}}).problem
    assert secret is not None
    assert "NO_KEY_FILE" in secret


def test_no_text_shows_secrets(tmp_path: Path) -> None:
    entry = {"command": "x", "args": [f"--token={TOKEN}"], "env": {"KEY": TOKEN}}
    address = {"url": f"https://wiki.example/mcp?key={TOKEN}", "headers": {"Authorization": TOKEN}}
    servers = servers_in(tmp_path, json.dumps({"mcpServers": {"one": entry, "two": address}}))
    assert TOKEN not in repr(dict(servers)) + repr(servers)
    assert TOKEN not in servers["two"].shown
    wrong = {**entry, "args": [TOKEN, "${no such form " + TOKEN + "}"], "env": {"KEY": [TOKEN]}, "cwd": {TOKEN: TOKEN}}
    assert TOKEN not in str(problems_of(tmp_path, json.dumps({"mcpServers": {"one": wrong}})))
    assert TOKEN not in str(problems_of(tmp_path, f'{{"mcpServers": {{"one": {TOKEN}}}}}'))
    assert TOKEN not in problem_of(tmp_path, {"url": f"https://user:{TOKEN}@wiki.example/mcp"})
    assert TOKEN not in problem_of(tmp_path, {"command": "x", "outlast": {"approve": {"one": TOKEN}}})


NAME_RULE = "1 to 32 letters, digits, - and _, without __ and without _ at its end"
OPTIONS = (
    "session, idle_seconds, stateless, resources, only, except, retry, verify, approve, timeout_seconds, and 3 more"
)


def test_every_problem_has_its_line_and_key(tmp_path: Path) -> None:
    text = """{"mcpServers": {
        "my server": {"command": "x"},
        "a": {"command": "x",
              "agrs": []},
        "b": {"command": "x", "args": ["y",
              true]},
        "c": {"url": "x", "outlast": {"sesion": "call",
              "retry": {"pay": "maybe"}}},
        "a": {"command": "y"}
    }}"""
    assert problems_of(tmp_path, text) == [
        f"line 2, mcpServers.\"my server\": is not a valid name of a server: {NAME_RULE}. Try 'my-server'",
        "line 9, mcpServers.a: is also in line 3; give one of them another name",
        "line 6, mcpServers.b.args[1]: is not a text",
        'line 8, mcpServers.c.outlast.retry.pay: is not "always", "never", or {"argument": "NAME"}',
        f"line 7, mcpServers.c.outlast.sesion: is not an option; the options are {OPTIONS}",
        "line 7, mcpServers.c.url: is not an address, such as https://example.com/mcp",
    ]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "has no `command`, or `url`"),
        ({"type": "http", "command": "x"}, "has no `url`"),
        ({"command": "x", "url": "http://localhost"}, "has `command` and `url`: keep one of them"),
        ({"command": " "}, "is not a program"),
        ({"command": 3.5, "agrs": []}, "is unknown; did you mean 'args'?"),
        ({"type": "pigeon", "url": "http://localhost"}, "is not `stdio` or `http`"),
        ({"command": "x", "env": {"A=B": "c"}}, "is not a name of a variable"),
        ({"command": "x", "env": {"A": "\0"}}, "contains the character NUL"),
        ({"url": "http://localhost", "headers": {"X": "a\nb"}}, "is not a valid name or value of a header"),
        ({"command": "x", "args": ["${input:token}"]}, "`inputs` has no entry with the id 'token'"),
        ({"command": "x", "outlast": {"only": []}}, "is an empty list"),
        ({"command": "x", "outlast": {"verify": {"pay": {"tool": "find"}}}}, "has no 'done'"),
        ({"command": "x", "outlast": {"timeout_seconds": 0}}, "Input should be greater than 0"),
    ],
)
def test_what_is_wrong_with_a_server(tmp_path: Path, entry: Mapping[str, Any], reason: str) -> None:
    assert problem_of(tmp_path, entry) == reason


def test_problems_that_name_a_way_out(tmp_path: Path) -> None:
    assert "Streamable HTTP" in problem_of(tmp_path, {"type": "sse", "url": "http://localhost/sse"})
    assert '"NAME": "${NAME}"' in problem_of(tmp_path, {"command": "x", "envFile": ".env"})
    assert "JMESPath" in problem_of(
        tmp_path, {"command": "x", "outlast": {"verify": {"a": {"tool": "b", "done": "("}}}}
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"theme": "dark"}', "has no object `mcpServers`"),
        ("[]", "has no object `mcpServers`"),
        ("{", "is not JSON (line 1, column 2)"),
        ("", "is not JSON (line 1, column 1)"),
        ('{"mcpServers": []}', "is not an object of servers"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, reason: str) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert reason in problem


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ServersFileError, match=r"mcp\.json: cannot be read: No such file"):
        read_servers(tmp_path / "mcp.json", {})


def test_disabled_servers_outlast_itself_and_keys_of_clients_are_left_out_with_a_note(tmp_path: Path) -> None:
    entries = {
        "off": {"command": "x", "disabled": True},
        "out": {"url": "http://localhost/mcp", "enabled": False},
        "outlast": {"command": "/opt/venv/bin/outlast", "args": ["mcp", "--tools", "docs"]},
        "on": {"command": "x", "autoApprove": ["a"], "disabled": False},
    }
    servers = servers_in(tmp_path, json.dumps({"mcpServers": entries}))
    assert list(servers) == ["on"]
    assert [note.partition(" ")[2].partition(" ")[2] for note in servers.notes] == [
        "mcpServers.off is disabled, so it is not offered",
        "mcpServers.out is disabled, so it is not offered",
        "mcpServers.outlast starts Outlast itself, so it is not offered",
        "mcpServers.on.autoApprove is not used by Outlast",
    ]


def test_options_of_a_server_and_their_patterns(tmp_path: Path) -> None:
    options = one(
        tmp_path,
        {
            "command": "x",
            "outlast": {
                "session": "conversation",
                "only": ["git_*"],
                "except": ["git_reset"],
                "retry": {"git_add": "always", "git_p*": {"argument": "request_id"}, "*": "never"},
                "verify": {"git_commit": {"tool": "git_log", "arguments": {"grep": "{message}"}, "done": "content[0]"}},
                "approve": ["git_push", "git_reset"],
                "timeout_seconds": 30,
                "max_concurrent": 1,
                "idle_seconds": 5,
                "stateless": True,
            },
        },
    ).options
    assert (options.session, options.timeout_seconds, options.max_concurrent) == ("conversation", 30, 1)
    assert (options.idle_seconds, options.stateless) == (5, True)
    assert [tool for tool in ("git_log", "git_reset", "log", "Git_log") if options.offers(tool)] == ["git_log"]
    assert [options.retry_of(tool) for tool in ("git_add", "git_push", "log")] == [
        "always",
        RetryArgument("request_id"),
        "never",
    ]
    check = options.verify_of("git_commit")
    assert check is not None
    assert (check.tool, check.arguments, check.done) == ("git_log", {"grep": "{message}"}, "content[0]")
    assert options.verify_of("git_add") is None
    assert options.asks_approval("git_push")
    assert not options.asks_approval("git_log")
    assert one(tmp_path, {"command": "x", "outlast": {"approve": True}}).options.asks_approval("any")


def test_a_digest_changes_with_the_server_and_not_with_variables_or_options(tmp_path: Path) -> None:
    def digest(entry: Mapping[str, Any], **environ: str) -> str:
        return servers_in(tmp_path, json.dumps({"mcpServers": {"one": entry}}), **environ).digest("one")

    first = digest({"command": "x", "env": {"A": "${A}"}}, A="1")
    assert len(first) == 64
    assert digest({"env": {"A": "${A}"}, "command": "x", "outlast": {"stateless": True}}, A="2") == first
    assert digest({"command": "x", "env": {"A": "1"}}) != first


def test_a_changed_file_is_read_again_and_a_broken_one_keeps_the_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, CLAUDE)
    file = ServersFile(path, {})
    before = file.current
    assert list(before) == ["git", "wiki"]
    assert file.current is before, "an unchanged file is not read again"
    path.write_text('{"mcpServers": {"git": {"cmd": "uvx"}}}')
    with caplog.at_level(logging.ERROR):
        assert file.current is before
    assert file.current is before
    assert file.problem is not None
    assert "did you mean 'command'?" in file.problem
    assert [record.getMessage() for record in caplog.records] == [
        f"The previous MCP servers stay in force: {file.problem}"
    ]
    path.unlink()
    assert file.current is before
    assert "No such file" in file.problem
    replaced = written(tmp_path, '{"mcpServers": {}}', "new.json")
    replaced.replace(path)
    assert list(file.current) == []
    assert file.problem is None


def test_a_changed_secret_is_read_again(tmp_path: Path) -> None:
    secret = written(tmp_path, "first-value", "token")
    path = written(tmp_path, '{"mcpServers": {"one": {"command": "x", "env": {"KEY": "${secret:WIKI_TOKEN}"}}}}')
    file = ServersFile(path, {"WIKI_TOKEN_FILE": str(secret)})
    secret.write_text("second-value")
    server = file.current["one"]
    assert isinstance(server, StdioServer)
    assert server.env == {"KEY": "second-value"}


def test_the_first_file_must_be_valid(tmp_path: Path) -> None:
    with pytest.raises(ServersFileError, match="has no object"):
        ServersFile(written(tmp_path, "{}"))


def test_secrets_of_callers_are_inserted_later(tmp_path: Path) -> None:
    entry = {
        "command": "server",
        "args": ["--key=${caller:KEY}", "$${caller:KEY}"],
        "env": {"TOKEN": "${caller:TOKEN}", "BOTH": "${caller:KEY}${caller:TOKEN}", "PLAIN": "${NAME:-plain}"},
    }
    server = stdio(tmp_path, entry)
    assert server.problem is None
    assert server.caller_secrets == ("KEY", "TOKEN")
    full = server.with_secrets({"KEY": "a-secret-key", "TOKEN": "${HOME}", "OTHER": "x"})
    assert full.args == ("--key=a-secret-key", "${caller:KEY}")
    assert full.env == {"TOKEN": "${HOME}", "BOTH": "a-secret-key${HOME}", "PLAIN": "plain"}
    assert full.inserted.hide("the key is a-secret-key") == "the key is [secret KEY]"
    partly = server.with_secrets({"KEY": "a-secret-key"})
    assert partly.env == {"PLAIN": "plain"}
    assert "a-secret-key" not in repr(full)


def test_secrets_of_callers_must_fit_into_headers(tmp_path: Path) -> None:
    server = http(tmp_path, {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${caller:T}"}})
    assert server.with_secrets({}).headers == {}
    assert server.with_secrets({"T": "abc"}).headers == {"Authorization": "Bearer abc"}
    with pytest.raises(ValueError, match="Authorization") as refused:
        server.with_secrets({"T": "secret\r\nHost: other"})
    assert "secret\r\n" not in str(refused.value)


def test_secrets_of_callers_are_allowed_in_some_places(tmp_path: Path) -> None:
    for entry in (
        {"command": "${caller:T}"},
        {"command": "server", "cwd": "${caller:T}"},
        {"url": "https://example.com/${caller:T}"},
    ):
        assert "only `args`, `env` and `headers` may" in problem_of(tmp_path, entry)
    assert "upper-case" in problem_of(tmp_path, {"command": "server", "args": ["${caller:token}"]})
