"""`get-actor-run` in the default mode."""

from workflows.context import ToolContext
from workflows.models import ToolResult
from workflows.tools.core.look_up_run import RunArguments, get_actor_run_definition
from workflows.tools.default.present_run import present_run_state


async def get_actor_run(ctx: ToolContext, arguments: RunArguments) -> ToolResult:
    """Look the run up and say what to do next."""
    return present_run_state(await ctx.apify.look_up(arguments.run_id), ctx.offers)


GET_ACTOR_RUN = get_actor_run_definition(
    get_actor_run, "Get the state of an Actor run: status, status message, cost so far, and where its results are."
).build()
