"""The SQLite file of an embedded Temporal server: its finished tasks, more of them, and the end of their retention."""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from tests.benchmarks.aging.finished_task import FinishedTask, Row, Value, second_of, shifted_second

_TIMERS = "timer_tasks"
_VISIBILITY = "executions_visibility"
_TIMER_OF = re.compile(rb"\x12.([a-z-]+-[0-9a-f]{20})\x1a\$", re.DOTALL)
_TASKS_AT_ONCE = 5_000


class TaskFile:
    """The file of a server, which must be stopped while rows change."""

    def __init__(self, path: Path) -> None:
        """Work on the file at `path`."""
        self._path = path

    @property
    def size_bytes(self) -> int:
        """What it takes on the disk, without the log of latest changes beside it (SQLite's WAL)."""
        return self._path.stat().st_size

    def free_bytes(self) -> int:
        """What of the file is free for new rows."""
        with closing(self._connected()) as connection:
            (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            return pages * page_bytes

    def count(self) -> int:
        """How many finished workflows it has."""
        with closing(self._connected()) as connection:
            (count,) = connection.execute(f"SELECT count(*) FROM {_VISIBILITY} WHERE close_time IS NOT NULL").fetchone()
            return count

    def checkpoint(self) -> None:
        """Bring the latest changes into the file."""
        with closing(self._connected()) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def finished_tasks(self, tool: str) -> list[FinishedTask]:
        """The finished calls of a tool."""
        with closing(self._connected()) as connection:
            timers = _latest_timers(connection)
            seen = _rows(connection, _VISIBILITY, "workflow_id LIKE ? AND close_time IS NOT NULL", f"{tool}-%")
            return [_finished(connection, row, timers[str(row["workflow_id"])]) for row in seen]

    def add(self, tasks: Iterable[FinishedTask]) -> list[str]:
        """Write the rows of these tasks in their order, through all indexes and triggers, as the server does.

        Gives their ids.
        """
        added: list[str] = []
        with closing(self._connected()) as connection:
            for task in tasks:
                for row in task.rows:
                    places = ", ".join("?" * len(row.columns))
                    connection.execute(
                        f"INSERT INTO {row.table} ({', '.join(row.columns)}) VALUES ({places})", row.values
                    )
                added.append(task.workflow_id)
                if len(added) % _TASKS_AT_ONCE == 0:
                    connection.commit()
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return added

    def let_expire(self, count: int, at: datetime) -> list[str]:
        """Have the retention of the `count` tasks that ended first end at `at`; their ids.

        Copies of the same task end second by second: their timers have one id, and may not have one moment.
        """
        earlier: Counter[Value] = Counter()
        with closing(self._connected()) as connection:
            timers = sorted(_latest_timers(connection).items(), key=lambda one: str(one[1]["visibility_timestamp"]))[
                :count
            ]
            for _, timer in timers:
                _move(connection, timer, at + timedelta(seconds=earlier[timer["task_id"]]))
                earlier[timer["task_id"]] += 1
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return [workflow_id for workflow_id, _ in timers]

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path)
        # No other process has the file, and what a crash would spoil is made anew.
        for pragma in ("synchronous = OFF", "cache_size = -1000000", "secure_delete = OFF"):
            connection.execute(f"PRAGMA {pragma}")
        return connection


def _finished(connection: sqlite3.Connection, seen: Row, timer: Row) -> FinishedTask:
    workflow_id, run_id = str(seen["workflow_id"]), UUID(str(seen["run_id"]))
    states = [
        row
        for table in ("executions", "current_executions")
        for row in _rows(
            connection,
            table,
            "shard_id = 1 AND namespace_id = ? AND workflow_id = ?",
            UUID(str(seen["namespace_id"])).bytes,
            workflow_id,
        )
    ]
    (tree,) = _rows(connection, "history_tree", "shard_id = 1 AND tree_id = ?", run_id.bytes)
    nodes = _rows(connection, "history_node", "shard_id = 1 AND tree_id = ?", run_id.bytes)
    branch_id = tree["branch_id"]
    assert len(states) == 2
    assert isinstance(branch_id, bytes)
    lived = range(second_of(seen["start_time"]) - 1, second_of(seen["close_time"]) + 2)
    seconds = frozenset({*lived, second_of(timer["visibility_timestamp"])})
    return FinishedTask(workflow_id, run_id, UUID(bytes=branch_id), seconds, (*states, tree, *nodes, seen, timer))


def _latest_timers(connection: sqlite3.Connection) -> dict[str, Row]:
    """The last timer of each task, by its id: that of its retention."""
    found: dict[str, Row] = {}
    for timer in _rows(connection, _TIMERS, "1 ORDER BY visibility_timestamp"):
        task = _TIMER_OF.search(_bytes(timer["data"]))
        if task is not None:
            found[task[1].decode()] = timer
    return found


def _move(connection: sqlite3.Connection, timer: Row, at: datetime) -> None:
    """Have a timer fire at `at`."""
    data, old = _bytes(timer["data"]), str(timer["visibility_timestamp"])
    for before, after in shifted_second(second_of(old), int(at.timestamp())).items():
        data = data.replace(before, after)
    moved = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}{old[19:]}"
    connection.execute(
        f"UPDATE {_TIMERS} SET visibility_timestamp = ?, data = ? WHERE visibility_timestamp = ? AND task_id = ?",
        (moved, data, old, timer["task_id"]),
    )


def _rows(connection: sqlite3.Connection, table: str, condition: str, *values: Value) -> list[Row]:
    """Without the columns that SQLite computes."""
    columns = tuple(name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"))
    found = connection.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE {condition}", values)
    return [Row(table, columns, row) for row in found]


def _bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return value
