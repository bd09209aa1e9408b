"""`fetch-actor-details-widget`: what an Actor is, shown to the user."""

from typing import Any

from temporalio import workflow

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.actors.cards import CARD_MEMBERS, card_as_markdown, card_of
from outlast.workflows.tools.apify.actors.fetch_actor_details import ACTOR_ARGUMENT, MAX_README_CHARS, no_actor
from outlast.workflows.tools.apify.actors.pricing import current_price, price_for, tier_of
from outlast.workflows.tools.apify.actors.runnable import CANNOT_RUN, can_run
from outlast.workflows.tools.apify.answers.blocks import texts
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import begun
from outlast.workflows.tools.apify.schemas.build import answer, arguments, text
from outlast.workflows.tools.apify.widgets.pages import ACTORS_PAGE
from outlast.workflows.tools.apify.widgets.shown_actors import shown_actor
from outlast.workflows.tools.core.actor_names import normalised_actor
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

DESCRIPTION = """
Show the user an Actor in a widget: what it does, its price, its use, its documentation. For a user who wants to see
it ("show me apify/web-scraper"). For what you need to run it, its input schema above all, use fetch-actor-details: it
shows nothing.
"""


@failing_as(no_actor, search="search-actors")
async def fetch_actor_details_widget(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The Actor for the page; the model gets its name and address."""
    actor = normalised_actor(unquoted(given["actor"]))
    readme_chars = min(MAX_README_CHARS, ctx.call.output.inline_limit_bytes)
    details = await ctx.actors.details(actor, max_readme_chars=readme_chars, infer_output=False)
    found = await ctx.platform.part("acts", details.card.full_name, members=CARD_MEMBERS)
    card = card_of(found, price_for(current_price(found, workflow.now()), await tier_of(ctx)))
    shown = shown_actor(found, card)
    structured: JsonObject = {
        "actorDetails": {"actorInfo": shown, "actorCard": card_as_markdown(card), "readme": details.readme or ""}
    }
    words = f"# Actor information\n{card['fullName']} ({card['url']}) is shown to the user in the widget."
    what = f"{card['fullName']}: what it does, its price, its use and its documentation"
    told = (words,) if can_run(ctx, details.card.full_name) else (words, CANNOT_RUN)
    return ACTORS_PAGE.showing(texts(structured, *told), what)


FETCH_ACTOR_DETAILS_WIDGET = (
    begun(
        "fetch-actor-details-widget",
        Category.UI,
        ToolAnnotations(title="Fetch Actor details (widget)", read_only=True, idempotent=True, open_world=False),
        does=DESCRIPTION,
        arguments=arguments({"actor": ACTOR_ARGUMENT}, required=("actor",)),
        answer=answer(
            {
                "actorDetails": answer(
                    {
                        "actorInfo": {"type": "object", "description": "The Actor, as the widget shows it."},
                        "actorCard": text("The Actor in words, as Markdown."),
                        "readme": text("Its documentation, as Markdown."),
                    },
                    required=("actorInfo", "actorCard", "readme"),
                    additionalProperties=False,
                )
            },
            required=("actorDetails",),
            additionalProperties=False,
        ),
    )
    .server(fetch_actor_details_widget)
    .twin_of("fetch-actor-details")
    .meta(**ACTORS_PAGE.meta())
    .build()
)
