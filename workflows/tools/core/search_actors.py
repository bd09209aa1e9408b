"""Searching Apify Store: the part that all modes share."""

from pydantic import Field

from outlast.activities.actors.contracts import ActorCard, ActorSearchPage
from outlast.activities.bounds import Offset
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, Answer
from outlast.workflows.tools.core.actor_details import short_card
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Handler, ToolAnnotations, ToolBuilder, tool

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


class SearchReport(Answer):
    """Actors that were found."""

    keywords: str
    actors: list[ActorCard]
    count: int = Field(description="Actors in this answer.")
    total: int = Field(description="Actors that fit, on all pages.")
    offset: int
    next_offset: int | None = Field(default=None, description="Where to go on; absent on the last page.")
    summary: str
    next_step: str


def search_definition(name: str, handler: Handler, description: str) -> ToolBuilder:
    """The part of the tool's definition that all modes share."""
    return (
        tool(name)
        .category(Category.ACTORS)
        .describe(description)
        .annotate(ToolAnnotations(title="Search Actors", read_only=True, idempotent=True))
        .args(SearchActorsArguments)
        .server(handler)
        .output_threshold(MAX_ANSWER_BYTES)
    )


async def find_actors(ctx: ToolContext, arguments: SearchActorsArguments) -> ActorSearchPage:
    """The page of Actors that `arguments` ask for. Raises `ToolError`."""
    return await ctx.actors.search(
        keywords=arguments.keywords.strip(),
        category=arguments.category,
        offset=arguments.offset,
        limit=arguments.limit,
    )


def search_report(
    page: ActorSearchPage, arguments: SearchActorsArguments, *, summary: str, next_step: str
) -> SearchReport:
    """The answer in its structured form."""
    return SearchReport(
        keywords=arguments.keywords,
        actors=[short_card(card) for card in page.actors],
        count=len(page.actors),
        total=page.total,
        offset=page.offset,
        next_offset=next_offset(page),
        summary=summary,
        next_step=next_step,
    )


def next_offset(page: ActorSearchPage) -> int | None:
    """Where the next page begins; None when this was the last."""
    following = page.offset + len(page.actors)
    return following if page.actors and following < page.total else None


def describe_search(page: ActorSearchPage, keywords: str) -> str:
    """How many Actors were found."""
    about = f" for “{keywords}”" if keywords.strip() else ""
    if not page.actors:
        beyond = f" at offset {page.offset}; there are {page.total}" if page.total else ""
        return f"No Actors found{about}{beyond}."
    return f"Actors {page.offset + 1} to {page.offset + len(page.actors)} of {page.total}{about}."


def after_search(ctx: ToolContext, page: ActorSearchPage, details_tool: str) -> str:
    """The next step; names only tools that the caller may call."""
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
