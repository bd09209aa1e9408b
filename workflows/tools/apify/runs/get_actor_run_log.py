"""`get-actor-run-log`: the end of a run's log."""

from typing import Any

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import texts
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.runs.get_actor_run import no_run
from outlast.workflows.tools.apify.schemas.build import answer, arguments, number, text
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
Get the last lines of an Actor run's log: what it is doing, or why it failed. `lines` 0 gives as many as fit.
"""
_DEFAULT_LINES = 10
_ALL_LINES = 100_000


@failing_as(no_run)
async def get_actor_run_log(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The lines, as they are."""
    lines = int(given.get("lines", _DEFAULT_LINES))
    most = ctx.call.output.inline_limit_bytes
    log = await ctx.storages.log(unquoted(given["runId"]), lines=lines if lines > 0 else _ALL_LINES, max_bytes=most)
    return texts({"log": log.text}, log.text)


GET_ACTOR_RUN_LOG = reading_tool(
    "get-actor-run-log",
    "Get Actor run log",
    Category.RUNS,
    does=DESCRIPTION,
    arguments=arguments(
        {
            "runId": text("Id of the run."),
            "lines": number("Lines from the end of the log; 0 for all.", default=_DEFAULT_LINES, maximum=50),
        },
        required=("runId",),
    ),
    answer=answer({"log": text()}, required=("log",)),
    handler=get_actor_run_log,
)
