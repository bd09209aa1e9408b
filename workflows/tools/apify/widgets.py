"""Tools with a widget: they return data for a page that the client shows to the user.

`_meta` links tools, answers and resources to the pages (MCP Apps `ui`, Apps SDK `openai/*`)."""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import JsonValue
from temporalio import workflow

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.runs.contracts import RunSpec, RunState
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.apify import actors
from outlast.workflows.tools.apify.answers import RunStorages, failed, failing_as, run_answer, summary_of, texts
from outlast.workflows.tools.apify.call_actor import CANNOT_RUN, RUN_ARGUMENTS, can_run, not_called, options_of
from outlast.workflows.tools.apify.cards import (
    CARD_MEMBERS,
    card_as_markdown,
    card_of,
    current_price,
    price_for,
    tier_of,
)
from outlast.workflows.tools.apify.runs import RUN_ID, answer_about, name_of_actor, not_read
from outlast.workflows.tools.apify.schemas import RUN, answer, arguments, array, begun, text
from outlast.workflows.tools.core.actor_names import normalised_actor, split_actor_tool
from outlast.workflows.tools.core.call_actor import run_spec
from outlast.workflows.tools.framework.executors import describe_run
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, Handler, ToolAnnotations, ToolBuilder, reads

FOLDER = "ui://widget/"
"""Prefix of the addresses of pages."""
PICTURE_HOSTS = (
    "https://images.apifyusercontent.com",
    "https://apify-image-uploads-prod.s3.us-east-1.amazonaws.com",
    "https://apify-image-uploads-prod.s3.amazonaws.com",
)
"""Hosts of the pictures of Actors in Apify Store, the only ones from which a page may load."""
PAGE_SUFFIX = "-widget"


@dataclass(frozen=True)
class Page:
    """A page, and the status lines during and after a call of its tool."""

    uri: str
    invoking: str
    invoked: str
    picture_hosts: tuple[str, ...] = ()

    def meta(self) -> dict[str, JsonValue]:
        """Return `_meta` for the page's resource and its tools. The page opens no connection: its host calls tools."""
        hosts: list[JsonValue] = [*self.picture_hosts]
        return {
            "openai/toolInvocation/invoking": self.invoking,
            "openai/toolInvocation/invoked": self.invoked,
            "openai/widgetCSP": {"connect_domains": [], "resource_domains": hosts},
            "ui": {
                "visibility": ["model", "app"],
                "prefersBorder": False,
                "csp": {"connectDomains": [], "resourceDomains": hosts},
                "resourceUri": self.uri,
            },
        }

    def showing(self, answer: ToolResult, what: str) -> ToolResult:
        """Return an answer that the page shows; `what` describes it. Errors have no page."""
        if answer.is_error:
            return answer
        meta: JsonObject = {**self.meta(), "openai/widgetDescription": what, **answer.meta}
        return answer.model_copy(update={"meta": meta})


def _widget(
    page: Page,
    twin: str,
    annotations: ToolAnnotations,
    does: str,
    handler: Handler,
    arguments: JsonObject,
    answer: JsonObject,
) -> ToolBuilder:
    """Begin the definition of the tool that does what `twin` does and shows it on `page`."""
    definition = begun(f"{twin}-widget", Category.UI, annotations, does=does, arguments=arguments, answer=answer)
    return definition.server(handler, calls_actor=twin == "call-actor").twin_of(twin).meta(**page.meta())


ACTORS_PAGE = Page(f"{FOLDER}search-actors.html", "Looking in Apify Store", "Results from Apify Store", PICTURE_HOSTS)
RUN_PAGE = Page(f"{FOLDER}actor-run.html", "Asking for the run", "Here is the run")


_RATINGS = ("actorReviewRating", "actorReviewCount")


