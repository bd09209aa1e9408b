"""`search-actors` in the UI mode: a widget shows the cards, the model gets their names."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import answered
from outlast.workflows.tools.core.actors import (
    SearchActorsArguments,
    after_search,
    describe_search,
    find_actors,
    search_definition,
    search_report,
)
from outlast.workflows.tools.openai.widgets import search_widget_meta

DESCRIPTION = """
Search Apify Store for Actors and show the user the results as cards in a widget.
Use it when the user wants to see or choose Actors. To look for an Actor yourself, use search-actors-internal.
"""


async def search_actors(ctx: HandlerContext, arguments: SearchActorsArguments) -> ToolResult:
    """Return the cards for the widget, and their names as text."""
    page = await find_actors(ctx, arguments)
    summary = describe_search(page, arguments.keywords)
    names = "\n".join(f"- {card.full_name}: {card.title}" for card in page.actors)
    shown = "The widget shows them to the user: do not repeat them. " if page.actors else ""
    next_step = f"{shown}{after_search(ctx, page, 'fetch-actor-details-internal')}"
    report = search_report(page, arguments, summary=summary, next_step=next_step)
    return answered(report, summary, names, next_step).model_copy(update={"meta": search_widget_meta()})


SEARCH_ACTORS = search_definition("search-actors", search_actors, DESCRIPTION).meta(**search_widget_meta()).build()
