"""`search-actors-internal`: a silent search, in few words, for the model alone."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered
from outlast.workflows.tools.core.actor_schema import cut
from outlast.workflows.tools.core.actors import (
    SearchActorsArguments,
    after_search,
    describe_search,
    find_actors,
    next_offset,
    search_definition,
)
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.openai.widgets import silent_meta

_MAX_DESCRIPTION_CHARS = 160

DESCRIPTION = """
Look for an Actor in Apify Store without showing anything to the user: names and one line each.
Use it to find the Actor for a task; use search-actors when the user wants to see the results.
"""


class LeanActor(Answer):
    """An Actor in one line."""

    name: str
    title: str
    description: str


class LeanSearchReport(Answer):
    """Actors that were found."""

    actors: list[LeanActor]
    total: int
    next_offset: int | None = None


async def search_actors_internal(ctx: HandlerContext, arguments: SearchActorsArguments) -> ToolResult:
    """Return names and one line each."""
    page = await find_actors(ctx, arguments)
    actors = [
        LeanActor(name=card.full_name, title=card.title, description=cut(card.description, _MAX_DESCRIPTION_CHARS))
        for card in page.actors
    ]
    lines = [f"- {actor.name}: {actor.description or actor.title}" for actor in actors]
    next_step = after_search(ctx, page, "fetch-actor-details-internal")
    report = LeanSearchReport(actors=actors, total=page.total, next_offset=next_offset(page))
    return answered(report, describe_search(page, arguments.keywords), *lines, next_step)


SEARCH_ACTORS_INTERNAL = (
    search_definition("search-actors-internal", search_actors_internal, DESCRIPTION)
    .category(Category.UI)
    .output(LeanSearchReport)
    .meta(**silent_meta())
    .build()
)
