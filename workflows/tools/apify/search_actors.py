"""`search-actors`: find Actors in Apify Store."""

import asyncio
from typing import Any

from temporalio import workflow

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.apify.actor_tool import SOME_CANNOT_RUN, can_run_all
from outlast.workflows.tools.apify.answers import failing_as, texts
from outlast.workflows.tools.apify.cards import CARD, USER_TIER, card_as_markdown, card_of
from outlast.workflows.tools.apify.pricing import current_price, price_for, tier_of
from outlast.workflows.tools.apify.schemas import answer, arguments, array, integer, number, reading_tool, text
from outlast.workflows.tools.core.lists import entries_of
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
Search Apify Store for Actors: ready programs that scrape a site, crawl, convert or automate. Search with one to three
words: the name of the site and what is wanted of it (`Instagram posts`, `Google Maps`), no sentences. Without
keywords the most used ones come. The answer has each Actor's name, price and use.
"""
NOTHING_FITS = "Nothing fits: search with fewer or more general words, such as the name of the site alone."
_DEFAULT_LIMIT = 5
SEARCH_ARGUMENTS: JsonObject = arguments(
    {
        "keywords": text("One to three words; none for the most used Actors.", default=""),
        "limit": integer("Actors to find at most.", default=_DEFAULT_LIMIT, minimum=1, maximum=10),
        "offset": integer("Actors to skip.", default=0, minimum=0),
    }
)
CARDS_REPORT: JsonObject = {
    "actors": array(CARD),
    "query": text(),
    "count": number("Actors in this answer."),
    "userTier": USER_TIER,
}


@failing_as(lambda _given, _envelope: None)
async def search_actors(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return a page of cards. An empty one is not an error."""
    keywords = keywords_of(given)
    found, tier = await asyncio.gather(store_entries(ctx, given), tier_of(ctx))
    cards = priced_cards(found, tier)
    hint = _what_next(ctx, cards) if cards else NOTHING_FITS
    structured: JsonObject = {**cards_report(keywords, cards, tier), "instructions": hint}
    head = f"# Actors\nFound for “{keywords}”: {len(cards)}" if keywords else f"# Actors\nMost used: {len(cards)}"
    return texts(structured, "\n\n".join([head, *(card_as_markdown(card) for card in cards), hint]))


def _what_next(ctx: HandlerContext, cards: list[JsonObject]) -> str:
    details = "For an Actor's input and documentation, call fetch-actor-details with its full name."
    hints = [details] if ctx.offers("fetch-actor-details") else ["An Actor is called by its full name."]
    return " ".join([*hints, *without_run(ctx, cards)])


def without_run(ctx: HandlerContext, cards: list[JsonObject]) -> tuple[str, ...]:
    """Return a sentence if the connection cannot run each of the Actors."""
    return () if can_run_all(ctx, (str(card["fullName"]) for card in cards)) else (SOME_CANNOT_RUN,)


def keywords_of(given: dict[str, Any]) -> str:
    """Return the query; empty for the most used Actors."""
    return str(given.get("keywords", "")).strip()


async def store_entries(ctx: HandlerContext, given: dict[str, Any]) -> list[JsonObject]:
    """Read a page of Apify Store (Apify API v2, `GET /v2/store`)."""
    page = await ctx.platform.get(
        "store",
        search=keywords_of(given) or None,
        limit=int(given.get("limit", _DEFAULT_LIMIT)),
        offset=int(given.get("offset", 0)),
        includeInputSchema=True,
        allowsAgenticUsers=True if ctx.call.pays_with is not None else None,
    )
    return entries_of(page)


def priced_cards(entries: list[JsonObject], tier: str) -> list[JsonObject]:
    """Return the cards of a page with the current prices for a user of this tier."""
    return [card_of(entry, price_for(current_price(entry, workflow.now()), tier)) for entry in entries]


def cards_report(keywords: str, cards: list[JsonObject], tier: str) -> JsonObject:
    """Return the structured answer with the found Actors."""
    return {"actors": [*cards], "query": keywords, "count": len(cards), **({"userTier": tier} if cards else {})}


SEARCH_ACTORS = reading_tool(
    "search-actors",
    "Search Actors",
    Category.ACTORS,
    does=DESCRIPTION,
    arguments=SEARCH_ARGUMENTS,
    answer=answer({**CARDS_REPORT, "instructions": text("What to do next.")}, required=("actors", "query", "count")),
    handler=search_actors,
)
