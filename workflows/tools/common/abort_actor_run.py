"""`abort-actor-run`: stop a run, so that it costs nothing more."""

from pydantic import Field

from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, ROW_READERS, describe_run_status, first_offered
from outlast.workflows.tools.core.run_report import RunArguments, RunReport, build_run_report
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class AbortArguments(RunArguments):
    """Which run, and how."""

    gracefully: bool = Field(default=False, description="Let the Actor finish what it is doing, up to 30 seconds.")


async def abort_actor_run(ctx: ToolContext, arguments: AbortArguments) -> ToolResult:
    """Abort, and answer once the platform says that the run has ended."""
    run = await ctx.runs.abort(arguments.run_id, gracefully=arguments.gracefully)
    summary = describe_run_status(run)
    reader = first_offered(ctx.offers, *ROW_READERS)
    next_step = f"Rows it produced before are in dataset {run.dataset_id}" + (f": call {reader}." if reader else ".")
    report = build_run_report(run, summary=summary, next_step=next_step)
    return ToolResult(content=(TextContent(text=f"{summary} {next_step}"),), structured=report.structured())


ABORT_ACTOR_RUN = (
    tool("abort-actor-run")
    .category(Category.RUNS)
    .describe("Abort an Actor run that is still going. It answers when the run has really ended.")
    .annotate(ToolAnnotations(title="Abort Actor run", destructive=True, idempotent=True))
    .args(AbortArguments)
    .output(RunReport)
    .server(abort_actor_run)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
