"""`fetch-actor-details` in the UI mode: a widget shows the Actor, the model gets a summary."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import answered, hint
from outlast.workflows.tools.core import actors
from outlast.workflows.tools.openai.widgets import details_widget_meta

DESCRIPTION = """
Show the user an Actor in a widget: what it does, its input, price and statistics.
Use it when the user wants to see an Actor. For its input schema without a widget, use fetch-actor-details-internal.
"""

_SECTIONS = actors.DetailSections(readme=False, outputSchema=False)  # pyright: ignore[reportCallIssue]  # by alias


async def fetch_actor_details(ctx: HandlerContext, arguments: actors.ActorArguments) -> ToolResult:
    """Return the Actor for the widget, and a summary as text."""
    details = await actors.look_up_actor(ctx, arguments.actor, _SECTIONS)
    card = details.card
    summary = f"{card.title} ({card.full_name}) is shown in the widget; {actors.stats_in_words(card.stats)}."
    look_up = hint(ctx, "fetch-actor-details-internal", "For its input schema call fetch-actor-details-internal. ")
    next_step = f"{look_up or ''}{actors.after_details(ctx, details)}"
    report = actors.details_report(details, _SECTIONS, summary=summary, next_step=next_step)
    answer = answered(report, summary, *actors.warnings_of(card), next_step)
    return answer.model_copy(update={"meta": details_widget_meta()})


FETCH_ACTOR_DETAILS = (
    actors.details_definition("fetch-actor-details", fetch_actor_details, DESCRIPTION)
    .meta(**details_widget_meta())
    .build()
)
