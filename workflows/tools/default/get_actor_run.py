"""`get-actor-run` in the default mode."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.core.run_report import RunArguments, get_actor_run_definition, run_with_rows
from outlast.workflows.tools.default.present_run import present_run_state


async def get_actor_run(ctx: ToolContext, arguments: RunArguments) -> ToolResult:
    """Look the run up and say what to do next."""
    run, page = await run_with_rows(ctx, arguments.run_id)
    return present_run_state(run, ctx.offers, page)


GET_ACTOR_RUN = get_actor_run_definition(
    get_actor_run, "Get the state of an Actor run: status, status message, cost so far, and where its results are."
).build()
