"""Which lines about tasks are written: a share of tasks, whole, and the ends of failed and slow ones."""

import logging
from collections.abc import Iterator

import pytest

from outlast.worker.log_lines import TaskLines

TASKS = [f"call-actor-{number}" for number in range(400)]


@pytest.fixture
def logger(request: pytest.FixtureRequest) -> Iterator[logging.Logger]:
    named = logging.getLogger(f"of {request.node.name}")
    named.propagate = False
    yield named
    named.handlers.clear()


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def written(logger: logging.Logger, lines: TaskLines, level: int = logging.INFO) -> list[logging.LogRecord]:
    """The lines of 400 tasks: every fourth fails, every tenth takes a minute."""
    kept = Kept()
    logger.handlers[:] = [kept]
    lines.write_through(logger, level)
    for number, task in enumerate(TASKS):
        logger.info("task started", extra={"task": task, "task_event": "started"})
        end = {"outcome": "completed" if number % 4 else "failed", "seconds": 0.1 if number % 10 else 60.0}
        logger.info("task ended", extra={"task": task, "task_event": "ended", **end})
    return kept.records


def tasks_of(records: list[logging.LogRecord], event: str) -> set[str]:
    return {vars(record)["task"] for record in records if vars(record)["task_event"] == event}


def test_everything_is_written_by_default(logger: logging.Logger) -> None:
    records = written(logger, TaskLines())
    assert len(records) == 2 * len(TASKS)
    assert {record.levelname for record in records} == {"INFO"}


def test_of_a_share_of_tasks_all_is_written_and_of_the_others_failed_and_slow_ends(logger: logging.Logger) -> None:
    records = written(logger, TaskLines(share=0.25, slow_seconds=30))
    chosen, ended = tasks_of(records, "started"), tasks_of(records, "ended")
    assert 60 < len(chosen) < 140
    assert chosen <= ended
    assert {TASKS.index(task) for task in ended - chosen} == {
        number for number, task in enumerate(TASKS) if task not in chosen and (number % 4 == 0 or number % 10 == 0)
    }
    slow = [record for record in records if record.levelno == logging.WARNING]
    assert {vars(record)["slow"] for record in slow} == {True}
    assert len(slow) == len(TASKS) / 10


def test_slow_ends_are_warnings_and_all_that_is_left_of_a_quiet_log(logger: logging.Logger) -> None:
    records = written(logger, TaskLines(slow_seconds=30), logging.WARNING)
    assert len(records) == len(TASKS) / 10
    assert written(logger, TaskLines(slow_seconds=30), logging.ERROR) == []