def shown_actor(actor: JsonObject, card: JsonObject) -> JsonObject:
    """Return all fields for the page from the Store's entry, or the Actor's own object (Apify API v2), and its card."""
    stats = cast("dict[str, Any]", actor.get("stats") or {})
    counted = cast("dict[str, Any]", card.get("stats") or {})
    ratings = {name: actor.get(name, stats.get(name)) or 0 for name in _RATINGS}
    return {
        "id": card["id"],
        "name": actor.get("name"),
        "username": actor.get("username"),
        "fullName": card["fullName"],
        "title": card["title"],
        "description": card["description"],
        "pictureUrl": card.get("pictureUrl") or "",
        "stats": {**ratings, "totalUsers": counted.get("totalUsers", 0)},
        "url": card["url"],
        "currentPricingInfo": card["pricing"],
    }


_SEARCH_ACTORS_WIDGET_DESCRIPTION = """
Search Apify Store and show the user the results, as cards in a widget. For a user who wants to see and choose
Actors ("which scrapers are there for Instagram?"). When you look for an Actor to run it yourself, use search-actors:
it finds the same and shows nothing.
"""


@failing_as(lambda _given, _envelope: None)
async def search_actors_widget(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the cards for the page; only a text if nothing was found."""
    keywords = actors.keywords_of(given)
    found, tier = await asyncio.gather(actors.store_entries(ctx, given), tier_of(ctx))
    cards = actors.priced_cards(found, tier)
    shown: list[JsonValue] = [shown_actor(entry, card) for entry, card in zip(found, cards, strict=True)]
    structured: JsonObject = {**actors.cards_report(keywords, cards, tier), "widgetActors": shown}
    if not found:
        return texts(structured, f"# Actors\nFound for “{keywords}”: 0\n\n{actors.NOTHING_FITS}")
    head = f"Found for “{keywords}”: {len(found)}" if keywords else f"Most used: {len(found)}"
    instruction = "The user sees them in the widget: do not list or repeat them."
    what = f"{len(found)} Actors of Apify Store, with price and use" + (f", for “{keywords}”" if keywords else "")
    blocks = (f"# Actors\n{head}\n\n{instruction}", *actors.without_run(ctx, cards))
    return ACTORS_PAGE.showing(texts(structured, *blocks), what)


SEARCH_ACTORS_WIDGET = _widget(
    ACTORS_PAGE,
    "search-actors",
    reads("Search Actors (widget)"),
    _SEARCH_ACTORS_WIDGET_DESCRIPTION,
    search_actors_widget,
    actors.SEARCH_ARGUMENTS,
    answer(
        {
            **actors.CARDS_REPORT,
            "widgetActors": array({"type": "object"}, "The same Actors, as the widget shows them."),
        },
        required=("actors", "query", "count", "widgetActors"),
    ),
).build()
_FETCH_ACTOR_DETAILS_WIDGET_DESCRIPTION = """
Show the user an Actor in a widget: what it does, its price, its use, its documentation. For a user who wants to see
it ("show me apify/web-scraper"). For what you need to run it, its input schema above all, use fetch-actor-details: it
shows nothing.
"""


@failing_as(actors.no_actor, search="search-actors")
async def fetch_actor_details_widget(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the Actor for the page; the model gets its name and address."""
    actor = normalised_actor(unquoted(given["actor"]))
    readme_chars = min(actors.MAX_README_CHARS, ctx.call.output.inline_limit_bytes)
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


FETCH_ACTOR_DETAILS_WIDGET = _widget(
    ACTORS_PAGE,
    "fetch-actor-details",
    reads("Fetch Actor details (widget)"),
    _FETCH_ACTOR_DETAILS_WIDGET_DESCRIPTION,
    fetch_actor_details_widget,
    arguments({"actor": actors.ACTOR_ARGUMENT}, required=("actor",)),
    answer(
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
).build()
_GET_ACTOR_RUN_WIDGET_DESCRIPTION = """
Show the user an Actor run in a widget, which follows it to its end by itself. The answer comes at once. For a user who
wants to watch a run ("how far is it? show me"). For the run's state or its storages use get-actor-run: it shows
nothing, and can wait.
"""
FOLLOWS_ITSELF = "The widget follows the run to its end and shows it to the user: do not ask for its state again."
"""Next step in the answers of tools that show a run."""


@failing_as(not_read)
async def get_actor_run_widget(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the current state of the run."""
    run = await ctx.platform.run(unquoted(given["runId"]))
    answer = await answer_about(ctx, run, actor_name=None, patient=False, next_step=FOLLOWS_ITSELF)
    report = answer.structured or {}
    note = TextContent(text=f"Run {report['runId']} is {report['status']}; the user sees it in the widget.")
    answer = answer.model_copy(update={"content": (answer.content[0], note)})
    return RUN_PAGE.showing(answer, f"The run of {report.get('actorName') or report['actorId']}, live")


GET_ACTOR_RUN_WIDGET = _widget(
    RUN_PAGE,
    "get-actor-run",
    reads("Get Actor run (widget)"),
    _GET_ACTOR_RUN_WIDGET_DESCRIPTION,
    get_actor_run_widget,
    arguments({"runId": RUN_ID}, required=("runId",)),
    RUN,
).build()
_CALL_ACTOR_WIDGET_DESCRIPTION = """
Run an Actor by its name `user/name`, with an input that fits its own input schema, and show the user the run in a
widget, which follows it to its end by itself. The answer comes when the run has begun. For a user who wants to watch
("run apify/web-scraper and show me how it goes"); otherwise use call-actor, which does the same without a widget.
Read what the run has written with get-dataset-items when the user says that it has ended.
"""


class ShownRunExecutor:
    """Answers when the run has begun; the workflow follows it to its end."""

    kind: Literal["sync", "async"] = "async"

    async def execute_actor_tool(self, ctx: HandlerContext, params: RunSpec) -> ToolResult:
        """Start the run, and describe its start."""
        started = await ctx.runs.start(params)
        ctx.say(describe_run(started))
        ctx.guard(started, params.budget)
        run = await _as_begun(ctx, started)
        storages = RunStorages.named_in(run)
        answer = run_answer(
            run,
            storages,
            actor_name=await name_of_actor(ctx, run, params.actor if "/" in params.actor else None),
            summary=summary_of(run, storages),
            next_step=FOLLOWS_ITSELF,
        )
        return RUN_PAGE.showing(answer, f"The run of {params.actor}, live")


async def _as_begun(ctx: HandlerContext, started: RunState) -> JsonObject:
    """Return the platform's object of a new run, with its storages by alias."""
    run: JsonObject = {
        "id": started.run_id,
        "actId": started.actor_id,
        "status": started.status,
        "startedAt": started.model_dump(mode="json")["started_at"],
        "defaultDatasetId": started.dataset_id,
        "defaultKeyValueStoreId": started.key_value_store_id,
    }
    try:
        found = await ctx.platform.run(started.run_id)
    except ToolError as error:  # The run has begun nevertheless, and the call must not be repeated.
        workflow.logger.info("Run %s cannot be read: %s", started.run_id, error.envelope.message)
        return run
    return {**run, "startedAt": found.get("startedAt"), "storageIds": found.get("storageIds")}


_EXECUTOR = ShownRunExecutor()


@failing_as(not_called, search="search-actors")
async def call_actor_widget(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Run the Actor. A tool of an MCP server has no run to show."""
    actor, mcp_tool = split_actor_tool(unquoted(given["actor"]))
    if mcp_tool is not None:
        message = f"{ctx.call.tool} does not render widgets for MCP tool calls."
        instead = "Nothing was called. Call `user/name:tool` with call-actor."
        return failed(
            ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, message, hint=instead), message, instead
        )
    spec = run_spec(ctx, actor, given.get("input") or {}, options_of(ctx, given))
    return await _EXECUTOR.execute_actor_tool(ctx, spec)


CALL_ACTOR_WIDGET = (
    _widget(
        RUN_PAGE,
        "call-actor",
        ToolAnnotations(title="Call Actor (widget)", destructive=True, idempotent=False, open_world=True),
        _CALL_ACTOR_WIDGET_DESCRIPTION,
        call_actor_widget,
        arguments(
            {"actor": text("The Actor: `user/name`, for example apify/rag-web-browser."), **RUN_ARGUMENTS},
            required=("actor", "input"),
        ),
        RUN,
    )
    .answers_at_start()
    .build()
)
TOOLS = (SEARCH_ACTORS_WIDGET, FETCH_ACTOR_DETAILS_WIDGET, CALL_ACTOR_WIDGET, GET_ACTOR_RUN_WIDGET)
