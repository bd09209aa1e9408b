"""The lock file of MCP servers: its form, what it quarantines, and what stays in force when it is broken or gone."""

import hashlib
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from outlast.activities.mcp_servers.config import ServersFile, ServersFileError
from outlast.activities.mcp_servers.contracts import ServerListing, ServerPackage, ServerTool
from outlast.activities.mcp_servers.packages import package_of
from outlast.activities.mcp_servers.pins import (
    LockFile,
    LockFileError,
    accepted,
    changes_of,
    digest_of,
    lock_path,
    lock_text,
    pin_of,
    quarantine_of,
    read_lock,
    write_lock,
)

TEXT: dict[str, Any] = {"properties": {"text": {"type": "string"}}}
ADD = ServerTool(name="add", description="Add a line.", input_schema=TEXT)
READ = ServerTool(name="read", description="Read.", read_only=True, annotated=True)


def listing(*tools: ServerTool, **more: Any) -> ServerListing:
    return ServerListing(server="notes", tools=tools, listed_at=datetime(2026, 11, 28, tzinfo=UTC), **more)


def test_the_lock_file_is_canonical_and_shows_what_is_hidden(tmp_path: Path) -> None:
    hidden = ADD.model_copy(update={"description": "Größe\u200b\U000e0041"})
    text = lock_text({"notes": pin_of(listing(READ, hidden))})
    assert text == lock_text({"notes": pin_of(listing(hidden, READ))})
    assert "Größe\\u200b\\udb40\\udc41" in text
    assert list(json.loads(text)["servers"]["notes"]["tools"]) == ["add", "read"]
    path = tmp_path / "mcp.lock.json"
    write_lock(path, {"notes": pin_of(listing(hidden))})
    assert read_lock(path) == {"notes": pin_of(listing(hidden))}
    assert path.stat().st_mode & 0o777 == 0o644
    assert lock_path(tmp_path / "mcp.json") == path


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"description": "Add a line. "}, "changed"),
        ({"title": "Add"}, "changed"),
        ({"input_schema": {}}, "changed"),
        ({"output_schema": {"type": "object"}}, "changed"),
        ({"annotated": True}, "changed"),
        ({"name": "other"}, "new"),
        ({"input_schema": {"properties": {"te\u200bxt": {}}}}, "hidden"),
        ({"input_schema": {"properties": {"text": {"enum": ["a\U000e0041"]}}}}, "hidden"),
        ({"input_schema": {"properties": {"text": {"description": "\u200b"}}}}, "changed"),
    ],
)
def test_a_tool_that_differs_from_its_pin_is_quarantined(changes: dict[str, Any], reason: str | None) -> None:
    assert quarantine_of(pin_of(listing(ADD)), ADD.model_copy(update=changes)) == reason
    assert quarantine_of(None, ADD.model_copy(update=changes)) == ("hidden" if reason == "hidden" else None)


def test_changed_annotations_are_a_change() -> None:
    pin = pin_of(listing(READ))
    assert quarantine_of(pin, READ.model_copy(update={"destructive": False})) == "changed"


def test_the_difference_is_shown_line_by_line() -> None:
    package = ServerPackage(kind="npm", name="notes", version="1.0.0")
    was = pin_of(listing(ADD, READ, instructions="Be brief.", package=package))
    changed = ADD.model_copy(update={"description": "Add a line.\nThen \u202etell it."})
    newer = package.model_copy(update={"version": "1.1.0"})
    changes = changes_of(was, pin_of(listing(changed, instructions="Be long.", package=newer)))
    assert [(one.kind, one.part, one.tool) for one in changes] == [
        ("changed", "tool", "add"),
        ("removed", "tool", "read"),
        ("changed", "instructions", None),
        ("changed", "package", None),
    ]
    assert "+ description: Then \\u202etell it." in changes[0].lines
    assert "- Be brief." in changes[2].lines
    assert "+ npm notes, version 1.1.0, digest unknown" in changes[3].lines
    assert changes_of(was, was) == ()


def test_accepting_one_tool_leaves_the_others_as_they_were_pinned() -> None:
    was = pin_of(listing(ADD, READ, instructions="A"))
    now = pin_of(listing(*(one.model_copy(update={"title": "T"}) for one in (ADD, READ)), instructions="B"))
    one = accepted(was, now, ["add"])
    assert (one.tools["add"], one.tools["read"], one.instructions) == (now.tools["add"], was.tools["read"], "A")
    assert accepted(was, now) == now
    gone = accepted(was, pin_of(listing(READ)), ["add"])
    assert list(gone.tools) == ["read"]


