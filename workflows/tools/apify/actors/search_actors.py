"""`search-actors`: find Actors in Apify Store."""

from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.actors.cards import CARD, FREE_TIER, USER_TIER, card_as_markdown, card_of
from outlast.workflows.tools.apify.answers.blocks import texts
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.schemas.build import answer, arguments, array, integer, number, text
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
Search Apify Store for Actors: ready programs that scrape a site, crawl, convert or automate. Search with one to three
words: the name of the site and what is wanted of it (`Instagram posts`, `Google Maps`), no sentences. Without
keywords the most used ones come. The answer has each Actor's name, price and use.
"""
_DEFAULT_LIMIT = 5


@failing_as(lambda _given, _envelope: None)
async def search_actors(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """A page of cards. That none fits is no error."""
    keywords = str(given.get("keywords", "")).strip()
    page = await ctx.platform.get(
        "store",
        search=keywords or None,
        limit=int(given.get("limit", _DEFAULT_LIMIT)),
        offset=int(given.get("offset", 0)),
        allowsAgenticUsers=True if ctx.call.pays_with is not None else None,
    )
    items = page.get("items")
    cards = [card_of(item) for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    hint = (
        "For an Actor's input and documentation, call fetch-actor-details with its full name."
        if cards
        else "Nothing fits: search with fewer or more general words, such as the name of the site alone."
    )
    structured: JsonObject = {
        "actors": [*cards],
        "query": keywords,
        "count": len(cards),
        **({"userTier": FREE_TIER} if cards else {}),
        "instructions": hint,
    }
    head = f"# Actors\nFound for “{keywords}”: {len(cards)}" if keywords else f"# Actors\nMost used: {len(cards)}"
    return texts(structured, "\n\n".join([head, *(card_as_markdown(card) for card in cards), hint]))


SEARCH_ACTORS = reading_tool(
    "search-actors",
    "Search Actors",
    Category.ACTORS,
    does=DESCRIPTION,
    arguments=arguments(
        {
            "keywords": text("One to three words; none for the most used Actors.", default=""),
            "limit": integer("Actors to find at most.", default=_DEFAULT_LIMIT, minimum=1, maximum=10),
            "offset": integer("Actors to skip.", default=0, minimum=0),
        }
    ),
    answer=answer(
        {
            "actors": array(CARD),
            "query": text(),
            "count": number("Actors in this answer."),
            "userTier": USER_TIER,
            "instructions": text("What to do next."),
        },
        required=("actors", "query", "count"),
    ),
    handler=search_actors,
)
