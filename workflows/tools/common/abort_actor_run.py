"""`abort-actor-run`: stop a run, so that it costs nothing more."""

from pydantic import Field

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import ROW_READERS, answered, describe_run_status, first_offered
from outlast.workflows.tools.core.run_report import RunArguments, RunReport, build_run_report
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, limited_tool


class AbortArguments(RunArguments):
    """A run, and the way to abort it."""

    gracefully: bool = Field(default=False, description="Let the Actor finish what it is doing, up to 30 seconds.")


async def abort_actor_run(ctx: HandlerContext, arguments: AbortArguments) -> ToolResult:
    """Abort the run, and answer when the platform reports its end."""
    run = await ctx.runs.abort(arguments.run_id, gracefully=arguments.gracefully)
    summary = describe_run_status(run)
    reader = first_offered(ctx.offers, *ROW_READERS)
    next_step = f"Rows it produced before are in dataset {run.dataset_id}" + (f": call {reader}." if reader else ".")
    report = build_run_report(run, summary=summary, next_step=next_step)
    return answered(report, f"{summary} {next_step}")


ABORT_ACTOR_RUN = limited_tool(
    "abort-actor-run",
    Category.RUNS,
    ToolAnnotations(title="Abort Actor run", destructive=True, idempotent=True),
    "Abort an open Actor run. It answers when the run has ended.",
    abort_actor_run,
    AbortArguments,
    RunReport,
).build()
