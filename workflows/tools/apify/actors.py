"""`search-actors`: find Actors in Apify Store; `fetch-actor-details`: description, input and price of one."""

import asyncio
from typing import Any, cast

from pydantic import JsonValue
from temporalio import workflow

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.activities.storages.datasets import simplified_schema
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.apify import schemas
from outlast.workflows.tools.apify.answers import compact, failing_as, first_that_fit, is_missing, texts
from outlast.workflows.tools.apify.call_actor import CANNOT_RUN, SOME_CANNOT_RUN, can_run, can_run_all, shown_schema
from outlast.workflows.tools.apify.cards import (
    CARD,
    CARD_MEMBERS,
    FREE_TIER,
    USER_TIER,
    card_as_markdown,
    card_of,
    current_price,
    price_for,
    price_list,
    tier_of,
)
from outlast.workflows.tools.core.actor_mcp import list_tools_of
from outlast.workflows.tools.core.actor_names import normalised_actor
from outlast.workflows.tools.core.lists import entries_of
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

SEARCH_DESCRIPTION = """
Search Apify Store for Actors: ready programs that scrape a site, crawl, convert or automate. Search with one to three
words: the name of the site and the wanted data (`Instagram posts`, `Google Maps`), no sentences. Without keywords, the
most used Actors are returned. The answer has the name, price and usage of each Actor.
"""
NOTHING_FITS = "Nothing fits: search with fewer or more general words, such as the name of the site alone."
_DEFAULT_LIMIT = 5
SEARCH_ARGUMENTS: JsonObject = schemas.arguments(
    {
        "keywords": schemas.text("One to three words; none for the most used Actors.", default=""),
        "limit": schemas.integer("Maximum number of Actors.", default=_DEFAULT_LIMIT, minimum=1, maximum=10),
        "offset": schemas.integer("Number of Actors to skip.", default=0, minimum=0),
    }
)
CARDS_REPORT: JsonObject = {
    "actors": schemas.array(CARD),
    "query": schemas.text(),
    "count": schemas.number("Actors in this answer."),
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


SEARCH_ACTORS = schemas.reading_tool(
    "search-actors",
    "Search Actors",
    Category.ACTORS,
    does=SEARCH_DESCRIPTION,
    arguments=SEARCH_ARGUMENTS,
    answer=schemas.answer(
        {**CARDS_REPORT, "instructions": schemas.text("Next step.")}, required=("actors", "query", "count")
    ),
    handler=search_actors,
)


DETAILS_DESCRIPTION = """
Get the details of an Actor before you run it: its input schema, documentation, price and usage. `output` selects
parts. Default: all except outputSchema and mcpTools.
"""
ACTOR_ARGUMENT = schemas.required_text("The Actor: `user/name`, or its id.")
_OF_CARD = ("description", "stats", "pricing", "rating", "metadata")
_BY_DEFAULT = (*_OF_CARD, "inputSchema", "readme")
_FIELDS_OF: dict[str, tuple[str, ...]] = {
    "description": ("description",),
    "stats": ("stats",),
    "pricing": ("pricing",),
    "rating": ("rating",),
    "metadata": ("developer", "categories", "modifiedAt", "isDeprecated"),
}
_ALWAYS: JsonObject = {
    "developer": {"username": "", "isOfficialApify": False, "url": ""},
    "description": "",
    "categories": [],
    "isDeprecated": False,
}
"""Fields that every card has, empty if they are not selected."""
MAX_README_CHARS = 100_000


def no_actor(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """Return the text for an Actor that does not exist."""
    if not is_missing(envelope):
        return None
    return f"Actor information for '{unquoted(given['actor'])}' was not found."


@failing_as(no_actor, search="search-actors")
async def fetch_actor_details(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the selected parts, with a text for each."""
    actor = normalised_actor(unquoted(given["actor"]))
    wanted = _wanted(given.get("output"))
    limit = ctx.call.output.inline_limit_bytes
    readme_chars = min(MAX_README_CHARS, limit)
    details = await ctx.actors.details(actor, max_readme_chars=readme_chars, infer_output="outputSchema" in wanted)
    structured: JsonObject = {}
    blocks: list[str] = []
    if wanted.intersection(_OF_CARD):
        actor_object = await ctx.platform.part("acts", details.card.full_name, members=CARD_MEMBERS)
        price = current_price(actor_object, workflow.now()) if "pricing" in wanted else {}
        tier = await tier_of(ctx) if "pricing" in wanted else FREE_TIER
        structured["actorInfo"] = card = _reduced(card_of(actor_object, price_list(price, tier)), wanted)
        blocks.append(f"# Actor information\n{card_as_markdown(card)}")
    url = f"https://apify.com/{details.card.full_name}"
    if "readme" in wanted:
        structured["readme"] = details.readme or ""
        blocks.append(f"# README\n{details.readme or ''}")
    if "inputSchema" in wanted:
        whole = shown_schema(details.input_schema)
        structured["inputSchema"] = schema = simplified_schema(whole, max_bytes=limit)
        cut = "" if schema == whole else "\nThe whole of it would make the answer too large: the deepest is left out."
        blocks.append(f"# [Input schema]({url}/input)\n```json\n{compact(schema)}\n```{cut}")
    if "outputSchema" in wanted:
        structured["outputSchema"] = types = type_object(details.output.item_schema) if details.output else {}
        schema_text = (
            f"```typescript\ntype ActorOutput = {in_words(types)}\n```"
            if types
            else "The schema of its items is unknown."
        )
        blocks.append(f"# Output Schema\n{schema_text}")
    if "mcpTools" in wanted:
        structured["mcpTools"] = tools_text = await _tools_of(
            ctx, details.card.full_name, is_server=details.mcp_path is not None
        )
        blocks.append(tools_text)
    if not can_run(ctx, details.card.full_name):
        blocks.append(CANNOT_RUN)
    return texts(structured, *blocks)


def _wanted(output: Any) -> set[str]:
    """Return the selected parts, or the default ones."""
    if not output:
        return set(_BY_DEFAULT)
    return {part for part, is_wanted in output.items() if is_wanted}


def _reduced(card: JsonObject, wanted: set[str]) -> JsonObject:
    """Return the card with the selected parts. It always has a price: that of a free Actor if none is selected."""
    kept = {field for part in wanted for field in _FIELDS_OF.get(part, ())}
    kept |= {"title", "url", "id", "fullName", "pictureUrl", "pricing"}
    return {**_ALWAYS, **{name: value for name, value in card.items() if name in kept}}


async def _tools_of(ctx: HandlerContext, actor: str, *, is_server: bool) -> str:
    by_call_actor = ctx.offers("call-actor")
    if not is_server:
        run = " Run it with call-actor." if by_call_actor else ""
        return f"{actor} is not an MCP server, so it has no tools.{run}"
    tools, notes = await list_tools_of(ctx, actor)
    lines = [f"- `{tool.name}`: {tool.description}\n  Input: {compact(tool.input_schema)}" for tool in tools]
    shown = [str(line) for line in first_that_fit(lines, ctx.call.output.inline_limit_bytes)]
    left = len(lines) - len(shown)
    call = [f"Call one with call-actor, actor `{actor}:tool`."] if by_call_actor else []
    more = [f"{left} more would make the answer too large."] if left else []
    return "\n".join(["# Available MCP Tools", *call, *shown, *more, *notes])


FETCH_ACTOR_DETAILS = schemas.reading_tool(
    "fetch-actor-details",
    "Fetch Actor details",
    Category.ACTORS,
    does=DETAILS_DESCRIPTION,
    arguments=schemas.arguments(
        {
            "actor": ACTOR_ARGUMENT,
            "output": schemas.inner(
                {
                    "description": schemas.flag("What it does."),
                    "stats": schemas.flag("How much it is used."),
                    "pricing": schemas.flag("What it costs."),
                    "rating": schemas.flag("How users rate it."),
                    "metadata": schemas.flag("Developer, categories, when it was changed, whether it is deprecated."),
                    "inputSchema": schemas.flag("JSON Schema of its input."),
                    "readme": schemas.flag("Its documentation."),
                    "outputSchema": schemas.flag("Schema of its items."),
                    "mcpTools": schemas.flag("For an Actor that is an MCP server: its tools."),
                },
                "The parts to return.",
            ),
        },
        required=("actor",),
    ),
    answer=schemas.answer(
        {
            "actorInfo": CARD,
            "readme": schemas.text("Its documentation."),
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"},
            "mcpTools": schemas.text("The tools of an MCP server, as text."),
        }
    ),
    handler=fetch_actor_details,
)
_NUMBERS = frozenset({"integer", "number"})
_ANY = "unknown"


def type_object(schema: JsonObject) -> JsonObject:
    """Return the fields of rows by their JSON Schema, with the names of their types."""
    found = _typed(schema)
    return found if isinstance(found, dict) else {}


def in_words(types: JsonValue) -> str:
    """Return a type object as TypeScript: `{ url: string, tags: string[] }`."""
    if isinstance(types, dict):
        return f"{{ {', '.join(f'{name}: {in_words(each)}' for name, each in types.items())} }}"
    if isinstance(types, list):
        return f"{in_words(types[0] if types else _ANY)}[]"
    return str(types)


def _typed(schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return _ANY
    options = schema.get("anyOf")
    if isinstance(options, list):
        # An object or a list is more specific than the other types that a field may have.
        typed = [_typed(option) for option in options]
        nested = [each for each in typed if not isinstance(each, str)]
        return nested[0] if nested else _union([str(each) for each in typed])
    properties = schema.get("properties")
    if isinstance(properties, dict):
        return {name: _typed(each) for name, each in properties.items()}
    if schema.get("type") == "array":
        return [_typed(schema.get("items"))]
    kinds = schema.get("type")
    named = cast(list[JsonValue], kinds) if isinstance(kinds, list) else [kinds]
    return _union(["number" if kind in _NUMBERS else str(kind) for kind in named if kind is not None])


def _union(kinds: list[str]) -> str:
    return " | ".join(dict.fromkeys(kinds)) or _ANY
