"""`get-actor-run` in the UI mode."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.core.run_report import RunArguments, get_actor_run_definition, run_with_rows
from outlast.workflows.tools.openai.present_run import present_run_state
from outlast.workflows.tools.openai.widgets import run_state_widget_meta


async def get_actor_run(ctx: ToolContext, arguments: RunArguments) -> ToolResult:
    """Look the run up for the widget."""
    run, page = await run_with_rows(ctx, arguments.run_id)
    return present_run_state(run, page)


GET_ACTOR_RUN = (
    get_actor_run_definition(get_actor_run, "Get the state of an Actor run and show it in the run widget.")
    .meta(**run_state_widget_meta())
    .build()
)
