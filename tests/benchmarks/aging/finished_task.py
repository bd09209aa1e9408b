"""A finished task as an embedded Temporal server keeps it, and copies of it that stand for tasks of earlier days.

A copy is a task in all its tables: other ids of the same length, which leave the protobuf messages valid, and all of
its times earlier by the same number of seconds. Only the server's own counters (event and transaction ids) are those of
the original.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

Value = str | bytes | int | float | None

_LEAST_SHIFT_SECONDS = 60
_MOMENT = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?=[.+])")
_SECOND = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    table: str
    columns: tuple[str, ...]
    values: tuple[Value, ...]

    def __getitem__(self, column: str) -> Value:
        return self.values[self.columns.index(column)]


@dataclass(frozen=True)
class FinishedTask:
    """All rows of a task that has ended."""

    workflow_id: str
    run_id: UUID
    branch_id: UUID
    """The branch of its history; it has no other."""
    seconds: frozenset[int]
    """Each second of its life, and that in which its retention is over."""
    rows: tuple[Row, ...]

    def copy(self, shift_seconds: int, chance: random.Random) -> "FinishedTask":
        """A task with ids of its own, that ended `shift_seconds` earlier."""
        assert shift_seconds >= _LEAST_SHIFT_SECONDS, "a shifted second must not be one of the original"
        workflow_id = f"{self.workflow_id.rpartition('-')[0]}-{chance.randbytes(10).hex()}"
        assert len(workflow_id) == len(self.workflow_id)
        run_id, branch_id = (_earlier(one, shift_seconds, chance) for one in (self.run_id, self.branch_id))
        texts = {self.workflow_id: workflow_id, str(self.run_id): str(run_id), str(self.branch_id): str(branch_id)}
        raw = {self.run_id.bytes: run_id.bytes, self.branch_id.bytes: branch_id.bytes}
        raw |= {old.encode(): new.encode() for old, new in texts.items()}
        for second in self.seconds:
            raw |= shifted_second(second, second - shift_seconds)
        rows = (
            Row(row.table, row.columns, tuple(_copied(value, texts, raw, shift_seconds) for value in row.values))
            for row in self.rows
        )
        seconds = frozenset(second - shift_seconds for second in self.seconds)
        return FinishedTask(workflow_id, run_id, branch_id, seconds, tuple(rows))


def shifted_second(old: int, new: int) -> dict[bytes, bytes]:
    """What to replace in a message by what, so that it says the second `new` of the epoch in place of `old`."""
    written = {f'"seconds":{old}': f'"seconds":{new}', f'"{_iso(old)}': f'"{_iso(new)}'}
    return {_as_field(old): _as_field(new), **{one.encode(): other.encode() for one, other in written.items()}}


def second_of(moment: Value) -> int:
    """The second of the epoch in which a moment lies, as the server's SQLite tables write it (UTC)."""
    assert isinstance(moment, str), moment
    return int(datetime.strptime(moment[:19], _SECOND).replace(tzinfo=UTC).timestamp())


def _copied(value: Value, texts: Mapping[str, str], raw: Mapping[bytes, bytes], shift_seconds: int) -> Value:
    if isinstance(value, bytes):
        for old, new in raw.items():
            value = value.replace(old, new)
    elif isinstance(value, str):
        if _MOMENT.match(value):
            return f"{datetime.fromtimestamp(second_of(value) - shift_seconds, UTC):{_SECOND}}{value[19:]}"
        return texts.get(value, value)
    return value


def _earlier(one: UUID, shift_seconds: int, chance: random.Random) -> UUID:
    """A UUID of version 7 begins with its milliseconds (RFC 9562, 5.7), which decide where indexes have it."""
    milliseconds = (one.int >> 80) - shift_seconds * 1000
    kept = one.int & (0xFFF << 68)
    mask = (0xF << 76) | (0x3 << 62)
    return UUID(int=milliseconds << 80 | (one.int & mask) | kept | chance.getrandbits(62))


def _as_field(second: int) -> bytes:
    """Field 1 of a protobuf `Timestamp`: its seconds, a varint of five bytes from 1978 until 3058."""
    written = bytearray(b"\x08")
    while second > 0x7F:
        written.append(second & 0x7F | 0x80)
        second >>= 7
    return bytes([*written, second])


def _iso(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
