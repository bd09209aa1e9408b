"""`search-actors-widget`: find Actors, and show them to the user."""

import asyncio
from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.actors.pricing import tier_of
from outlast.workflows.tools.apify.actors.search_actors import (
    CARDS_REPORT,
    NOTHING_FITS,
    SEARCH_ARGUMENTS,
    cards_report,
    keywords_of,
    priced_cards,
    store_entries,
    without_run,
)
from outlast.workflows.tools.apify.answers.blocks import texts
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import begun
from outlast.workflows.tools.apify.schemas.build import answer, array
from outlast.workflows.tools.apify.widgets.pages import ACTORS_PAGE
from outlast.workflows.tools.apify.widgets.shown_actors import shown_actor
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

DESCRIPTION = """
Search Apify Store and show the user what there is, as cards in a widget. For a user who wants to see and choose
Actors ("which scrapers are there for Instagram?"). When you look for an Actor to run it yourself, use search-actors:
it finds the same and shows nothing.
"""


@failing_as(lambda _given, _envelope: None)
async def search_actors_widget(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The cards for the page. When nothing was found, a text and no page."""
    keywords = keywords_of(given)
    found, tier = await asyncio.gather(store_entries(ctx, given), tier_of(ctx))
    cards = priced_cards(found, tier)
    shown: list[JsonValue] = [shown_actor(entry, card) for entry, card in zip(found, cards, strict=True)]
    structured: JsonObject = {**cards_report(keywords, cards, tier), "widgetActors": shown}
    if not found:
        return texts(structured, f"# Actors\nFound for “{keywords}”: 0\n\n{NOTHING_FITS}")
    head = f"Found for “{keywords}”: {len(found)}" if keywords else f"Most used: {len(found)}"
    instruction = "The user sees them in the widget: do not list or repeat them."
    what = f"{len(found)} Actors of Apify Store, with price and use" + (f", for “{keywords}”" if keywords else "")
    blocks = (f"# Actors\n{head}\n\n{instruction}", *without_run(ctx, cards))
    return ACTORS_PAGE.showing(texts(structured, *blocks), what)


SEARCH_ACTORS_WIDGET = (
    begun(
        "search-actors-widget",
        Category.UI,
        ToolAnnotations(title="Search Actors (widget)", read_only=True, idempotent=True, open_world=False),
        does=DESCRIPTION,
        arguments=SEARCH_ARGUMENTS,
        answer=answer(
            {**CARDS_REPORT, "widgetActors": array({"type": "object"}, "The same Actors, as the widget shows them.")},
            required=("actors", "query", "count", "widgetActors"),
        ),
    )
    .server(search_actors_widget)
    .twin_of("search-actors")
    .meta(**ACTORS_PAGE.meta())
    .build()
)
