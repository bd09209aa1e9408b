"""`AuditLog`: records actions of callers, at every entry point, in files that one process locks and rotates by size."""

import asyncio
import fcntl
import logging
import os
import re
import secrets
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict, Unpack

from outlast.activities.contracts import Caller
from outlast.api.audit.records import (
    AuditEvent,
    AuditRecord,
    ChainStart,
    Line,
    Position,
    current_origin,
    read_line,
    written,
)
from outlast.api.errors import ApiError, AuditUnavailable
from outlast.api.metrics import AUDIT_RECORDS

_MOST_WRITERS: Final = 100
_TAIL_BYTES: Final = 65_536
"""Far more than the longest line: enough to find the last one."""
log = logging.getLogger("outlast.api")


class Subject(TypedDict, total=False):
    """The subject of a record; see `AuditRecord`."""

    outcome: str
    tool: str | None
    actor: str | None
    task: str | None
    batch: str | None
    schedule: str | None
    saved_call: str | None
    session: str | None
    turn: str | None
    webhook: str | None
    output: str | None
    key: str | None
    detail: str | None


class About(Subject, total=False):
    """The subject of a record, and its caller."""

    caller: str | None


@dataclass
class Action:
    """An action in progress. `event` may be set until it ends."""

    event: AuditEvent
    about: About

    def note(self, **about: Unpack[About]) -> None:
        """Add facts about the action."""
        self.about.update(about)


