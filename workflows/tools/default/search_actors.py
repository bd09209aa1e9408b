"""`search-actors` in the default mode."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import answered
from outlast.workflows.tools.core import actors

DESCRIPTION = """
Search Apify Store for Actors: serverless programs that collect data from the web or automate something.
Answers with a card for each: what it does, its price, its usage, and its success rate.
Search with short keywords before you choose an Actor; use offset for more.
"""


async def search_actors(ctx: HandlerContext, arguments: actors.SearchActorsArguments) -> ToolResult:
    """Return the cards, as text and structured."""
    page = await actors.find_actors(ctx, arguments)
    summary = actors.describe_search(page, arguments.keywords)
    next_step = actors.after_search(ctx, page, "fetch-actor-details")
    report = actors.search_report(page, arguments, summary=summary, next_step=next_step)
    return answered(report, summary, *(f"\n{actors.card_as_text(card)}" for card in page.actors), f"\n{next_step}")


SEARCH_ACTORS = actors.search_definition("search-actors", search_actors, DESCRIPTION).build()
