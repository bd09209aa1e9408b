"""Due times on the days on which the clock changes, as Temporal evaluates them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import httpx
import pytest
from temporalio.client import Client, ScheduleActionStartWorkflow, ScheduleSpec, ScheduleUpdate, ScheduleUpdateInput

from outlast.activities.contracts import Caller
from outlast.api.schedules.client import temporal_id_of
from outlast.api.schedules.specification import specification
from outlast.api.temporal.schedule_view import order_of
from tests.support.calls.schedules import fired, scheduled, seen

Matches = Callable[[datetime], bool]
AT_HALF_PAST_ONE: tuple[str, Matches] = "30 1 * * *", lambda wall: (wall.hour, wall.minute) == (1, 30)
QUARTERS: tuple[str, Matches] = "*/15 * * * *", lambda wall: wall.minute % 15 == 0
MINUTES: tuple[str, Matches] = "* * * * *", lambda wall: True
NIGHT_HOURS: tuple[str, Matches] = "0 */2 * * *", lambda wall: wall.minute == 0 and wall.hour % 2 == 0
SUNDAY_NIGHTS: tuple[str, Matches] = (
    "5-55/10 0-3 * mar-apr,sep-nov sun",
    lambda wall: wall.minute % 10 == 5 and wall.hour <= 3 and wall.weekday() == 6,
)
HOURLY: tuple[str, Matches] = "@hourly", lambda wall: wall.minute == 0
DAILY: tuple[str, Matches] = "@daily", lambda wall: wall.minute == wall.hour == 0

CASES = [
    ("America/New_York", "2026-11-01", AT_HALF_PAST_ONE),
    ("America/New_York", "2027-03-14", QUARTERS),
    ("Europe/Berlin", "2026-10-25", QUARTERS),
    ("Europe/Berlin", "2027-03-28", MINUTES),
    ("Europe/London", "2027-10-31", AT_HALF_PAST_ONE),
    ("Australia/Lord_Howe", "2027-04-04", QUARTERS),  # half an hour
    ("Australia/Lord_Howe", "2027-10-03", SUNDAY_NIGHTS),
    ("Antarctica/Troll", "2027-10-31", QUARTERS),  # two hours
    ("America/Santiago", "2027-04-04", DAILY),  # at midnight: the day before has an hour twice
    ("America/Santiago", "2027-09-05", HOURLY),  # the day has no midnight
    ("Asia/Beirut", "2027-10-31", HOURLY),
    ("Africa/Casablanca", "2027-02-07", NIGHT_HOURS),  # the month of Ramadan
    ("America/St_Johns", "2027-11-07", MINUTES),  # an offset with half an hour
    ("Asia/Kolkata", "2027-03-28", NIGHT_HOURS),  # no change
]


def _due(zone: ZoneInfo, start: datetime, end: datetime, matches: Matches) -> Iterator[datetime]:
    """Every minute whose wall time matches, unless the clock has that time again later."""
    moment = start
    while moment <= end:
        wall = moment.astimezone(zone)
        again = wall.replace(fold=1).astimezone(UTC)
        if matches(wall) and again <= moment:
            yield moment
        moment += timedelta(minutes=1)


@pytest.mark.parametrize(("zone", "day", "times"), CASES, ids=[f"{zone}-{day}" for zone, day, _ in CASES])
async def test_no_time_is_lost_or_repeated_around_a_change_of_the_clock(
    api: httpx.AsyncClient, zone: str, day: str, times: tuple[str, Matches]
) -> None:
    expression, matches = times
    name = f"{zone}-{day}".replace("/", "-")
    await scheduled(api, name, call={"tool": "double", "arguments": {"number": 1}}, cron=[expression], time_zone=zone)
    middle = datetime.fromisoformat(day).replace(tzinfo=UTC, hour=4)
    # An answer has a thousand moments at most.
    around = timedelta(hours=8) if matches is MINUTES[1] else timedelta(hours=40)
    start, end = middle - around, middle + around
    period = {"start": start.isoformat(), "end": end.isoformat()}
    answer = await api.get(f"/v1/schedules/{name}/times", params=period)
    found = [datetime.fromisoformat(moment) for moment in answer.json()["times"]]
    assert found == list(_due(ZoneInfo(zone), start, end, matches))


async def test_a_schedule_of_an_older_version_is_renewed_when_it_fires(
    api: httpx.AsyncClient, temporal: Client
) -> None:
    """Its Temporal Schedule has the expression alone, and its caller has not touched it since."""
    cron, zone = "30 1 * * *", "America/New_York"
    await scheduled(api, "older", call={"tool": "double", "arguments": {"number": 1}}, cron=[cron], time_zone=zone)

    async def as_before(found: ScheduleUpdateInput) -> ScheduleUpdate:
        order = await order_of(found.description)
        assert order is not None
        schedule = specification(order, found.description.schedule.state)
        schedule.spec = ScheduleSpec(cron_expressions=[cron], time_zone_name=zone)
        assert isinstance(schedule.action, ScheduleActionStartWorkflow)
        schedule.action.args = [order.model_copy(update={"times_until": None})]
        return ScheduleUpdate(schedule=schedule)

    await temporal.get_schedule_handle(temporal_id_of(Caller(id="local"), "older")).update(as_before)
    night = {"start": "2026-11-01T04:00:00Z", "end": "2026-11-01T08:00:00Z"}

    async def times() -> list[str]:
        return (await api.get("/v1/schedules/older/times", params=night)).json()["times"]

    assert await times() == ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"], "Temporal's own evaluation"
    assert (await fired(api, "older"))["status"] == "completed"
    assert await times() == ["2026-11-01T06:30:00Z"]
    assert (await seen(api, "older"))["cron"] == [cron]
