"""The records of the audit log: their fields, the origin of a request, and the chain of codes over the lines.

Every line has the code of its predecessor, computed with a secret key. `verify` finds lines that were changed, removed,
moved or inserted, and remains of a crash.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, cast

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from outlast.activities.failures.classify import redact

MAX_TEXT_CHARS = 200


def _cut(text: object) -> object:
    return redact(text[: 2 * MAX_TEXT_CHARS])[:MAX_TEXT_CHARS] if isinstance(text, str) else text


CutText = Annotated[str, BeforeValidator(_cut)]
"""Text that a caller may have chosen: cut, and without what looks like a secret. JSON escapes the rest."""


class AuditEvent(StrEnum):
    """The action that was done, or refused."""

    TASK_STARTED = "task.started"
    TASK_READ = "task.read"
    TASK_CANCELLED = "task.cancelled"
    TASK_REPEATED = "task.repeated"
    TASK_RESURRECTED = "task.resurrected"
    TASK_RESOLVED = "task.resolved"
    TASK_ANSWERED = "task.answered"
    TASK_APPROVED = "task.approved"
    TASK_DECLINED = "task.declined"
    TURN_STARTED = "turn.started"
    TURN_CANCELLED = "turn.cancelled"
    SESSION_CREATED = "session.created"
    SESSION_UPDATED = "session.updated"
    SESSION_DELETED = "session.deleted"
    SESSION_EXPORTED = "session.exported"
    SESSION_IMPORTED = "session.imported"
    BATCH_STARTED = "batch.started"
    BATCH_CANCELLED = "batch.cancelled"
    BATCH_RETRIED = "batch.retried"
    BATCH_RESUMED = "batch.resumed"
    SCHEDULE_CREATED = "schedule.created"
    SCHEDULE_UPDATED = "schedule.updated"
    SCHEDULE_DELETED = "schedule.deleted"
    SCHEDULE_PAUSED = "schedule.paused"
    SCHEDULE_RESUMED = "schedule.resumed"
    SCHEDULE_TRIGGERED = "schedule.triggered"
    SCHEDULE_BACKFILLED = "schedule.backfilled"
    CALL_SAVED = "call.saved"
    SAVED_CALL_DELETED = "saved_call.deleted"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_ROTATED = "webhook.rotated"
    WEBHOOK_DELETED = "webhook.deleted"
    WEBHOOK_TESTED = "webhook.tested"
    WEBHOOK_REPLAYED = "webhook.replayed"
    OUTPUT_READ = "output.read"
    OUTPUT_DELETED = "output.deleted"
    RESOURCE_READ = "resource.read"
    CONSOLE_OPENED = "console.opened"
    CREDENTIALS_REFUSED = "credentials.refused"
    PERMISSION_REFUSED = "permission.refused"
    SCOPE_REFUSED = "scope.refused"
    POLICY_LOADED = "policy.loaded"
    POLICY_REFUSED = "policy.refused"
    KEY_ADDED = "key.added"
    KEY_CHANGED = "key.changed"
    KEY_REMOVED = "key.removed"
    LOG_OPENED = "log.opened"
    LOG_GAP = "log.gap"


class AuditRecord(BaseModel):
    """One record. There is no field for arguments, answers or credentials."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC), description="UTC, when it was recorded.")
    event: AuditEvent
    outcome: CutText = Field(default="ok", description="`ok`, `repeated`, or the slug of the error that it ended with.")
    caller: CutText | None = None
    door: str | None = Field(
        default=None, description="`rest`, `console`, `mcp`, `adapter`, `mcp-stdio`, `schedule` or `library`."
    )
    remote: CutText | None = Field(default=None, description="Address of the client.")
    request: str | None = Field(default=None, description="The response's `X-Request-Id`.")
    tool: CutText | None = None
    actor: CutText | None = None
    task: CutText | None = None
    batch: CutText | None = None
    schedule: CutText | None = None
    saved_call: CutText | None = Field(default=None, description="Name of a saved call.")
    session: CutText | None = None
    turn: CutText | None = None
    webhook: CutText | None = Field(default=None, description="Id of a webhook, or of a delivery.")
    output: CutText | None = Field(default=None, description="Locator.")
    key: CutText | None = Field(default=None, description="Id of an API key.")
    detail: CutText | None = Field(default=None, description="A rule of the operator, or numbers.")


class ChainStart(BaseModel):
    """Additional fields of the first record of a file or after a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chain: str = Field(description="Id of the chain, the same in all of its files.")
    mac_key: str = Field(description="Id of the sealing key from which the key of the next records is derived.")
    torn_bytes: int = Field(default=0, description="Bytes before this record that a crash left of an unfinished one.")


KEY_PURPOSE: Final = "outlast audit log"
"""Purpose under which the chain's keys are derived from the encryption keys."""
BEFORE_THE_FIRST: Final = "0" * 64
_LINE = re.compile(rb'(\{.+),"mac":"([0-9a-f]{64})"\}', re.DOTALL)
MOST_PROBLEMS: Final = 50
_MAX_LINE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Position:
    """The end of a chain."""

    seq: int = 0
    mac: str = BEFORE_THE_FIRST


@dataclass(frozen=True)
class Line:
    """A line as it was read. Nothing of it is proven."""

    body: bytes
    mac: str
    fields: Mapping[str, object]

    @property
    def position(self) -> Position:
        """The position that the line claims."""
        seq = self.fields.get("seq")
        return Position(seq if isinstance(seq, int) else -1, self.mac)

    @property
    def start(self) -> ChainStart | None:
        """The start of a chain, if the line is one."""
        found = {name: self.fields[name] for name in ChainStart.model_fields if name in self.fields}
        try:
            return ChainStart.model_validate(found) if found else None
        except ValueError:
            return None

    def is_proven_by(self, key: bytes) -> bool:
        """Verify that a holder of `key` wrote the line."""
        return hmac.compare_digest(_code(key, self.body), self.mac)


