"""Schedules: what fires in the next 24 hours, and each schedule with its latest firings."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from outlast.api.console.framework import Context, Section, View
from outlast.contracts.schedules import Schedule, ScheduleChanges

section = Section("Schedules")
_AHEAD = timedelta(hours=24)
_MAX_FIRINGS = 50


@section.page("schedules", "schedules.html", live=("agenda", "list"))
async def schedules(view: View) -> Context:
    """The next firings of all schedules, and the schedules."""
    page = await view.services.schedules.list(view.caller, page_token=view.of_query("page"))
    return {
        "schedules": page.schedules,
        "firings": firings_of(page.schedules)[:_MAX_FIRINGS],
        "next_page": page.next_page_token,
    }


def firings_of(found: Iterable[Schedule]) -> list[tuple[datetime, Schedule]]:
    """What is due in the next 24 hours, in its order; nothing of paused schedules."""
    until = datetime.now(UTC) + _AHEAD
    due = ((moment, one) for one in found if not one.paused for moment in one.next if moment <= until)
    return sorted(due, key=lambda firing: (firing[0], firing[1].id))


@section.page("schedules/{schedule_id}", "schedule.html", live=("head",))
async def schedule(view: View) -> Context:
    """A schedule: when it is due, how its latest firings ended, and what it has spent."""
    return {"schedule": await view.services.schedules.get(view.caller, view.of_path("schedule_id"))}


@section.action("schedules/{schedule_id}/pause", "call")
async def pause(view: View) -> str:
    """Pause a schedule."""
    schedule_id = view.of_path("schedule_id")
    await view.services.schedules.pause(view.caller, schedule_id, view.form.text("note") or None)
    return f"schedules/{schedule_id}"


@section.action("schedules/{schedule_id}/resume", "call")
async def resume(view: View) -> str:
    """Resume a paused schedule."""
    schedule_id = view.of_path("schedule_id")
    await view.services.schedules.resume(view.caller, schedule_id, view.form.text("note") or None)
    return f"schedules/{schedule_id}"


@section.action("schedules/{schedule_id}/trigger", "call")
async def trigger(view: View) -> str:
    """Fire a schedule now."""
    schedule_id = view.of_path("schedule_id")
    await view.services.schedules.trigger(view.caller, schedule_id)
    return f"schedules/{schedule_id}"


@section.action("schedules/{schedule_id}/budget", "call")
async def budget(view: View) -> str:
    """Change the budget of a schedule."""
    schedule_id = view.of_path("schedule_id")
    changes = ScheduleChanges.model_validate({"budget_usd": view.form.text("budget_usd") or None})
    await view.services.schedules.update(view.caller, schedule_id, changes)
    return f"schedules/{schedule_id}"
