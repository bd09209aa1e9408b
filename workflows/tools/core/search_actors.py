"""Search of Apify Store, which all modes share."""

from typing import Any

from pydantic import Field

from outlast.activities.actors.contracts import ActorCard, ActorSearchPage
from outlast.activities.bounds import Offset
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.core.actor_details import short_card
from outlast.workflows.tools.core.lists import ListPage, position
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Handler, ToolBuilder, limited_tool, reads

DEFAULT_LIMIT = 5


class SearchActorsArguments(Arguments):
    """The query."""

    keywords: str = Field(
        default="",
        max_length=500,
        description=(
            "A platform and what is wanted of it, in one to three words: `Instagram posts`, `Google Maps`, `crawler`. "
            "Without keywords the most popular Actors come first."
        ),
    )
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=100, description="Actors to return at most.")
    offset: Offset = Field(default=0, description="Actors to skip, to go on from an earlier search.")
    category: Id | None = Field(default=None, description="Only this Store category, for example `TRAVEL`.")


class SearchReport(ListPage):
    """Actors that were found."""

    keywords: str
    actors: list[ActorCard]
    summary: str
    next_step: str


def search_definition(name: str, handler: Handler, description: str) -> ToolBuilder:
    """Begin the definition of a search, which all modes share."""
    hints = reads("Search Actors", open_world=True)
    return limited_tool(name, Category.ACTORS, hints, description, handler, SearchActorsArguments, SearchReport)


async def find_actors(ctx: HandlerContext, arguments: SearchActorsArguments) -> ActorSearchPage:
    """Read a page of Actors. Raises `ToolError`."""
    given: dict[str, Any] = arguments.model_dump()
    given["keywords"] = arguments.keywords.strip()
    return await ctx.actors.search(**given)


def search_report(
    page: ActorSearchPage, arguments: SearchActorsArguments, *, summary: str, next_step: str
) -> SearchReport:
    """Return the structured answer."""
    return SearchReport(
        keywords=arguments.keywords,
        actors=[short_card(card) for card in page.actors],
        summary=summary,
        next_step=next_step,
        **position(page.actors, page.total, page.offset),
    )


def next_offset(page: ActorSearchPage) -> int | None:
    """Return the offset of the next page; None on the last one."""
    return position(page.actors, page.total, page.offset)["next_offset"]


def describe_search(page: ActorSearchPage, keywords: str) -> str:
    """Return a sentence about the number of found Actors."""
    about = f" for “{keywords}”" if keywords.strip() else ""
    if not page.actors:
        beyond = f" at offset {page.offset}; there are {page.total}" if page.total else ""
        return f"No Actors found{about}{beyond}."
    return f"Actors {page.offset + 1} to {page.offset + len(page.actors)} of {page.total}{about}."


def after_search(ctx: HandlerContext, page: ActorSearchPage, details_tool: str) -> str:
    """Return the next step, which names only tools that the caller may call."""
    if not page.actors:
        return "Try fewer or more general words: the name of the site, or what is to be done."
    steps: list[str] = []
    if ctx.offers(details_tool):
        steps.append(f"Call {details_tool} with the `user/name` of an Actor to see its input.")
    if ctx.offers("call-actor"):
        steps.append("Run one with call-actor.")
    elif ctx.offers("add-actor"):
        steps.append("Add one as a tool with add-actor.")
    following = next_offset(page)
    if following is not None:
        steps.append(f"More: search again with offset {following}.")
    return " ".join(steps) or "These are all Actors found."
