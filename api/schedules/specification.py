"""The Temporal Schedule of a schedule: its due times and the workflow that it starts.

Due times of cron expressions on days with a clock change take a form that Temporal evaluates correctly.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from temporalio import client as temporal

from outlast.activities.schedules.contracts import FIRING_WORKFLOW
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.schedules.contracts import FiringInput, Overlap, Timing

LEAST_AHEAD = timedelta(days=548)
"""A schedule with exact times for less than a year and a half is renewed when it fires, in time also if it fires once a
year."""
_BEHIND = timedelta(days=400)
"""For backfills of the past year."""
_AHEAD = timedelta(days=3 * 366)
_FURTHEST = timedelta(days=20 * 366)
_FEW_MOMENTS = 20
"""Fewest moments around clock changes: rare expressions, such as 29 February, are computed further ahead."""
_BEFORE, _AFTER = timedelta(hours=1), timedelta(hours=2)
"""Temporal's evaluation is wrong from an hour before the times that occur twice to some minutes after them."""
_FIRST_YEAR, _LAST_YEAR = 2000, 2100
"""The years that Temporal evaluates."""
_CYCLE = timedelta(days=10_000)
"""Interval that stands for a single moment, which Temporal lacks: the schedule is renewed before it recurs. It must be
less than the time since 1970, because Temporal rounds towards zero."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("january february march april may june july august september october november december").split()
_WEEKDAYS = "sunday monday tuesday wednesday thursday friday saturday".split()
OVERLAPS: dict[Overlap, temporal.ScheduleOverlapPolicy] = {
    "skip": temporal.ScheduleOverlapPolicy.SKIP,
    "buffer_one": temporal.ScheduleOverlapPolicy.BUFFER_ONE,
    "buffer_all": temporal.ScheduleOverlapPolicy.BUFFER_ALL,
    "cancel_other": temporal.ScheduleOverlapPolicy.CANCEL_OTHER,
    "allow_all": temporal.ScheduleOverlapPolicy.ALLOW_ALL,
}
"""`TERMINATE_OTHER` is missing, because it would leave the task of the earlier firing running."""


def specification(order: FiringInput, state: temporal.ScheduleState) -> temporal.Schedule:
    """The Temporal Schedule of `order`, in this state. Its times are computed from `order.timing` as of today."""
    timing = order.timing
    times = exact_times(timing, datetime.now(UTC))
    order = order.model_copy(update={"times_until": times.until})
    return temporal.Schedule(
        action=temporal.ScheduleActionStartWorkflow(
            FIRING_WORKFLOW,
            order,
            id=order.temporal_id,
            task_queue=TOOLS_TASK_QUEUE,
            typed_search_attributes=search_attributes.of_schedule(order.caller.id, order.schedule_id),
            static_summary=f"{order.tool} for {order.caller.id}, schedule {order.schedule_id}",
        ),
        spec=_times(timing, times),
        policy=temporal.SchedulePolicy(
            overlap=OVERLAPS[timing.overlap], catchup_window=timedelta(seconds=timing.catch_up_seconds)
        ),
        state=state,
    )


@dataclass(frozen=True)
class ExactTimes:
    """The due times of a Temporal Schedule that replace cron expressions."""

    cron: tuple[str, ...]
    """Expressions of five fields, or of seven with seconds and years."""
    moments: tuple[datetime, ...]
    until: datetime
    """Later changes of the clock are left to Temporal."""

    @property
    def intervals(self) -> list[temporal.ScheduleIntervalSpec]:
        """The moments as intervals, each due once within its schedule's life."""
        return [
            temporal.ScheduleIntervalSpec(every=_CYCLE, offset=(moment - _EPOCH) % _CYCLE) for moment in self.moments
        ]


def _times(timing: Timing, times: ExactTimes) -> temporal.ScheduleSpec:
    return temporal.ScheduleSpec(
        cron_expressions=list(times.cron),
        intervals=[
            temporal.ScheduleIntervalSpec(
                every=timedelta(seconds=interval.seconds), offset=timedelta(seconds=interval.offset_seconds)
            )
            for interval in timing.every
        ]
        + times.intervals,
        time_zone_name=timing.time_zone,
        jitter=timedelta(seconds=timing.jitter_seconds) if timing.jitter_seconds else None,
        start_at=timing.start_at,
        end_at=timing.end_at,
    )


