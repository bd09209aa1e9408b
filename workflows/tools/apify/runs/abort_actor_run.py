"""`abort-actor-run`: stop a run, and what it costs."""

from typing import Any

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.answers.run import RunStorages, next_step_of, run_answer, summary_of
from outlast.workflows.tools.apify.definition import begun
from outlast.workflows.tools.apify.schemas.build import arguments, flag, required_text
from outlast.workflows.tools.apify.schemas.runs import RUN
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

DESCRIPTION = """
Stop an Actor run that is starting or running, for good. What it has written so far stays. A run that has ended stays
as it is. With gracefully it is told first, and has 30 seconds to finish what it is doing.
"""


@failing_as(lambda _given, _envelope: None)
async def abort_actor_run(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Abort, and see it through: the answer comes when the platform says that the run has ended."""
    ended = await ctx.runs.abort(unquoted(given["runId"]), gracefully=bool(given.get("gracefully", False)))
    run = await ctx.platform.run(ended.run_id)
    run = {name: value for name, value in run.items() if name != "exitCode"}
    storages = RunStorages.named_in(run).of_default_alone()
    return run_answer(
        run,
        storages,
        actor_name=None,
        summary=summary_of(run, storages),
        next_step=next_step_of(run, storages, ctx.offers),
    )


ABORT_ACTOR_RUN = (
    begun(
        "abort-actor-run",
        Category.RUNS,
        ToolAnnotations(title="Abort Actor run", destructive=True, idempotent=True, open_world=False),
        does=DESCRIPTION,
        arguments=arguments(
            {
                "runId": required_text("Id of the run."),
                "gracefully": flag("Whether the Actor is told first, and may finish what it is doing."),
            },
            required=("runId",),
        ),
        answer=RUN,
    )
    .server(abort_actor_run)
    .build()
)
