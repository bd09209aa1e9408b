"""The list of tasks, with filters in the address, and bulk actions."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlencode

from outlast.api.console.framework import Context, Section, View
from outlast.contracts.base import ALL_CALLERS
from outlast.contracts.tasks import Task, TaskListing, TaskPage
from outlast.workflows.contracts.tool_calls import TaskStatus

section = Section("Tasks")
_PAGE_SIZE = 50
_OPEN = (TaskStatus.QUEUED, TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED)
STATES: Mapping[str, tuple[TaskStatus, ...]] = {
    "open": _OPEN,
    "waiting": (TaskStatus.INPUT_REQUIRED,),
    "failed": (TaskStatus.FAILED,),
    "completed": (TaskStatus.COMPLETED,),
    "cancelled": (TaskStatus.CANCELLED,),
}
"""Values of the parameter `status`."""
_CHIPS = (("", "All"), ("open", "Open"), ("failed", "Failed"), ("waiting", "Waiting"))
_PERIODS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
_FILTERS = ("status", "caller", "tool", "actor", "since", "until", "batch", "schedule", "session", "run")


@section.page("tasks", "tasks.html", live=("list",))
async def tasks(view: View) -> Context:
    """The tasks that the filters of the address select."""
    chosen = {name: value for name in _FILTERS if (value := view.of_query(name))}
    listing = listing_of(view, chosen, page_token=view.of_query("page"))
    page = await view.services.tasks.list(view.principal, listing)
    return {
        "tasks": page.tasks,
        "chosen": chosen,
        "chips": [
            (words, _query({**chosen, "status": name}), chosen.get("status", "") == name) for name, words in _CHIPS
        ],
        "next_page": _query({**chosen, "page": page.next_page_token}) if page.next_page_token else None,
        "periods": tuple(_PERIODS),
        "title": _title(chosen),
    }


async def failed_since(view: View, period: timedelta) -> TaskPage:
    """The tasks that failed in the last `period`, of everybody whom the caller sees; the latest 200."""
    listing = {"status": (TaskStatus.FAILED,), "since": datetime.now(UTC) - period, "page_size": 200}
    return await view.services.tasks.list(view.principal, TaskListing.model_validate({**listing, **whose(view)}))


def whose(view: View, caller: str | None = None) -> dict[str, str]:
    """The parameter `caller` of a list: all callers by default for those who may see them."""
    return {"caller": caller or ALL_CALLERS} if view.sees_all else {}


def listing_of(view: View, chosen: Mapping[str, str], *, page_token: str | None = None) -> TaskListing:
    """The list that the filters of an address select. Raises `ValidationError`."""
    since = chosen.get("since")
    fields: dict[str, Any] = {
        "status": STATES.get(chosen.get("status", ""), ()),
        "tool": chosen.get("tool"),
        "actor": chosen.get("actor"),
        "run_id": chosen.get("run"),
        "batch_id": chosen.get("batch"),
        "schedule_id": chosen.get("schedule"),
        "session_id": chosen.get("session"),
        "since": datetime.now(UTC) - _PERIODS[since] if since in _PERIODS else since,
        "until": chosen.get("until"),
        "page_size": _PAGE_SIZE,
        "page_token": page_token,
    }
    return TaskListing.model_validate({**fields, **whose(view, chosen.get("caller"))})


def _query(parameters: Mapping[str, str | None]) -> str:
    given = {name: value for name, value in parameters.items() if value}
    return f"?{urlencode(given)}" if given else "?"


def _title(chosen: Mapping[str, str]) -> str:
    words = chosen.get("status", "").capitalize()
    return f"{words} tasks" if words else "Tasks"


def words_of(task: Task) -> str:
    """What the task says about itself, in its own words."""
    error = cast("Any", task).error
    return (error.message if error is not None else None) or task.status_message or ""