def exact_times(timing: Timing, now: datetime) -> ExactTimes:
    """The due times of `timing.cron`. An unknown time zone or a malformed expression is left for Temporal to refuse."""
    furthest = now + _FURTHEST
    try:
        changes = _changed_hours(timing.time_zone, now.year)
        zone = ZoneInfo(timing.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ExactTimes(timing.cron, (), furthest)
    cron: list[str] = []
    moments: set[datetime] = set()
    until = furthest
    for expression in timing.cron:
        try:
            fields = _Fields.parsed(expression)
        except ValueError:
            cron.append(expression)
            continue
        days, end = fields.days_within(changes, now)
        cron += [*fields.without(days)] if days else [expression]
        moments.update(moment for day, hours in days.items() for moment in fields.moments(day, hours, zone))
        until = min(until, end)
    return ExactTimes(tuple(cron), tuple(sorted(moments)), until)


@dataclass(frozen=True)
class _Fields:
    """A cron expression as Temporal reads it: unlike elsewhere, both of day of month and day of week must match."""

    texts: tuple[str, ...]
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    @classmethod
    def parsed(cls, expression: str) -> Self:
        """Parse an expression. Raises `ValueError` for one that Temporal would refuse."""
        texts = tuple(_SHORTHANDS.get(expression, expression).split())
        minute, hour, day, month, weekday = texts
        return cls(
            texts,
            _values(minute, 0, 59),
            _values(hour, 0, 23),
            _values(day, 1, 31),
            _values(month, 1, 12, names=_MONTHS, first=1),
            frozenset(value % 7 for value in _values(weekday, 0, 7, names=_WEEKDAYS)),
        )

    def days_within(
        self, changes: dict[date, frozenset[int]], now: datetime
    ) -> tuple[dict[date, frozenset[int]], datetime]:
        """The days with due times in hours around a change, these hours, and the end of the time that was searched."""
        found: dict[date, frozenset[int]] = {}
        moments = 0
        for day, changed in changes.items():
            if day > (now + _AHEAD).date() and moments >= _FEW_MOMENTS:
                return found, datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=1)
            hours = changed & self.hours
            if hours and self._is_due_on(day):
                found[day] = hours
                moments += len(hours) * len(self.minutes)
        return found, now + _FURTHEST

    def _is_due_on(self, day: date) -> bool:
        return day.month in self.months and day.day in self.days and day.isoweekday() % 7 in self.weekdays

    def moments(self, day: date, hours: Iterable[int], zone: ZoneInfo) -> Iterator[datetime]:
        """The due times in these hours of a day: the second of two equal times, and no skipped one."""
        for hour in hours:
            for minute in self.minutes:
                wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone, fold=1)
                moment = wall.astimezone(UTC)
                if moment.astimezone(zone).replace(tzinfo=None) == wall.replace(tzinfo=None):
                    yield moment

    def without(self, days: dict[date, frozenset[int]]) -> Iterator[str]:
        """Expressions that together are this one without these hours of these days."""
        minute, hour, day_text, month_text, weekday = self.texts
        years: dict[int, dict[int, list[date]]] = defaultdict(lambda: defaultdict(list))
        for day in days:
            years[day.year][day.month].append(day)
        others = _text(set(range(_FIRST_YEAR, _LAST_YEAR + 1)) - years.keys())
        yield f"0 {minute} {hour} {day_text} {month_text} {weekday} {others}"
        for year, months in years.items():
            if other_months := self.months - months.keys():
                yield f"0 {minute} {hour} {day_text} {_text(other_months)} {weekday} {year}"
            for month, within in months.items():
                if other_days := self.days - {day.day for day in within}:
                    yield f"0 {minute} {hour} {_text(other_days)} {month} {weekday} {year}"
                for day in within:
                    if other_hours := self.hours - days[day]:
                        yield f"0 {minute} {_text(other_hours)} {day.day} {month} * {year}"


def _values(text: str, least: int, most: int, *, names: Sequence[str] = (), first: int = 0) -> frozenset[int]:
    """The values of one field: `*`, numbers, ranges and steps, joined by commas. Raises `ValueError`."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = int(step_text) if slash else 1
        low, dash, high = span.partition("-")
        start = least if span == "*" else _value(low, names, first)
        end = most if span == "*" or (slash and not dash) else _value(high, names, first) if dash else start
        if step < 1 or not least <= start <= end <= most:
            raise ValueError(f"{part!r} is not within {least} to {most}")
        found.update(range(start, end + 1, step))
    return frozenset(found)


def _value(text: str, names: Sequence[str], first: int) -> int:
    if len(text) >= (3 if first else 2):
        for number, name in enumerate(names, first):
            if name.startswith(text.lower()):
                return number
    return int(text)


def _text(values: Iterable[int]) -> str:
    """The values as one field, successive ones as a range."""
    ranges: list[list[int]] = []
    for value in sorted(values):
        if ranges and ranges[-1][-1] == value - 1:
            ranges[-1] = [ranges[-1][0], value]
        else:
            ranges.append([value])
    return ",".join("-".join(str(end) for end in one) for one in ranges)


@lru_cache(maxsize=64)
def _changed_hours(time_zone: str, year: int) -> dict[date, frozenset[int]]:
    """The hours of the wall clock around each change of it, by day, from a year before `year` until 21 years later."""
    zone = ZoneInfo(time_zone)
    start = datetime(year, 1, 1, tzinfo=UTC) - _BEHIND
    found: dict[date, set[int]] = defaultdict(set)
    for before, after in _changes(zone, start, start + _BEHIND + _FURTHEST + timedelta(days=366)):
        offsets = [before.utcoffset() or timedelta(0), after.utcoffset() or timedelta(0)]
        moment = after.astimezone(UTC).replace(tzinfo=None)
        wall, end = moment + min(offsets) - _BEFORE, moment + max(offsets) + _AFTER
        wall = wall.replace(minute=0, second=0)
        while wall < end:
            found[wall.date()].add(wall.hour)
            wall += timedelta(hours=1)
    return {day: frozenset(hours) for day, hours in found.items()}


def _changes(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The last second before and the first after each change of the zone's offset."""
    before = start.astimezone(zone)
    while before < end:
        after = (before.astimezone(UTC) + timedelta(days=1)).astimezone(zone)
        if after.utcoffset() != before.utcoffset():
            yield _last_and_first(zone, before.astimezone(UTC), after.astimezone(UTC))
        before = after


def _last_and_first(zone: ZoneInfo, low: datetime, high: datetime) -> tuple[datetime, datetime]:
    offset = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low).total_seconds() // 2)
        low, high = (middle, high) if middle.astimezone(zone).utcoffset() == offset else (low, middle)
    return low.astimezone(zone), high.astimezone(zone)
