"""Schemas of the tools for schedules."""

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.apify.schemas.build import (
    answer,
    array,
    flag,
    free_object,
    inner,
    integer,
    nullable,
    number,
    required_text,
    text,
)

SCHEDULE_ID: JsonObject = required_text("The schedule: its id, `user/name`, or the name of one of your own.")
_ACTION: JsonObject = inner(
    {
        "actorId": required_text("The Actor to run: its id, `user/name`, or the name of one of your own. Or taskId."),
        "taskId": required_text("The saved task to run: its id, `user/name`, or the name of one of your own."),
        "input": free_object("The Actor's input; of a task, the fields that take the place of saved ones."),
        "build": text("With actorId: tag or number of the build."),
        "timeoutSecs": integer("With actorId: longest duration of the run, in seconds; 0 for none.", minimum=0),
        "memoryMbytes": integer("With actorId: memory in megabytes, a power of two.", exclusiveMinimum=0),
        "restartOnError": flag("With actorId: whether a run that fails is started again."),
    }
)
FIELDS: JsonObject = {
    "name": text("Letters, digits and inner hyphens.", minLength=3, maxLength=63),
    "title": text("What people see instead of the name.", maxLength=40),
    "description": text("What it is for.", maxLength=5_000),
    "cronExpression": required_text(
        "When it comes due: minute, hour, day, month, weekday, for example `0 9 * * 1-5`; or @hourly, @daily, @weekly.",
        maxLength=100,
    ),
    "timezone": required_text("By which clock: a name such as Europe/Prague; UTC without it."),
    "isEnabled": flag("Whether it comes due at all."),
    "isExclusive": flag("Whether it starts nothing while what it started before still runs."),
    "actions": array(_ACTION, "What it runs, each time all of it.", minItems=1, maxItems=20),
}
NEW_FIELDS: JsonObject = {**FIELDS, "isEnabled": flag("Whether it comes due at all.", default=True)}
SCHEDULE: JsonObject = answer(
    {
        "scheduleId": text(),
        "name": text(),
        "title": nullable("string"),
        "description": nullable("string"),
        "cronExpression": text(),
        "timezone": text(),
        "isEnabled": flag(),
        "isExclusive": flag(),
        "nextRunAt": nullable("string", "When it comes due next; null while it is off."),
        "lastRunAt": nullable("string"),
        "createdAt": nullable("string"),
        "modifiedAt": nullable("string"),
        "actions": array(
            answer(
                {
                    "actorId": text(),
                    "taskId": text(),
                    "input": {"type": ["object", "array", "string", "number", "boolean", "null"]},
                    "build": text(),
                    "timeoutSecs": number(),
                    "memoryMbytes": number(),
                    "restartOnError": flag(),
                }
            )
        ),
    },
    required=(
        "scheduleId",
        "name",
        "title",
        "description",
        "cronExpression",
        "timezone",
        "isEnabled",
        "isExclusive",
        "nextRunAt",
        "lastRunAt",
        "createdAt",
        "modifiedAt",
        "actions",
    ),
)
"""Every tool for schedules but the one that removes them."""
REMOVED: JsonObject = answer(
    {"scheduleId": text(), "name": text(), "deleted": flag()}, required=("scheduleId", "name", "deleted")
)
