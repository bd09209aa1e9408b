"""JSON Schemas of arguments and answers, as clients of Apify's server expect them, and the start of definitions.

Objects are closed, and numbers have the limits of that server."""

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.framework.tool import Category, Handler, Tool, ToolAnnotations, ToolBuilder, reads, tool

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest whole number that every JSON parser keeps exact: the default limit of integers."""


def text(description: str = "", **more: JsonValue) -> JsonObject:
    """Describe a string."""
    return _described({"type": "string", **more}, description)


def required_text(description: str = "", **more: JsonValue) -> JsonObject:
    """Describe a string that is not empty."""
    return text(description, minLength=1, **more)


def number(description: str = "", **more: JsonValue) -> JsonObject:
    """Describe a number."""
    return _described({"type": "number", **more}, description)


def integer(description: str = "", **more: JsonValue) -> JsonObject:
    """Describe a whole number. With a minimum and no `maximum`, the largest exact one is the limit."""
    if ("minimum" in more or "exclusiveMinimum" in more) and "maximum" not in more:
        more = {**more, "maximum": MAX_SAFE_INTEGER}
    return _described({"type": "integer", **more}, description)


def flag(description: str = "", **more: JsonValue) -> JsonObject:
    """Describe a boolean."""
    return _described({"type": "boolean", **more}, description)


def array(items: JsonObject, description: str = "", **more: JsonValue) -> JsonObject:
    """Describe a list."""
    return _described({"type": "array", "items": items, **more}, description)


def nullable(kind: str, description: str = "") -> JsonObject:
    """Describe a value of a type, or null."""
    return _described({"type": [kind, "null"]}, description)


def anything(description: str = "") -> JsonObject:
    """Describe any value."""
    return _described({}, description)


def free_object(description: str = "") -> JsonObject:
    """Describe an object with unknown members."""
    return _described({"type": "object", "properties": {}, "additionalProperties": {}}, description)


def inner(properties: JsonObject, description: str = "", **more: JsonValue) -> JsonObject:
    """Describe a closed object within arguments, with optional members only."""
    return _described({"type": "object", "properties": properties, "additionalProperties": False, **more}, description)


def arguments(properties: JsonObject, *, required: tuple[str, ...] = ()) -> JsonObject:
    """Describe the arguments of a tool: a closed object."""
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def answer(properties: JsonObject, *, required: tuple[str, ...] = (), **more: JsonValue) -> JsonObject:
    """Describe a structured answer, or a part of one, which may have further members."""
    schema: JsonObject = {"type": "object", "properties": properties, **more}
    return {**schema, "required": [*required]} if required else schema


def _described(schema: JsonObject, description: str) -> JsonObject:
    return {**schema, "description": description} if description else schema


def whole_answer(properties: JsonObject) -> JsonObject:
    """Describe a structured answer that always has all these members."""
    return answer(properties, required=tuple(properties))


def members(schema: JsonObject, *names: str) -> JsonObject:
    """Give members of these names the same schema."""
    return dict.fromkeys(names, schema)


SENTENCES = members(text(), "summary", "nextStep")
_NAMES = members(text(), "name", "title")
_CONSOLE: JsonObject = {"apifyConsoleUrl": text("Its page in Apify Console; only for sessions of the Console.")}
_DATASET = answer(
    {
        "id": text(),
        **_CONSOLE,
        **_NAMES,
        "itemCount": number(),
        "inflatedBytes": number("Size of all items in bytes, not compressed."),
        "fields": array(text(), "Names of fields as paths with dots."),
    },
    required=("id",),
)
_STORE = answer(
    {
        "id": text(),
        **_CONSOLE,
        **_NAMES,
        "keyCount": number("Number of keys; absent if there are more than were listed."),
        "keys": array(text(), "Its first keys."),
    },
    required=("id",),
)
_STORAGES: JsonObject = {
    "type": "object",
    "description": "The storages of the run, by alias; `default` always exists.",
    "properties": {
        "datasets": answer({"default": _DATASET}, required=("default",), additionalProperties=_DATASET),
        "keyValueStores": answer({"default": _STORE}, required=("default",), additionalProperties=_STORE),
    },
}
RUN: JsonObject = answer(
    {
        "runId": text(),
        "apifyConsoleUrl": text("The run's page in Apify Console; only for sessions of the Console."),
        "actorId": text(),
        "actorName": text("The Actor as `user/name`."),
        "status": text("READY, RUNNING, SUCCEEDED, FAILED, TIMING-OUT, TIMED-OUT, ABORTING or ABORTED."),
        "statusMessage": text("The latest status message of the Actor."),
        "exitCode": number("Of the Actor's process, once it has ended."),
        "startedAt": text(),
        "finishedAt": text("Absent while the run is open."),
        "stats": answer(members(number(), "runTimeSecs", "computeUnits", "memMaxBytes")),
        "storages": _STORAGES,
        "summary": text("The state of the run in a sentence or two."),
        "nextStep": text("What to call next, with the required ids."),
    },
    required=("runId", "actorId", "status", "storages", "summary", "nextStep"),
)
"""Answer of every tool that runs an Actor, or follows or aborts a run."""
WAIT_DEFAULT_SECONDS = 30
WAIT_MAX_SECONDS = 45
WAIT_ARGUMENT: JsonObject = integer(
    "Seconds to wait for the run's end. After that, its state is returned, and the run continues.",
    default=WAIT_DEFAULT_SECONDS,
    minimum=0,
    maximum=WAIT_MAX_SECONDS,
)
RUN_LIST: JsonObject = answer(
    {
        **members(number(), "total", "count", "offset", "limit"),
        "desc": flag(),
        "items": array(
            answer(
                {
                    **members(text(), "id", "actId", "actorTaskId", "status"),
                    **members(nullable("string"), "startedAt", "finishedAt"),
                    **members(text(), "buildId", "buildNumber", "defaultDatasetId", "defaultKeyValueStoreId"),
                    "defaultRequestQueueId": text(),
                    "usageTotalUsd": number(),
                },
                required=("id", "actId", "status", "defaultDatasetId", "defaultKeyValueStoreId"),
            )
        ),
    },
    required=("total", "count", "offset", "limit", "items"),
)
NAME_PATTERN = "^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])$"
TASK_ID: JsonObject = required_text("The task: its id, `user/name`, or the name of one of your own.")
TASK_FIELDS: JsonObject = {
    "name": text("Letters, digits and hyphens between them.", minLength=3, maxLength=63, pattern=NAME_PATTERN),
    "input": free_object("Input of its runs, which matches the Actor's input schema."),
    "title": text("Displayed instead of the name."),
    "description": text("What it is for."),
    "build": text("Tag or number of the Actor's build."),
    "timeoutSecs": integer("Maximum duration of its runs, in seconds; 0 for no limit.", minimum=0),
    "memoryMbytes": integer("Memory of its runs in megabytes, a power of two.", exclusiveMinimum=0),
    "publicConfig": inner(
        {
            "seoTitle": text("Title of its public page.", maxLength=60),
            "seoDescription": text("Description of its public page.", maxLength=160),
            "inputSchemaFields": array(text(), "Fields of the input that its public page shows."),
            "datasetName": text("The dataset whose schema has the views."),
            "datasetView": text("The view of its items that its public page shows."),
        },
        "Content of its public page. Setting it does not publish the page.",
    ),
}
_PUBLIC: JsonObject = {
    "type": ["object", "null"],
    "properties": {
        **members(nullable("string"), "seoTitle", "seoDescription"),
        "inputSchemaFields": {"type": ["array", "null"], "items": text()},
        **members(nullable("string"), "datasetName", "datasetView"),
    },
}
TASK = whole_answer(
    {
        **members(text(), "taskId", "actorId", "name"),
        **members(nullable("string"), "title", "description"),
        "publishedAt": nullable("string", "Time when its public page was published; null without one."),
        "publicConfig": _PUBLIC,
        "input": {"type": ["object", "array", "null"], "description": "What its runs get."},
    }
)
"""Answer of every tool for saved tasks."""
SCHEDULE_ID: JsonObject = required_text("The schedule: its id, `user/name`, or the name of one of your own.")
_ACTION: JsonObject = inner(
    {
        "actorId": required_text("The Actor to run: its id, `user/name`, or the name of one of your own. Or taskId."),
        "taskId": required_text("The saved task to run: its id, `user/name`, or the name of one of your own."),
        "input": free_object("The Actor's input; for a task, fields that replace saved ones."),
        "build": text("With actorId: tag or number of the build."),
        "timeoutSecs": integer("With actorId: maximum duration of the run, in seconds; 0 for no limit.", minimum=0),
        "memoryMbytes": integer("With actorId: memory in megabytes, a power of two.", exclusiveMinimum=0),
        "restartOnError": flag("With actorId: whether a failed run is started again."),
    }
)
SCHEDULE_FIELDS: JsonObject = {
    "name": text("Letters, digits and hyphens between them.", minLength=3, maxLength=63),
    "title": text("Displayed instead of the name.", maxLength=40),
    "description": text("What it is for.", maxLength=5_000),
    "cronExpression": required_text(
        "Cron expression: minute, hour, day, month, weekday, for example `0 9 * * 1-5`; or @hourly, @daily, @weekly.",
        maxLength=100,
    ),
    "timezone": required_text("Time zone, such as Europe/Prague. Default: UTC."),
    "isEnabled": flag("Whether it is enabled."),
    "isExclusive": flag("Whether it starts nothing while an earlier run of it is open."),
    "actions": array(_ACTION, "What it runs at each due time: all of it.", minItems=1, maxItems=20),
}
NEW_SCHEDULE_FIELDS: JsonObject = {**SCHEDULE_FIELDS, "isEnabled": flag("Whether it is enabled.", default=True)}
SCHEDULE = whole_answer(
    {
        **members(text(), "scheduleId", "name"),
        **members(nullable("string"), "title", "description"),
        **members(text(), "cronExpression", "timezone"),
        **members(flag(), "isEnabled", "isExclusive"),
        "nextRunAt": nullable("string", "Next due time; null while it is disabled."),
        **members(nullable("string"), "lastRunAt", "createdAt", "modifiedAt"),
        "actions": array(
            answer(
                {
                    **members(text(), "actorId", "taskId"),
                    "input": {"type": ["object", "array", "string", "number", "boolean", "null"]},
                    "build": text(),
                    **members(number(), "timeoutSecs", "memoryMbytes"),
                    "restartOnError": flag(),
                }
            )
        ),
    }
)
"""Answer of every tool for schedules except the one that deletes them."""
REMOVED_SCHEDULE = whole_answer({**members(text(), "scheduleId", "name"), "deleted": flag()})


def reading_tool(
    name: str, title: str, category: Category, *, does: str, arguments: JsonObject, answer: JsonObject, handler: Handler
) -> Tool:
    """Return a tool that changes nothing."""
    return begun(name, category, reads(title), does=does, arguments=arguments, answer=answer).server(handler).build()


def begun(
    name: str, category: Category, hints: ToolAnnotations, *, does: str, arguments: JsonObject, answer: JsonObject
) -> ToolBuilder:
    """Begin a definition. Each tool limits its own answer, so none is stored for its size."""
    builder = tool(name).category(category).describe(does).annotate(hints)
    return builder.args_schema(arguments).output_schema(answer).keep_output_schema().gives_back_outputs()
