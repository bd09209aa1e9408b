"""`get-actor-run-list`: the caller's runs, or those of one Actor."""

from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import only_json
from outlast.workflows.tools.apify.answers.failures import failing_as, not_there
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.schemas.build import arguments, flag, number, required_text, text
from outlast.workflows.tools.apify.schemas.runs import RUN_LIST
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
List your Actor runs, a page at a time: of all Actors or of one, in any or in one status. The answer has each run's
id, status, times and storages.
"""
_STATUSES = ("READY", "RUNNING", "SUCCEEDED", "FAILED", "TIMING-OUT", "TIMED-OUT", "ABORTING", "ABORTED")
_DEFAULT_LIMIT = 10


@failing_as(not_there("Actor '{actorId}' not found."))
async def get_actor_run_list(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The platform's page, without what is null where the schema promises a text."""
    path = ("acts", unquoted(given["actorId"]), "runs") if given.get("actorId") else ("actor-runs",)
    page = await ctx.platform.get(
        *path,
        offset=int(given.get("offset", 0)),
        limit=int(given.get("limit") or _DEFAULT_LIMIT),
        desc=bool(given.get("desc", False)),
        status=given.get("status"),
    )
    items = page.get("items")
    runs = [_listed(run) for run in items if isinstance(run, dict)] if isinstance(items, list) else []
    return only_json({**page, "items": [*runs]})


def _listed(run: JsonObject) -> JsonObject:
    """A run that belongs to no saved task has no `actorTaskId`."""
    return {name: value for name, value in run.items() if name != "actorTaskId" or value is not None}


GET_ACTOR_RUN_LIST = reading_tool(
    "get-actor-run-list",
    "Get user runs list",
    Category.RUNS,
    does=DESCRIPTION,
    arguments=arguments(
        {
            "actorId": required_text("Only runs of this Actor: its id, or `user/name`."),
            "offset": number("Runs to skip.", default=0),
            "limit": number("Runs to list at most.", default=10, maximum=10),
            "desc": flag("Whether the newest come first.", default=False),
            "status": text("Only runs in this status.", enum=[*_STATUSES]),
        }
    ),
    answer=RUN_LIST,
    handler=get_actor_run_list,
)
