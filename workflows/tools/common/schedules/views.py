"""A schedule as answers have it."""

from datetime import datetime
from typing import Any

from pydantic import Field, JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.answers.answer import Answer
from outlast.workflows.tools.core.saved_options import SavedOptions
from outlast.workflows.tools.core.schedule_actions import ScheduledRun, as_read


class ActionView(Answer):
    """One Actor or one saved task that a schedule runs."""

    actor_id: str | None = None
    actor_task_id: str | None = None
    input: JsonValue = Field(default=None, description="Left out in lists, and where a change is answered.")
    call_options: dict[str, JsonValue] | None = None
    restart_on_error: bool | None = None


class ScheduleView(Answer):
    """A schedule."""

    schedule_id: str
    name: str
    title: str | None = None
    description: str | None = None
    cron_expression: str
    timezone: str
    is_enabled: bool
    is_exclusive: bool
    next_run_at: datetime | None = Field(default=None, description="When it comes due next; absent while it is off.")
    last_run_at: datetime | None = None
    created_at: datetime | None = None
    modified_at: datetime | None = None
    actions: list[ActionView]


def schedule_view(schedule: JsonObject, *, with_inputs: bool = False) -> ScheduleView:
    """The platform's object of a schedule."""
    fields: dict[str, Any] = {
        **schedule,
        "scheduleId": schedule.get("id"),
        "actions": [_action(run, with_input=with_inputs) for run in as_read(schedule)],
    }
    return ScheduleView.model_validate(fields)


def describe_due(schedule: ScheduleView) -> str:
    """When it comes due, in words."""
    if schedule.next_run_at is None:
        return f"It is off; switched on it comes due at `{schedule.cron_expression}` ({schedule.timezone})."
    return f"It comes due next at {schedule.next_run_at:%Y-%m-%d %H:%M:%S} UTC (`{schedule.cron_expression}`)."


def describe_actions(schedule: ScheduleView) -> str:
    """What it runs, in words."""
    runs = [
        f"saved task {one.actor_task_id}" if one.actor_task_id else f"Actor {one.actor_id}" for one in schedule.actions
    ]
    return f"It runs {', '.join(runs)}." if runs else "It runs nothing."


def _action(run: ScheduledRun, *, with_input: bool) -> ActionView:
    options = SavedOptions.read(run.options)
    restarts = run.options.get("restartOnError")
    return ActionView(
        actor_id=run.actor,
        actor_task_id=run.task,
        input=run.input if with_input else None,
        call_options=options.model_dump(exclude_none=True) if options else None,
        restart_on_error=restarts if isinstance(restarts, bool) else None,
    )
