"""`AuditLog`: records what callers do, for every front door."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypedDict, Unpack

from outlast.activities.contracts import Caller
from outlast.api.audit.audit_files import AuditError, AuditFiles
from outlast.api.audit.contracts import AuditEvent, AuditRecord
from outlast.api.audit.origin import current_origin
from outlast.api.errors import ApiError, AuditUnavailable
from outlast.api.metrics import AUDIT_RECORDS

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


class Action:
    """Something that is being done, and what is known of it so far."""

    def __init__(self, event: AuditEvent, about: About) -> None:
        """Begin with `about`. `event` may be set while more becomes known."""
        self.event = event
        self.about = about

    def note(self, **about: Unpack[About]) -> None:
        """Add what has become known."""
        self.about.update(about)


class AuditLog:
    """Writes one record for each thing that a caller does, has done, or may not do.

    A record is handed to the operating system before its request is answered: the end of this process loses none. A
    record that cannot be written is counted and logged; the next one that can be written is preceded by `log.gap`.
    """

    def __init__(self, files: AuditFiles | None, *, strict: bool = False) -> None:
        """Write to `files`, or nothing without. With `strict`, records are on the disk before a request is answered,
        and a request whose record cannot be written is refused.
        """
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
        """Record `event` with its outcome when the block ends. Raises `AuditUnavailable` if strict.

        While the log cannot be written, a strict log refuses before the block begins.
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
        """Record what has happened. Raises `AuditUnavailable` if strict."""
        if not await self._write(event, about):
            self._refuse()

    def record_now(self, event: AuditEvent, **about: Unpack[About]) -> None:
        """Record what has happened, from code that cannot wait. Never raises."""
        if self._files is not None:
            self._append(_record(event, about))

    async def _refuse_if_broken(self) -> None:
        """Try again what failed last. Raises `AuditUnavailable` if strict and it fails again."""
        if self._strict and self._missing and not await asyncio.to_thread(self._append, None):
            self._refuse()

    def _refuse(self) -> None:
        if self._strict:
            raise AuditUnavailable("The audit log cannot be written, and nothing may be done without it. Retry later.")

    async def _write(self, event: AuditEvent, about: About) -> bool:
        if self._files is None:
            return True
        record = _record(event, about)
        if not self._strict:  # tens of microseconds: a thread would cost more
            return self._append(record)
        return await asyncio.shield(asyncio.to_thread(self._append, record))

    def _append(self, record: AuditRecord | None) -> bool:
        """Write what is missing, then the record, if any. Returns whether that was possible."""
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


def _record(event: AuditEvent, about: About) -> AuditRecord:
    origin = current_origin()
    whence = {"door": origin.door, "remote": origin.remote, "request": origin.request_id, "key": origin.key}
    return AuditRecord.model_validate({"event": event, **whence, **about})
