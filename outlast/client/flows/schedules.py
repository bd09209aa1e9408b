"""Schedules: make, show, change, pause, trigger and backfill them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict
from urllib.parse import quote

from pydantic import JsonValue

from outlast.client.contracts.schedules import DueTimes, Schedule, SchedulePage
from outlast.client.errors import NotFound
from outlast.client.flows.commands import Emitting, Flow, HttpRequest, Item
from outlast.client.flows.requests import Body, given, tool_name
from outlast.client.flows.server import Attempts, Server, request
from outlast.client.problems import parsed

PAGE_SIZE = 50
_START_SECONDS = 600.0
"""How long the server may take to check the items of a batch."""


class ScheduleOptions(TypedDict, total=False):
    """What a schedule starts, and when. What is left out, or None, is as the server has it. Money is in US dollars."""

    call: Mapping[str, JsonValue] | None
    """A call: `tool`, `arguments`, `mode`, `options`, as for a task."""
    batch: Mapping[str, JsonValue] | None
    """A batch: the body of `POST /v1/batches`."""
    saved: str | Mapping[str, JsonValue] | None
    """A saved call: its name, or its `name` with `arguments` that go over its own."""
    cron: str | Sequence[str] | None
    """Cron expressions of five fields: `17 2 * * *`."""
    every_seconds: float | None
    """An interval, of a minute at least."""
    time_zone: str | None
    """Of the cron expressions: `Europe/Prague`."""
    jitter_seconds: float | None
    """Each firing begins up to so much later, at random."""
    start_at: datetime | None
    end_at: datetime | None
    overlap: str | None
    """`skip`, `buffer_one`, `buffer_all`, `cancel_other` or `allow_all`."""
    catch_up_seconds: float | None
    """How late what was due while the server was away is started."""
    budget_usd: float | None
    """Budget of all firings together."""
    pause_on: Sequence[str] | None
    """Categories of errors after which it is paused."""
    note: str | None


def create(server: Server, schedule_id: str, options: ScheduleOptions, *, paused: bool) -> Flow[Schedule]:
    """Make a schedule. A repeated request changes nothing."""
    body: Body = {"id": schedule_id, **schedule_body(options), **({"paused": True} if paused else {})}
    wanted = HttpRequest("POST", "/v1/schedules", body=body, timeout_seconds=_START_SECONDS)
    return parsed(Schedule, (yield from request(server, wanted)), server.url)


def get(server: Server, schedule_id: str) -> Flow[Schedule]:
    """A schedule as it is now."""
    return parsed(Schedule, (yield from request(server, HttpRequest("GET", _path(schedule_id)))), server.url)


def listed(server: Server) -> Emitting[Schedule]:
    """All schedules, page by page as they are read."""
    token: str | None = None
    while True:
        params = (("page_size", str(PAGE_SIZE)), *((("page_token", token),) if token else ()))
        response = yield from request(server, HttpRequest("GET", "/v1/schedules", params=params))
        page = parsed(SchedulePage, response, server.url)
        for schedule in page.schedules:
            yield Item(schedule)
        token = page.next_page_token
        if token is None:
            return


def update(server: Server, schedule_id: str, options: ScheduleOptions) -> Flow[Schedule]:
    """Change what the options name."""
    body = schedule_body(options)
    wanted = HttpRequest("PATCH", _path(schedule_id), body=body, timeout_seconds=_START_SECONDS)
    return parsed(Schedule, (yield from request(server, wanted)), server.url)


def delete(server: Server, schedule_id: str) -> Flow[None]:
    """Delete a schedule. When an earlier attempt was lost, one that is gone is no error."""
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        yield from request(server, HttpRequest("DELETE", _path(schedule_id)), attempts)
    except NotFound:
        if not attempts.may_have_arrived:
            raise


def change_state(server: Server, schedule_id: str, verb: str, reason: str | None = None) -> Flow[Schedule]:
    """Pause, resume or trigger a schedule."""
    body: JsonValue = {"reason": reason} if reason else None
    response = yield from request(server, HttpRequest("POST", f"{_path(schedule_id)}/{verb}", body=body))
    return parsed(Schedule, response, server.url)


def backfill(
    server: Server, schedule_id: str, start: datetime, end: datetime, overlap: str | None
) -> Flow[tuple[datetime, ...]]:
    """Have done what the schedule would have done; gives the moments."""
    body = given(start=_written(start), end=_written(end), overlap=overlap)
    response = yield from request(server, HttpRequest("POST", f"{_path(schedule_id)}/backfill", body=body))
    return parsed(DueTimes, response, server.url).times


def times(server: Server, schedule_id: str, start: datetime | None, end: datetime | None) -> Flow[tuple[datetime, ...]]:
    """When a schedule is due."""
    moments = {"start": start, "end": end}
    params = tuple((name, moment.astimezone().isoformat()) for name, moment in moments.items() if moment is not None)
    response = yield from request(server, HttpRequest("GET", f"{_path(schedule_id)}/times", params=params))
    return parsed(DueTimes, response, server.url).times


def schedule_body(options: ScheduleOptions) -> Body:
    """The body of a request about a schedule."""
    cron, every, saved = options.get("cron"), options.get("every_seconds"), options.get("saved")
    budget, pause_on = options.get("budget_usd"), options.get("pause_on")
    return given(
        call=_named(options.get("call")),
        batch=_named(options.get("batch")),
        saved={"name": saved} if isinstance(saved, str) else None if saved is None else dict(saved),
        cron=None if cron is None else [cron] if isinstance(cron, str) else list(cron),
        every=None if every is None else [{"seconds": round(every)}],
        time_zone=options.get("time_zone"),
        jitter_seconds=_whole(options.get("jitter_seconds")),
        start_at=_written(options.get("start_at")),
        end_at=_written(options.get("end_at")),
        overlap=options.get("overlap"),
        catch_up_seconds=_whole(options.get("catch_up_seconds")),
        budget_usd=None if budget is None else str(budget),
        pause_on=None if pause_on is None else list(pause_on),
        note=options.get("note"),
    )


def _named(target: Mapping[str, JsonValue] | None) -> JsonValue:
    """A call or a batch, whose tool may be an Actor as `user/name`."""
    if target is None:
        return None
    tool = target.get("tool")
    return {**target, **({"tool": tool_name(tool)} if isinstance(tool, str) else {})}


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)


def _written(moment: datetime | None) -> str | None:
    """With its time zone; a moment without one is meant as this machine's time."""
    return None if moment is None else moment.astimezone().isoformat()


def _path(schedule_id: str) -> str:
    return f"/v1/schedules/{quote(schedule_id, safe='')}"
