"""What each step of a conversation has cost: read afterwards, from the histories and from the files of the store."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from temporalio.api.history.v1 import HistoryEvent

from outlast.workflows.contracts import memo


@dataclass(frozen=True)
class Step:
    """A step, and when it ended (seconds since 1970, by the Temporal server's clock)."""

    number: int
    ended_at: float
    overhead_seconds: float
    model_seconds: float


@dataclass(frozen=True)
class Written:
    """So many bytes at this moment."""

    at: float
    size: int


def steps_in(history: Iterable[HistoryEvent]) -> Iterator[Step]:
    """The steps that a turn's history tells of."""
    for event in history:
        fields = event.workflow_properties_modified_event_attributes.upserted_memo.fields
        if memo.TURN_EVENTS not in fields:
            continue
        for told in json.loads(fields[memo.TURN_EVENTS].data)["events"]:
            if told["name"] == "step-finish":
                seconds = told["data"]["seconds"]
                yield Step(told["data"]["step"], _time(event), seconds["overhead"], seconds["model"])


def written_in(history: Iterable[HistoryEvent]) -> list[Written]:
    """The bytes of each event."""
    return [Written(_time(event), event.ByteSize()) for event in history]


def model_payloads_in(history: Iterable[HistoryEvent]) -> list[Written]:
    """The bytes of what the activity `call_model` is given and gives back, as the history holds them."""
    found: list[Written] = []
    scheduled: set[int] = set()
    for event in history:
        asked = event.activity_task_scheduled_event_attributes
        answered = event.activity_task_completed_event_attributes
        if asked.activity_type.name == "call_model":
            scheduled.add(event.event_id)
            found.append(Written(_time(event), asked.input.ByteSize()))
        elif event.HasField("activity_task_completed_event_attributes") and answered.scheduled_event_id in scheduled:
            found.append(Written(_time(event), answered.result.ByteSize()))
    return found


def written_to(store: Path) -> list[Written]:
    """The bytes of each file of the store: none is written twice or removed while a benchmark runs."""
    files = (path.stat() for path in store.rglob("*") if path.is_file())
    return [Written(one.st_mtime, one.st_size) for one in files]


def per_step(steps: list[Step], written: Iterable[Written], began_at: float) -> list[int]:
    """The bytes that were written in each step, from the end of the one before."""
    ends = [step.ended_at for step in steps]
    sums = [0] * len(steps)
    for one in written:
        index = bisect_left(ends, one.at)
        if began_at <= one.at and index < len(sums):
            sums[index] += one.size
    return sums


def _time(event: HistoryEvent) -> float:
    return event.event_time.ToNanoseconds() / 1e9
