"""Workspaces, reading files in them, and bounded output."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.workspaces import activities as workspace_files
from outlast.activities.workspaces.activities import (
    FileLines,
    ReadFileInput,
    WorkspaceFiles,
    WorkspaceOwner,
    Workspaces,
    folder_name,
)
from outlast.activities.workspaces.bubblewrap import BoundedOutput

OWNER = WorkspaceOwner(caller_id="key:a", session_id="chat")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Workspaces(tmp_path / "root").path(OWNER)


def read(folder: Path, path: str, offset: int = 0, limit: int = 2_000) -> FileLines:
    files = WorkspaceFiles(Workspaces(folder.parent))
    return files.read(ReadFileInput(owner=OWNER, path=path, offset=offset, limit=limit))


def test_every_conversation_has_a_folder_of_its_own(tmp_path: Path) -> None:
    owners = [
        OWNER,
        WorkspaceOwner(caller_id="key:a"),
        WorkspaceOwner(caller_id="key:a", session_id="key"),
        WorkspaceOwner(caller_id="key", session_id="a:chat"),
        WorkspaceOwner(caller_id="key:b", session_id="chat"),
    ]
    assert len({folder_name(owner) for owner in owners}) == len(owners)
    folder = Workspaces(tmp_path).path(WorkspaceOwner(caller_id="../..", session_id="../../etc"))
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_workspace_that_somebody_swapped_for_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / folder_name(OWNER)).symlink_to(tmp_path / "other")
    with pytest.raises(OSError):  # noqa: PT011
        Workspaces(root).path(OWNER)


def test_lines_are_read_page_by_page(folder: Path) -> None:
    (folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(10)))
    first = read(folder, "a.txt", limit=4)
    assert (first.text, first.lines, first.next_offset) == ("line 0\nline 1\nline 2\nline 3\n", 4, 4)
    last = read(folder, "/workspace/a.txt", offset=8)
    assert (last.text, last.next_offset) == ("line 8\nline 9\n", None)
    behind = read(folder, "a.txt", offset=50)
    assert (behind.text, behind.lines, behind.next_offset) == ("", 0, None)


def test_an_answer_is_bounded_in_bytes_and_goes_on_where_it_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_files, "MAX_READ_BYTES", 10)
    (folder / "a.txt").write_text("abcd\nefgh\nijkl\n" + "x" * 30 + "\nend")
    assert read(folder, "a.txt").text == "abcd\nefgh\n"
    assert read(folder, "a.txt").next_offset == 2
    assert read(folder, "a.txt", offset=2).next_offset == 3
    long = read(folder, "a.txt", offset=3)
    assert (long.text, long.cut_line_bytes, long.next_offset) == ("x" * 10, 31, 4)
    assert read(folder, "a.txt", offset=4).text == "end"


def test_a_file_is_not_searched_for_lines_without_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_files, "MAX_SCANNED_BYTES", 1_000_000)
    with (folder / "huge").open("wb") as file:
        file.write(b"a\n" * 40_000)
        file.truncate(10 * 1024**3)
    with pytest.raises(ToolFailure, match="is read up to"):
        read(folder, "huge", offset=10**9)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "/workspace/../x", "/workspace", ".", "link", "fifo"])
def test_what_is_not_a_file_of_the_workspace_is_refused(folder: Path, path: str) -> None:
    (folder.parent / "x").write_text("outside")
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo")
    with pytest.raises(ToolFailure) as caught:
        read(folder, path)
    assert caught.value.envelope.category == "filesystem"


def test_a_missing_file_and_a_binary_one_are_failures_of_the_file_system(folder: Path) -> None:
    (folder / "binary").write_bytes(b"\0\1")
    with pytest.raises(ToolFailure) as missing:
        read(folder, "absent")
    with pytest.raises(ToolFailure) as binary:
        read(folder, "binary")
    assert (missing.value.envelope.category, binary.value.envelope.category) == ("filesystem", "filesystem")


def test_an_empty_file_is_empty(folder: Path) -> None:
    (folder / "empty").touch()
    assert (read(folder, "empty").text, read(folder, "empty").next_offset) == ("", None)


@given(st.lists(st.binary(max_size=20), max_size=30))
def test_bounded_output_keeps_both_ends_and_counts_the_rest(pieces: list[bytes]) -> None:
    output, whole = BoundedOutput(head_bytes=8, tail_bytes=16), b"".join(pieces)
    for piece in pieces:
        output.add(piece)
    assert output.total == len(whole)
    assert output.dropped <= max(0, len(whole) - 8 - 16)
    if not output.dropped:
        assert output.text == whole.decode(errors="replace")
    else:
        head, note, tail = output.text.partition(f"\n[… {output.dropped} bytes of the output left out here …]\n")
        assert note
        assert head == whole[:8].decode(errors="replace")
        assert tail == whole[8 + output.dropped :].decode(errors="replace")
        assert len(whole) - 8 - output.dropped <= 16 + 20
