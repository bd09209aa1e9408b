"""`get-actor-run`: the state of a run, now or after waiting for its end."""

from typing import Any

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.failures import failing_as, is_missing, platform_message
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.runs.reading import answer_about
from outlast.workflows.tools.apify.schemas.build import arguments, required_text
from outlast.workflows.tools.apify.schemas.runs import RUN, WAIT_ARGUMENT, WAIT_DEFAULT_SECONDS
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
Get how an Actor run stands: its status, what it last said, how much it has written, and what to call next. With
waitSecs the answer comes when the run has ended, or after that time. The items themselves are read with
get-dataset-items.
"""


RUN_ID = required_text("Id of the run.")


def no_run(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """The text for a run that does not exist."""
    return f"Run with ID '{unquoted(given['runId'])}' not found." if is_missing(envelope) else None


def not_read(given: dict[str, Any], envelope: ErrorEnvelope) -> str:
    """The text of a look at a run that failed."""
    failed = f"Failed to get Actor run '{unquoted(given['runId'])}': {platform_message(envelope)}"
    return no_run(given, envelope) or failed


@failing_as(not_read)
async def get_actor_run(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Wait as asked, and describe the run."""
    wait = int(given.get("waitSecs", WAIT_DEFAULT_SECONDS))
    run = await ctx.platform.run(unquoted(given["runId"]), wait_seconds=wait)
    return await answer_about(ctx, run, actor_name=None, patient=wait > 0)


GET_ACTOR_RUN = reading_tool(
    "get-actor-run",
    "Get Actor run",
    Category.RUNS,
    does=DESCRIPTION,
    arguments=arguments({"runId": RUN_ID, "waitSecs": WAIT_ARGUMENT}, required=("runId",)),
    answer=RUN,
    handler=get_actor_run,
)
