"""The schema of the one run response, and of the list of runs."""

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.apify.schemas.build import answer, array, flag, integer, nullable, number, text

_DATASET = answer(
    {
        "id": text(),
        "apifyConsoleUrl": text("Its page in Apify Console; only for sessions of the Console."),
        "name": text(),
        "title": text(),
        "itemCount": number(),
        "inflatedBytes": number("Size of all items in bytes, not compressed."),
        "fields": array(text(), "Names of fields as paths with dots."),
    },
    required=("id",),
)
_STORE = answer(
    {
        "id": text(),
        "apifyConsoleUrl": text("Its page in Apify Console; only for sessions of the Console."),
        "name": text(),
        "title": text(),
        "keyCount": number("How many keys it has; absent when there are more than were listed."),
        "keys": array(text(), "Its first keys."),
    },
    required=("id",),
)
_STORAGES: JsonObject = {
    "type": "object",
    "description": "What the run writes to, by alias; `default` is always there.",
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
        "statusMessage": text("What the Actor last said of itself."),
        "exitCode": number("Of the Actor's process, once it has ended."),
        "startedAt": text(),
        "finishedAt": text("Absent while the run goes on."),
        "stats": answer({"runTimeSecs": number(), "computeUnits": number(), "memMaxBytes": number()}),
        "storages": _STORAGES,
        "summary": text("The state of the run in a sentence or two."),
        "nextStep": text("What to call next, with the ids that it takes."),
    },
    required=("runId", "actorId", "status", "storages", "summary", "nextStep"),
)
"""Every tool that runs an Actor, follows or aborts a run."""

WAIT_DEFAULT_SECONDS = 30
WAIT_MAX_SECONDS = 45
WAIT_ARGUMENT: JsonObject = integer(
    "Seconds to wait for the run's end. When they are over, the answer is its state, and the run goes on.",
    default=WAIT_DEFAULT_SECONDS,
    minimum=0,
    maximum=WAIT_MAX_SECONDS,
)

RUN_LIST: JsonObject = answer(
    {
        "total": number(),
        "count": number(),
        "offset": number(),
        "limit": number(),
        "desc": flag(),
        "items": array(
            answer(
                {
                    "id": text(),
                    "actId": text(),
                    "actorTaskId": text(),
                    "status": text(),
                    "startedAt": nullable("string"),
                    "finishedAt": nullable("string"),
                    "buildId": text(),
                    "buildNumber": text(),
                    "defaultDatasetId": text(),
                    "defaultKeyValueStoreId": text(),
                    "defaultRequestQueueId": text(),
                    "usageTotalUsd": number(),
                },
                required=("id", "actId", "status", "defaultDatasetId", "defaultKeyValueStoreId"),
            )
        ),
    },
    required=("total", "count", "offset", "limit", "items"),
)
