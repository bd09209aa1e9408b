"""The audit log: what is noticed in its files, and what it does when they cannot be written."""

import asyncio
import os
import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.contracts import Caller
from outlast.activities.secrets import SecretSealer
from outlast.api.audit.log import AuditError, AuditFiles, AuditLog
from outlast.api.audit.records import KEY_PURPOSE, AuditEvent, AuditRecord, ChainReport, verify
from outlast.api.errors import AuditUnavailable, TaskNotFound
from tests.support.stacks.service import SEAL_KEYS

KEYS = SecretSealer.from_text(SEAL_KEYS).derived_keys(KEY_PURPOSE)
OTHER_KEYS = SecretSealer.ephemeral().derived_keys(KEY_PURPOSE)
ANN = Caller(id="key:ann")
ROOMY = 1 << 20


def write(path: Path, count: int, *, keys: dict[str, bytes] = KEYS, max_bytes: int = ROOMY) -> None:
    files = AuditFiles(path, keys, max_bytes=max_bytes)
    for number in range(count):
        files.append(AuditRecord(event=AuditEvent.TASK_STARTED, task=f"task-{number}"), sync=False)
    files.close()


def checked(*paths: Path, keys: dict[str, bytes] = KEYS) -> ChainReport:
    (report,) = verify(paths, keys)
    return report


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Lines of a log: 1 that it was opened, 8 tasks."""
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    write(path, 8)
    return path.read_bytes().splitlines(keepends=True)


def tampered(folder: Path, lines: list[bytes]) -> ChainReport:
    path = folder / "tampered.jsonl"
    path.write_bytes(b"".join(lines))
    return checked(path)


TAMPERING: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": lambda lines: [line.replace(b"task-3", b"task-x") for line in lines],
    "removed": lambda lines: lines[:4] + lines[5:],
    "moved": lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
    "repeated": lambda lines: [*lines[:5], lines[4], *lines[5:]],
    "beginning cut": lambda lines: lines[2:],
    "made no line": lambda lines: [*lines[:4], b"hidden\n", *lines[5:]],
    "inserted text": lambda lines: [*lines[:4], b"hidden\n", *lines[4:]],
    "text at the end": lambda lines: [*lines, b"hidden\n"],
    "emptied": lambda _: [],
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_is_noticed(tmp_path: Path, whole: list[bytes], how: str) -> None:
    assert tampered(tmp_path, whole).problems == []
    assert tampered(tmp_path, TAMPERING[how](whole)).problems != []


@given(data=st.data())
def test_no_byte_can_be_changed(
    tmp_path_factory: pytest.TempPathFactory, whole: list[bytes], data: st.DataObject
) -> None:
    text = bytearray(b"".join(whole))
    place = data.draw(st.integers(0, len(text) - 2))  # the last line break may be missing: a line that is being written
    text[place] ^= data.draw(st.integers(1, 255))
    assert tampered(tmp_path_factory.mktemp("changed"), [bytes(text)]).problems != []


def test_a_whole_log_cannot_be_written_anew_without_the_key(tmp_path: Path) -> None:
    write(tmp_path / "forged.jsonl", 3, keys={next(iter(KEYS)): next(iter(OTHER_KEYS.values()))})
    assert "was changed, or is not from this server" in checked(tmp_path / "forged.jsonl").problems[0]
    write(tmp_path / "foreign.jsonl", 3, keys=OTHER_KEYS)
    assert "is not in the ring" in checked(tmp_path / "foreign.jsonl").problems[0]


def test_a_cut_end_shows_in_number_and_code_alone(tmp_path: Path, whole: list[bytes]) -> None:
    report, cut = tampered(tmp_path, whole), tampered(tmp_path, whole[:-2])
    assert (cut.problems, report.last.seq, cut.last.seq) == ([], 9, 7)
    assert cut.last.mac != report.last.mac


def test_files_are_put_aside_and_the_chain_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(3):  # three lives of a process
        write(path, 40, max_bytes=5_000)
    files = sorted(tmp_path.glob("audit*.jsonl"))
    assert len(files) > 3
    assert max(file.stat().st_size for file in files) <= 5_000
    report = checked(*reversed(files))
    opened = b"".join(file.read_bytes() for file in files).count(b"log.opened")
    assert (report.problems, report.first, report.records) == ([], 1, 120 + opened)
    assert (report.last.seq, opened) == (report.records, len(files) + 2)
    without_one = checked(*[file for file in files if file != files[1]])
    assert "does not follow" in without_one.problems[0]


def test_the_chain_goes_on_with_another_sealing_key(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 2)
    write(path, 2, keys={**OTHER_KEYS, **KEYS})
    assert checked(path, keys={**OTHER_KEYS, **KEYS}).problems == []
    assert checked(path, keys=OTHER_KEYS).problems != []


@pytest.mark.parametrize("torn", [b'{"seq":4,"ti', b'{"seq":4,"ti\nme', b"\0" * 300])
def test_an_unfinished_line_is_told_and_writing_goes_on(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 2)
    path.write_bytes(path.read_bytes() + torn)
    assert (checked(path).problems, checked(path).torn_bytes) == ([], len(torn))
    write(path, 2)
    report = checked(path)
    assert (report.problems, report.records, report.torn_bytes) == ([], 6, 0)


def test_each_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    first, second = (AuditFiles(tmp_path / "audit.jsonl", KEYS, max_bytes=ROOMY) for _ in range(2))
    first.open()
    second.open()
    assert (first.path.name, second.path.name) == ("audit.jsonl", "audit-2.jsonl")
    first.close()
    third = AuditFiles(tmp_path / "audit.jsonl", KEYS, max_bytes=ROOMY)
    third.open()
    assert third.path == first.path
    assert [report.problems for report in verify([first.path, second.path], KEYS)] == [[], []]


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary\n")
    with pytest.raises(AuditError, match="is not an audit log"):
        AuditFiles(path, KEYS, max_bytes=ROOMY).open()
    assert path.read_text() == "Dear diary\n"


def test_what_callers_choose_stays_on_its_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    nasty = '"}\n{"seq":2,"caller":"key:ops"}\r\u2028\x1b[2J\ud800'
    files = AuditFiles(path, KEYS, max_bytes=ROOMY)
    files.append(
        AuditRecord(event=AuditEvent.TASK_STARTED, tool=nasty * 100, session="apify_api_" + "x" * 36), sync=False
    )
    lines = path.read_bytes().splitlines()
    assert (len(lines), lines[1].isascii(), checked(path).problems) == (2, True, [])
    assert len(lines[1]) < 3_000
    assert b"apify_api_" not in lines[1]


def test_threads_share_one_chain(tmp_path: Path) -> None:
    log = AuditLog(AuditFiles(tmp_path / "audit.jsonl", KEYS, max_bytes=5_000))

    def record() -> None:
        for _ in range(25):
            log.record_now(AuditEvent.POLICY_LOADED)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = checked(*tmp_path.glob("*.jsonl"))
    assert (report.problems, report.records > 100) == ([], True)


async def test_a_record_is_written_also_when_its_request_is_cancelled_before_a_thread_is_free(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditFiles(path, KEYS, max_bytes=ROOMY), strict=True)
    log.open()
    loop, may_end = asyncio.get_running_loop(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        loop.set_default_executor(threads)
        busy = loop.run_in_executor(None, may_end.wait)
        recording = asyncio.ensure_future(log.record(AuditEvent.TASK_STARTED, task="task-late"))
        for _ in range(5):
            await asyncio.sleep(0)
        recording.cancel()
        await asyncio.wait({recording})
        may_end.set()
        await busy
        await loop.run_in_executor(None, lambda: None)  # after what waited for the thread
    assert recording.cancelled()
    assert b"task-late" in path.read_bytes()
    assert checked(path).problems == []


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Files cannot grow beyond so many bytes: writes come short, then fail."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_without_room_records_are_counted_and_the_gap_is_told(
    tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditFiles(path, KEYS, max_bytes=ROOMY))
    await log.record(AuditEvent.CREDENTIALS_REFUSED)
    full_disk(path.stat().st_size + 50)
    for _ in range(3):
        async with log.action(AuditEvent.TASK_CANCELLED, ANN):
            pass
    full_disk(ROOMY)
    await log.record(AuditEvent.CREDENTIALS_REFUSED)
    assert b"3 records could not be written" in path.read_bytes()
    report = checked(path)
    assert (report.problems, report.torn_bytes) == ([], 0)


async def test_a_strict_log_refuses_before_anything_is_done(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditFiles(path, KEYS, max_bytes=ROOMY), strict=True)
    log.open()
    full_disk(path.stat().st_size)
    done = []
    for _ in range(2):
        with pytest.raises(AuditUnavailable):
            async with log.action(AuditEvent.TASK_CANCELLED, ANN):
                done.append("cancelled")
    assert done == ["cancelled"]  # the first showed that the disk is full
    full_disk(ROOMY)
    async with log.action(AuditEvent.TASK_CANCELLED, ANN, task="t-1"):
        done.append("again")
    assert (len(done), path.read_bytes().count(b"task.cancelled")) == (2, 1)


async def test_what_fails_is_recorded_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditFiles(path, KEYS, max_bytes=ROOMY))
    with pytest.raises(TaskNotFound):
        async with log.action(AuditEvent.TASK_CANCELLED, ANN, task="t-1"):
            raise TaskNotFound("You have no such task")
    with pytest.raises(ZeroDivisionError):
        async with log.action(AuditEvent.TASK_CANCELLED, ANN, task="t-2"):
            os.strerror(1 // 0)
    text = path.read_text()
    assert ('"outcome":"task-not-found"' in text, '"outcome":"interrupted"' in text, "no such" in text) == (
        True,
        True,
        False,
    )
