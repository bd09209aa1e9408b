"""Files below a folder: whatever path, link, race or special file somebody makes up, nothing outside is opened."""

import os
import socket
import threading
from pathlib import Path

import pytest

from outlast.activities import safe_open
from outlast.activities.safe_open import PathError, PathNotFound, open_file_below, opened_folder

SECRET = "the secret outside"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, and a secret beside it."""
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "sub" / "a.txt").write_text("hello")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text(SECRET)
    return inside


@pytest.fixture(params=["kernel", "steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By openat2, and as where there is none."""
    if request.param == "steps":
        monkeypatch.setattr(safe_open, "_LIBC", None)
    elif safe_open._LIBC is None:
        pytest.skip("this system has no openat2")
    return request.param


def read(folder: Path, path: str) -> str:
    with opened_folder(folder) as descriptor, os.fdopen(open_file_below(descriptor, path)) as file:
        return file.read()


@pytest.mark.parametrize("path", ["sub/a.txt", "./sub/a.txt", "sub//a.txt"])
def test_a_file_is_opened(folder: Path, way: str, path: str) -> None:
    assert read(folder, path) == "hello"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../secret.txt",
        "sub/../../secret.txt",
        "sub/..",
        "..",
        "/proc/self/root/etc/passwd",
        "",
        "a\0b",
        "x" * 5_000,
        "x" * 300,
    ],
)
def test_a_path_that_leads_out_or_cannot_be_is_refused(folder: Path, way: str, path: str) -> None:
    with pytest.raises(PathError):
        read(folder, path)


@pytest.mark.parametrize("path", ["absent", "absent/a", "sub/a.txt/x"])
def test_what_is_not_there_is_said_to_be_so(folder: Path, way: str, path: str) -> None:
    with pytest.raises(PathNotFound):
        read(folder, path)


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../secret.txt", "../outside", "/proc/self/root", "/proc/self/fd", "sub/../../secret.txt"]
)
def test_links_that_lead_out_are_refused(folder: Path, way: str, target: str) -> None:
    (folder / "link").symlink_to(target)
    for path in ("link", "link/a.txt", "link/etc/passwd", "link/0"):
        with pytest.raises(PathError):
            read(folder, path)


def test_links_in_a_circle_are_refused(folder: Path, way: str) -> None:
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    with pytest.raises(PathError):
        read(folder, "one")


def test_links_that_stay_inside_are_followed_by_the_kernel(folder: Path) -> None:
    if safe_open._LIBC is None:
        pytest.skip("this system has no openat2")
    (folder / "link").symlink_to("sub/../sub/a.txt")
    assert read(folder, "link") == "hello"


def test_what_is_no_file_is_refused_without_waiting_for_it(folder: Path, way: str) -> None:
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        for path in ("fifo", "socket", "sub", "."):
            with pytest.raises(PathError):
                read(folder, path)


def test_a_device_is_refused(folder: Path, way: str) -> None:
    try:
        os.mknod(folder / "null", 0o666 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root may make devices")
    with pytest.raises(PathError):
        read(folder, "null")


def test_a_folder_that_is_a_link_itself_is_not_opened(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(OSError), opened_folder(tmp_path / "link"):  # noqa: PT011
        pass


def test_swapping_a_folder_for_a_link_meanwhile_opens_nothing_outside(folder: Path, way: str, tmp_path: Path) -> None:
    """Another process renames, back and forth, a real folder and a link to one outside."""
    (folder / "link").symlink_to(tmp_path / "outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (folder / "sub").rename(folder / "kept")
            (folder / "link").rename(folder / "sub")
            (folder / "sub").rename(folder / "link")
            (folder / "kept").rename(folder / "sub")

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[str] = set()
    try:
        for _ in range(3_000):
            try:
                seen.add(read(folder, "sub/a.txt"))
            except PathError:
                seen.add("refused")
    finally:
        stop.set()
        swapping.join()
    assert SECRET not in seen
