"""Schemas of the tools for saved Actor tasks."""

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.apify.schemas.build import (
    answer,
    array,
    free_object,
    inner,
    integer,
    nullable,
    required_text,
    text,
)

NAME_PATTERN = "^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])$"
TASK_ID: JsonObject = required_text("The task: its id, `user/name`, or the name of one of your own.")
FIELDS: JsonObject = {
    "name": text("Letters, digits and inner hyphens.", minLength=3, maxLength=63, pattern=NAME_PATTERN),
    "input": free_object("The input that its runs get, by the Actor's own input schema."),
    "title": text("What people see instead of the name."),
    "description": text("What it is for."),
    "build": text("Tag or number of the Actor's build."),
    "timeoutSecs": integer("Longest duration of its runs, in seconds; 0 for none.", minimum=0),
    "memoryMbytes": integer("Memory of its runs in megabytes, a power of two.", exclusiveMinimum=0),
    "publicConfig": inner(
        {
            "seoTitle": text("Title of its public page.", maxLength=60),
            "seoDescription": text("Description of its public page.", maxLength=160),
            "inputSchemaFields": array(text(), "Fields of the input that its public page shows."),
            "datasetName": text("The dataset whose schema has the views."),
            "datasetView": text("The view of its items that its public page shows."),
        },
        "What its public page shows. This alone publishes nothing.",
    ),
}
_PUBLIC: JsonObject = {
    "type": ["object", "null"],
    "properties": {
        "seoTitle": nullable("string"),
        "seoDescription": nullable("string"),
        "inputSchemaFields": {"type": ["array", "null"], "items": text()},
        "datasetName": nullable("string"),
        "datasetView": nullable("string"),
    },
}
TASK: JsonObject = answer(
    {
        "taskId": text(),
        "actorId": text(),
        "name": text(),
        "title": nullable("string"),
        "description": nullable("string"),
        "publishedAt": nullable("string", "Since when it has a public page; null for none."),
        "publicConfig": _PUBLIC,
        "input": {"type": ["object", "array", "null"], "description": "What its runs get."},
    },
    required=("taskId", "actorId", "name", "title", "description", "publishedAt", "publicConfig", "input"),
)
"""Every tool for saved tasks."""