def test_a_lock_file_that_is_broken_or_gone_keeps_its_pins_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "mcp.lock.json"
    write_lock(path, {"notes": pin_of(listing(ADD))})
    lock = LockFile(path)
    before = lock.current
    assert list(before) == ["notes"]
    with caplog.at_level(logging.ERROR):
        path.write_text("{")
        assert lock.current is before
        assert lock.problem is not None
        assert "is no valid lock file" in lock.problem
        path.unlink()
        assert lock.current is before
        assert "is gone" in lock.problem
    assert len(caplog.records) == 2
    write_lock(path, {})
    with caplog.at_level(logging.WARNING):
        assert dict(lock.current) == {}
    assert lock.problem is None
    assert "notes is no longer pinned" in caplog.records[-1].getMessage()


def test_a_damaged_lock_file_stops_the_start_and_a_missing_one_does_not(tmp_path: Path) -> None:
    servers = tmp_path / "mcp.json"
    servers.write_text('{"mcpServers": {"notes": {"command": "x"}}}')
    assert dict(ServersFile(servers, {}).lock.current) == {}
    write_lock(lock_path(servers), {"notes": pin_of(listing(ADD))})
    lock_path(servers).write_text(lock_path(servers).read_text().replace("Add a line", "Send all lines"))
    with pytest.raises(LockFileError, match="digest of the tool add of notes"):
        read_lock(lock_path(servers))
    with pytest.raises(ServersFileError, match="digest"):
        ServersFile(servers, {})


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest_of({"a": 1, "b": {"c": 2, "d": 3}}) == digest_of({"b": {"d": 3, "c": 2}, "a": 1})


def npm_package(folder: Path, name: str, version: str, integrity: str) -> None:
    package = folder / "node_modules" / name
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": name, "version": version}))
    packages = {f"node_modules/{name}": {"version": version, "integrity": integrity}}
    (folder / "package-lock.json").write_text(json.dumps({"packages": packages}))


def test_the_package_of_npx_is_that_of_its_cache(tmp_path: Path) -> None:
    spec = "@scope/notes@latest"
    folder = tmp_path / ".npm" / "_npx" / hashlib.sha512(spec.encode()).hexdigest()[:16]
    npm_package(folder, "@scope/notes", "2.1.0", "sha512-abc")
    found = package_of("npx", ["-y", spec, "/data"], tmp_path, {}, tmp_path)
    assert found == ServerPackage(kind="npm", name="@scope/notes", version="2.1.0", integrity="sha512-abc")
    assert package_of("/usr/bin/npx", ["-y", "--package", spec, "notes"], tmp_path, {}, tmp_path) == found


@pytest.mark.parametrize(
    ("command", "args", "package"),
    [
        ("npx", ["-y", "notes@1.2.3", "--port=1"], ServerPackage(kind="npm", name="notes", version="1.2.3")),
        ("npx", ["-y", "notes@^1.2.3"], ServerPackage(kind="npm", name="notes")),
        ("npx", ["--yes", "notes"], ServerPackage(kind="npm", name="notes")),
        ("uvx", ["mcp-server-git==1.0"], ServerPackage(kind="pypi", name="mcp-server-git", version="1.0")),
        ("uvx", ["--from", "Mcp_Git[x]@1.0", "git"], ServerPackage(kind="pypi", name="mcp-git", version="1.0")),
        ("uvx", ["--python", "3.12", "notes", "--x"], ServerPackage(kind="pypi", name="notes")),
        ("uv", ["tool", "run", "notes"], ServerPackage(kind="pypi", name="notes")),
        ("uvx", ["git+https://example.com/x"], None),
        ("node", ["notes.js"], None),
    ],
)
def test_without_a_cache_the_command_alone_counts(
    tmp_path: Path, command: str, args: list[str], package: ServerPackage | None
) -> None:
    assert package_of(command, args, tmp_path, {}, tmp_path) == package


def wheel(folder: Path, name: str, version: str, digest: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    own = f"../../../bin/notes,sha256=here,1\n{info.name}/INSTALLER,sha256=x,2\n"
    (info / "RECORD").write_text(f"notes/__init__.py,sha256={digest},10\n{own}")


def test_the_package_of_uvx_is_known_if_its_cache_has_one_version(tmp_path: Path) -> None:
    cache = tmp_path / ".cache" / "uv"
    wheel(cache / "archive-v0" / "a" / "lib" / "python3.12" / "site-packages", "my_notes", "1.0", "AAA")
    found = package_of("uvx", ["my-notes"], tmp_path, {}, tmp_path)
    assert found is not None
    assert found.version == "1.0"
    assert found.integrity is not None
    wheel(cache / "archive-v0" / "b", "my_notes", "1.1", "BBB")
    assert package_of("uvx", ["my-notes"], tmp_path, {}, tmp_path) == ServerPackage(kind="pypi", name="my-notes")
    exact = package_of("uvx", ["my-notes==1.0"], tmp_path, {}, tmp_path)
    assert exact is not None
    assert exact.integrity == found.integrity
