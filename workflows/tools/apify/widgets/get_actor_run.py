"""`get-actor-run-widget`: a run, shown to the user while it goes on."""

from typing import Any

from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import begun
from outlast.workflows.tools.apify.runs.get_actor_run import RUN_ID, not_read
from outlast.workflows.tools.apify.runs.reading import answer_about
from outlast.workflows.tools.apify.schemas.build import arguments
from outlast.workflows.tools.apify.schemas.runs import RUN
from outlast.workflows.tools.apify.widgets.pages import RUN_PAGE
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

DESCRIPTION = """
Show the user an Actor run in a widget, which follows it to its end by itself. The answer comes at once. For a user who
wants to watch a run ("how far is it? show me"). For the run's state or its storages use get-actor-run: it shows
nothing, and can wait.
"""
FOLLOWS_ITSELF = "The widget follows the run to its end and shows it to the user: do not ask for its state again."
"""What to do next, in the answers of tools that show a run."""


@failing_as(not_read)
async def get_actor_run_widget(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """How the run stands now."""
    run = await ctx.platform.run(unquoted(given["runId"]))
    answer = await answer_about(ctx, run, actor_name=None, patient=False, next_step=FOLLOWS_ITSELF)
    report = answer.structured or {}
    note = TextContent(text=f"Run {report['runId']} is {report['status']}; the user sees it in the widget.")
    answer = answer.model_copy(update={"content": (answer.content[0], note)})
    return RUN_PAGE.showing(answer, f"The run of {report.get('actorName') or report['actorId']}, as it goes on")


GET_ACTOR_RUN_WIDGET = (
    begun(
        "get-actor-run-widget",
        Category.UI,
        ToolAnnotations(title="Get Actor run (widget)", read_only=True, idempotent=True, open_world=False),
        does=DESCRIPTION,
        arguments=arguments({"runId": RUN_ID}, required=("runId",)),
        answer=RUN,
    )
    .server(get_actor_run_widget)
    .twin_of("get-actor-run")
    .meta(**RUN_PAGE.meta())
    .build()
)