def written(
    record: AuditRecord, before: Position, key: bytes, start: ChainStart | None = None
) -> tuple[bytes, Position]:
    """Return the line of `record` after the line at `before`, and its position."""
    seq = before.seq + 1
    fields = record.model_dump(mode="json", exclude_none=True) | (start.model_dump() if start else {})
    body = json.dumps({"seq": seq, **fields, "prev": before.mac}, separators=(",", ":")).encode("ascii")
    mac = _code(key, body)
    return body[:-1] + f',"mac":"{mac}"}}\n'.encode(), Position(seq, mac)


def read_line(line: bytes) -> Line | None:
    """Return a line, with or without its line break, as its parts; None when it is no line of a chain."""
    match = _LINE.fullmatch(line.removesuffix(b"\n"))
    if match is None:
        return None
    body = match[1] + b"}"
    try:
        fields: object = json.loads(body)
    except ValueError:
        return None
    return Line(body, match[2].decode(), cast("dict[str, object]", fields)) if isinstance(fields, dict) else None


def _code(key: bytes, body: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()


@dataclass
class ChainReport:
    """The findings in one chain."""

    chain: str
    files: list[Path] = field(default_factory=list[Path])
    records: int = 0
    first: int = 0
    last: Position = field(default_factory=Position)
    torn_bytes: int = 0
    """Bytes of an unfinished line at the end: a crash, or a line that is being written."""
    problems: list[str] = field(default_factory=list[str])


def verify(paths: Sequence[Path], keys: Mapping[str, bytes]) -> list[ChainReport]:
    """Check these files, each chain separately. Raises `OSError` for an unreadable file.

    Lines missing at the end of the newest file, and files missing before the oldest, are not detected: compare `last`
    and `first` with known values.
    """
    chains: dict[str, list[tuple[int, Path]]] = {}
    for path in paths:
        line = next((found for found, _ in _pieces(path) if found is not None), None)
        start = line.start if line else None
        chains.setdefault(start.chain if start else str(path), []).append((line.position.seq if line else 0, path))
    return [_Check(chain, keys).of([path for _, path in sorted(files)]) for chain, files in chains.items()]


class _Check:
    def __init__(self, chain: str, keys: Mapping[str, bytes]) -> None:
        self._keys = keys
        self._key: bytes | None = None
        self._report = ChainReport(chain)
        self._junk = b""

    def of(self, files: list[Path]) -> ChainReport:
        for path in files:
            self._report.files.append(path)
            self._file(path, is_last=path == files[-1])
        return self._report

    def _file(self, path: Path, *, is_last: bool) -> None:
        is_first = True
        for number, (line, piece) in enumerate(_pieces(path), start=1):
            place = f"{path.name}, line {number}"
            if line is None:
                self._junk += piece
                continue
            if is_first and line.start is None:
                self._problem(f"{place}: the beginning of the file is missing.")
            self._line(line, place)
            is_first = False
        if self._junk and is_last and not self._junk.endswith(b"\n"):
            self._report.torn_bytes = len(self._junk)
        elif self._junk:
            self._problem(f"{path.name}: {len(self._junk)} bytes at the end are not a record.")
        if is_first and not self._report.torn_bytes:
            self._problem(f"{path.name}: there is no record.")
        self._junk = b""

    def _line(self, line: Line, place: str) -> None:
        start, position, last = line.start, line.position, self._report.last
        if start is not None:
            self._key = self._keys.get(start.mac_key)
        if len(self._junk) != (start.torn_bytes if start else 0):
            self._problem(f"{place}: {len(self._junk)} bytes before it are not a record.")
        self._junk = b""
        if self._key is None:
            named = f"{start.mac_key!r}" if start else "its key"
            self._problem(f"{place}: {named} is not in the ring of sealing keys, so the record cannot be checked.")
        elif not line.is_proven_by(self._key):
            self._problem(f"{place}: record {position.seq} was changed, or is not from this server.")
        if self._report.records == 0:
            self._report.first = position.seq
        elif (position.seq, line.fields.get("prev")) != (last.seq + 1, last.mac):
            self._problem(
                f"{place}: record {position.seq} does not follow record {last.seq}: removed, moved or inserted."
            )
        self._report.records += 1
        self._report.last = position

    def _problem(self, problem: str) -> None:
        if len(self._report.problems) < MOST_PROBLEMS:
            self._report.problems.append(problem)


def _pieces(path: Path) -> Iterator[tuple[Line | None, bytes]]:
    """Yield each line with its bytes; None for bytes that are not a line."""
    with path.open("rb") as file:
        while piece := file.readline(_MAX_LINE_BYTES):
            yield (read_line(piece) if piece.endswith(b"\n") else None), piece


REQUEST_ID_HEADER = "X-Request-Id"


@dataclass(frozen=True)
class Origin:
    """The entry point, the address of the client and the id of the request."""

    door: str = "library"
    remote: str | None = None
    request_id: str | None = None
    key: str | None = None
    """Id of the request's API key in the policy, if any."""


_origin = ContextVar[Origin | None]("outlast_origin", default=None)


def current_origin() -> Origin:
    """Return the origin of the request that is being served."""
    return _origin.get() or Origin()


def set_origin(origin: Origin) -> None:
    """Set the origin of the request that this task serves from now on."""
    _origin.set(origin)


def set_key(key: str | None) -> None:
    """Set the API key of the request that this task serves."""
    _origin.set(replace(current_origin(), key=key))


@contextmanager
def served_from(origin: Origin) -> Generator[None]:
    """Attribute the actions of the block to another request than the one that this task serves."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)
