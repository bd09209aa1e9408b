"""Arguments of the tools for schedules."""

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.core.saved_options import SavedOptions
from outlast.workflows.tools.core.schedule_actions import ArgumentNames, ScheduledRun
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments

_NAMES = ArgumentNames("actor", "actorTaskId")
_Name = Annotated[str, StringConstraints(min_length=3, max_length=63)]
_Title = Annotated[str, StringConstraints(max_length=40)]
_Description = Annotated[str, StringConstraints(max_length=5_000)]
Cron = Annotated[str, StringConstraints(min_length=1, max_length=100)]
_CRON = (
    "When it comes due: minute, hour, day, month, weekday, for example `0 9 * * 1-5`; or @hourly, @daily, @weekly, "
    "@monthly, @yearly."
)
_ACTIONS = "What it runs, each time all of it."


class Action(Arguments):
    """One Actor or one saved task that a schedule runs."""

    actor: Id | None = Field(
        default=None, description="Actor to run: `user/name`, its id, or the name of one of your own. Or actorTaskId."
    )
    actor_task_id: Id | None = Field(
        default=None,
        alias="actorTaskId",
        description="Saved task to run: its id, `user/name`, or the name of one of your own.",
    )
    input: dict[str, JsonValue] | None = Field(
        default=None, description="Input of the Actor; of a saved task the fields that take the place of saved ones."
    )
    call_options: SavedOptions | None = Field(
        default=None, alias="callOptions", description="With actor: how it is run. A saved task has its own options."
    )
    restart_on_error: bool | None = Field(
        default=None, alias="restartOnError", description="With actor: start a run that fails again."
    )

    def as_run(self) -> ScheduledRun:
        """What it runs."""
        options: JsonObject = self.call_options.as_sent() if self.call_options else {}
        if self.restart_on_error is not None:
            options["restartOnError"] = self.restart_on_error
        return ScheduledRun(
            actor=self.actor,
            task=self.actor_task_id,
            input=self.input,
            has_input=self.input is not None,
            options=options,
            names=_NAMES,
        )


class ScheduleArguments(Arguments):
    """Names a schedule."""

    schedule_id: Id = Field(
        alias="scheduleId", description="Schedule: its id, `user/name`, or the name of one of your own."
    )


class ScheduleFields(Arguments):
    """Properties of a schedule, apart from its times and its actions."""

    name: _Name | None = Field(default=None, description="Letters, digits and inner hyphens.")
    title: _Title | None = Field(default=None, description="What people see instead of the name.")
    description: _Description | None = Field(default=None, description="What it is for.")
    timezone: Id | None = Field(default=None, description="By which clock, such as Europe/Prague; UTC without it.")
    is_exclusive: bool | None = Field(
        default=None,
        alias="isExclusive",
        description="Start nothing while what it started before still runs. A new schedule does so without it.",
    )

    def as_sent(self) -> JsonObject:
        """The fields that were given, as the platform's API has them, without actions."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude={"actions", "schedule_id"})


class CreateScheduleArguments(ScheduleFields):
    """A new schedule."""

    cron_expression: Cron = Field(alias="cronExpression", description=_CRON)
    actions: list[Action] = Field(min_length=1, max_length=20, description=_ACTIONS)
    is_enabled: bool = Field(default=True, alias="isEnabled", description="Whether it comes due at all.")


class UpdateScheduleArguments(ScheduleArguments, ScheduleFields):
    """Which schedule, and what of it is changed."""

    cron_expression: Cron | None = Field(default=None, alias="cronExpression", description=_CRON)
    actions: list[Action] | None = Field(
        default=None, min_length=1, max_length=20, description=f"{_ACTIONS} They take the place of all that there were."
    )
    is_enabled: bool | None = Field(default=None, alias="isEnabled", description="Whether it comes due at all.")