class AuditFiles:
    """Writer of the file of this process. Not thread-safe.

    The first process takes `path`, a concurrent one `NAME-2.jsonl`, and so on: each file is a separate chain, which the
    next process with that file continues.
    """

    def __init__(self, path: Path, keys: Mapping[str, bytes], *, max_bytes: int) -> None:
        """`keys` is `{key id: key}`, the one that writes first. A file of `max_bytes` is put aside, see `_rotate`."""
        self._first_path = path
        self.path = path
        """The file that is written."""
        self._key_id, self._key = next(iter(keys.items()))
        self._max_bytes = max_bytes
        self._lock: int | None = None
        self._file: int | None = None
        self._size = 0
        self._at = Position()
        self._chain = ""

    def open(self) -> None:
        """Take a file and continue its chain. Raises `AuditError`."""
        if self._file is not None:
            return
        try:
            self._take()
            self._continue()
        except OSError as error:
            raise AuditError(f"Cannot write the audit log {self.path}: {error.strerror}.") from error

    def append(self, record: AuditRecord, *, sync: bool) -> None:
        """Write one record; with `sync` it is on the disk on return. Raises `AuditError`: nothing was written then."""
        self.open()
        line, position = written(record, self._at, self._key)
        try:
            if self._size + len(line) > self._max_bytes:
                self._rotate()
                line, position = written(record, self._at, self._key)
            self._write(line, position, sync=sync)
        except OSError as error:
            raise AuditError(f"Cannot write the audit log {self.path}: {error.strerror}.") from error

    def close(self) -> None:
        """Leave the file to others."""
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None

    def _take(self) -> None:
        if self._lock is not None:
            return
        self._first_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(1, _MOST_WRITERS + 1):
            stem = self._first_path.stem if number == 1 else f"{self._first_path.stem}-{number}"
            path = self._first_path.with_stem(stem)
            lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self._lock, self.path = lock, path
            return
        raise AuditError(f"{_MOST_WRITERS} processes write the audit log {self._first_path} already.")

    def _continue(self) -> None:
        """Find the last record, and write that the log was opened."""
        last, torn = _last_line(self.path)
        former = None if last else self._newest_put_aside()
        if former is not None:
            last, _ = _last_line(former)
        self._chain = secrets.token_hex(8)
        if last is not None:
            with (former or self.path).open("rb") as file:
                first = read_line(file.readline(_TAIL_BYTES))
            self._chain = first.start.chain if first and first.start else self._chain
        self._at = last.position if last else Position()
        self._begin(torn)

    def _begin(self, torn: bytes = b"") -> None:
        """Open the file and write the record with which this process continues it."""
        self._file = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size
        ended = b"\n" if torn and not torn.endswith(b"\n") else b""
        start = ChainStart(chain=self._chain, mac_key=self._key_id, torn_bytes=len(torn + ended))
        line, position = written(AuditRecord(event=AuditEvent.LOG_OPENED), self._at, self._key, start)
        self._write(ended + line, position, sync=True)

    def _newest_put_aside(self) -> Path | None:
        name = re.compile(rf"{re.escape(self.path.stem)}\.\d{{12}}{re.escape(self.path.suffix)}")
        return max((path for path in self.path.parent.iterdir() if name.fullmatch(path.name)), default=None)

    def _rotate(self) -> None:
        """Rename the file to the number of its last record, and continue in a new one."""
        self._drop()
        self.path.rename(self.path.with_stem(f"{self.path.stem}.{self._at.seq:012d}"))
        self._begin()

    def _write(self, line: bytes, position: Position, *, sync: bool) -> None:
        """Write a line whole, or nothing of it."""
        assert self._file is not None
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(28, "There is no space left for a whole line")
            if sync:
                os.fsync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            self._drop()
            raise
        self._size += len(line)
        self._at = position

    def _drop(self) -> None:
        """Close the file; the next record opens it again and looks for its end."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class AuditLog:
    """The audit log: a record for each action of a caller, and for each refusal.

    A record reaches the operating system before its request is answered, so a crash of the process loses none. A
    failure to write is counted and logged; `log.gap` precedes the next record.
    """

    def __init__(self, files: AuditFiles | None, *, strict: bool = False) -> None:
        """Write to `files`, if any. With `strict`, a request is refused unless its record is on the disk."""
        self._files = files
        self._strict = strict
        self._lock = threading.Lock()
        self._missing = 0

    def open(self) -> None:
        """Open the file now. Raises `AuditError` when it cannot be written."""
        if self._files is not None:
            with self._lock:
                self._files.open()
            log.info("Audit log: %s", self._files.path)

    def close(self) -> None:
        """Leave the file to others."""
        if self._files is not None:
            with self._lock:
                self._files.close()

    @asynccontextmanager
    async def action(self, event: AuditEvent, caller: Caller, **about: Unpack[Subject]) -> AsyncGenerator[Action]:
        """Record `event` with its outcome when the block ends. Raises `AuditUnavailable` if strict, also before the
        block while the log cannot be written.
        """
        action = Action(event, {**about, "caller": caller.id})
        if self._files is None:
            yield action
            return
        await self._refuse_if_broken()
        try:
            yield action
        except BaseException as error:
            action.note(outcome=error.slug if isinstance(error, ApiError) else "interrupted")
            await self._write(action.event, action.about)
            raise
        if not await self._write(action.event, action.about):
            self._refuse()

    async def record(self, event: AuditEvent, **about: Unpack[About]) -> None:
        """Record an event. Raises `AuditUnavailable` if strict."""
        if not await self._write(event, about):
            self._refuse()

    def record_now(self, event: AuditEvent, **about: Unpack[About]) -> None:
        """Record an event from code that cannot wait. Never raises."""
        if self._files is not None:
            self._append(_record(event, about))

    async def _refuse_if_broken(self) -> None:
        """Write again after a failure. Raises `AuditUnavailable` if strict and it fails again."""
        if self._strict and self._missing and not await asyncio.to_thread(self._append, None):
            self._refuse()

    def _refuse(self) -> None:
        if self._strict:
            raise AuditUnavailable("The audit log cannot be written, and requests are refused without it. Retry later.")

    async def _write(self, event: AuditEvent, about: About) -> bool:
        if self._files is None:
            return True
        record = _record(event, about)
        if not self._strict:  # tens of microseconds: a thread would cost more
            return self._append(record)
        return await asyncio.shield(asyncio.to_thread(self._append, record))

    def _append(self, record: AuditRecord | None) -> bool:
        """Write a note of missing records, then the record, if any. Returns False on failure."""
        assert self._files is not None
        with self._lock:
            try:
                if self._missing:
                    gap = AuditRecord(event=AuditEvent.LOG_GAP, detail=f"{self._missing} records could not be written")
                    self._files.append(gap, sync=self._strict)
                    self._missing = 0
                if record is not None:
                    self._files.append(record, sync=self._strict)
                    AUDIT_RECORDS.labels("written").inc()
            except AuditError as error:
                if record is not None:
                    self._missing += 1
                    AUDIT_RECORDS.labels("failed").inc()
                log.error("%s %d records are missing.", error, self._missing)  # noqa: TRY400  # no traceback
                return False
        return True


class AuditError(RuntimeError):
    """The audit log cannot be written. The message has the reason and the file."""


def _record(event: AuditEvent, about: About) -> AuditRecord:
    origin = current_origin()
    whence = {"door": origin.door, "remote": origin.remote, "request": origin.request_id, "key": origin.key}
    return AuditRecord.model_validate({"event": event, **whence, **about})


def _last_line(path: Path) -> tuple[Line | None, bytes]:
    """Return the last line of the chain and the bytes after it. Raises `AuditError` for another kind of file."""
    if not path.exists():
        return None, b""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
    rest = b""
    for piece in reversed(tail.splitlines(keepends=True)):
        line = read_line(piece) if piece.endswith(b"\n") else None
        if line is not None:
            return line, rest
        rest = piece + rest
    if rest and not rest.startswith(b'{"seq":'[: len(rest)]):
        raise AuditError(f"{path} is not an audit log. Name another file in OUTLAST_AUDIT_FILE.")
    return None, rest
