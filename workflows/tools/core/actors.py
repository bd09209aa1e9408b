"""Actors of Apify Store: search and details, in the form that modes share."""

import json
from typing import Any, Literal

from pydantic import Field, JsonValue

from outlast.activities.actors.contracts import ActorCard, ActorDetails, ActorSearchPage, ActorStats, RunDefaults
from outlast.activities.bounds import Offset
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer
from outlast.workflows.tools.core.actor_names import normalised_actor
from outlast.workflows.tools.core.actor_schema import cut, model_input_schema
from outlast.workflows.tools.core.lists import ListPage, position
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Handler, ToolBuilder, limited_tool, reads

MAX_README_CHARS = 20_000
_MAX_DESCRIPTION_CHARS = 400


class DetailSections(Arguments):
    """Parts of the details to return. Fewer parts make a shorter answer."""

    description: bool = Field(default=True, description="Title and description.")
    stats: bool = Field(default=True, description="Users, runs, success rate, rating.")
    pricing: bool = Field(default=True, description="What using it costs.")
    input_schema: bool = Field(default=True, alias="inputSchema", description="The input that it takes.")
    output_schema: bool = Field(default=True, alias="outputSchema", description="The rows that it produces.")
    readme: bool = Field(default=True, description="Its documentation.")
    mcp_tools: bool = Field(
        default=False, alias="mcpTools", description="For an Actor that is an MCP server: its tools. Starts it."
    )


class ActorArguments(Arguments):
    """An Actor."""

    actor: Id = Field(min_length=1, description="Actor as `user/name`, for example `apify/rag-web-browser`, or its id.")


class McpToolReport(Answer):
    """A tool of an Actor that is an MCP server."""

    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] = Field(default_factory=dict)


class DetailsReport(Answer):
    """Description of an Actor."""

    actor: ActorCard
    input_schema: dict[str, JsonValue] | None = Field(default=None, description="JSON Schema of the Actor's input.")
    output_schema: dict[str, JsonValue] | None = Field(default=None, description="JSON Schema of one row it produces.")
    output_schema_source: Literal["recent_runs", "declared"] | None = None
    readme: str | None = None
    readme_is_cut: bool = False
    run_defaults: RunDefaults | None = None
    build_number: str | None = None
    is_mcp_server: bool = False
    mcp_tools: list[McpToolReport] | None = None
    summary: str
    next_step: str


def details_definition(name: str, handler: Handler, description: str) -> ToolBuilder:
    """Begin the definition of a tool for details, which all modes share."""
    hints = reads("Fetch Actor details", open_world=True)
    return limited_tool(name, Category.ACTORS, hints, description, handler, ActorArguments, DetailsReport)


async def look_up_actor(ctx: HandlerContext, actor: str, sections: DetailSections) -> ActorDetails:
    """Read the details of the Actor for these sections. Raises `ToolError`."""
    return await ctx.actors.details(
        normalised_actor(actor),
        max_readme_chars=MAX_README_CHARS if sections.readme else 0,
        infer_output=sections.output_schema,
    )


def details_report(
    details: ActorDetails,
    sections: DetailSections,
    *,
    summary: str,
    next_step: str,
    mcp_tools: list[McpToolReport] | None = None,
) -> DetailsReport:
    """Return the structured answer with the given sections."""
    optional = {"description": "", "pricing": None, "stats": ActorStats()}
    hidden = {name: empty for name, empty in optional.items() if not getattr(sections, name)}
    output = details.output if sections.output_schema else None
    return DetailsReport(
        actor=short_card(details.card).model_copy(update=hidden),
        input_schema=model_input_schema(details.input_schema) if sections.input_schema else None,
        output_schema=output.item_schema if output else None,
        output_schema_source=output.source if output else None,
        readme=details.readme if sections.readme else None,
        readme_is_cut=sections.readme and details.readme_chars > len(details.readme or ""),
        run_defaults=details.run_defaults,
        build_number=details.build_number,
        is_mcp_server=details.mcp_path is not None,
        mcp_tools=mcp_tools,
        summary=summary,
        next_step=next_step,
    )


def details_as_text(report: DetailsReport) -> str:
    """Return the report as Markdown: the card, then its sections."""
    parts = [card_as_text(report.actor)]
    if report.mcp_tools is not None:
        lines = [f"- `{tool.name}`: {tool.description}" for tool in report.mcp_tools]
        parts.append("\n".join(["### Tools of this MCP server", *lines]))
    if report.input_schema is not None:
        parts.append(f"### Input (JSON Schema)\n{_fenced(report.input_schema)}")
    if report.output_schema is not None:
        seen = "seen in recent runs" if report.output_schema_source == "recent_runs" else "as the Actor declares it"
        parts.append(f"### Output: one row of its dataset, {seen} (JSON Schema)\n{_fenced(report.output_schema)}")
    if report.readme:
        cut = f"\n\n(The README is longer; these are its first {MAX_README_CHARS:,} characters.)"
        parts.append(f"### README\n{report.readme}{cut if report.readme_is_cut else ''}")
    return "\n\n".join(parts)


def after_details(ctx: HandlerContext, details: ActorDetails) -> str:
    """Return the next step, which names only tools that the caller may call."""
    name = details.card.full_name
    if details.mcp_path is not None:
        return (
            f"It is an MCP server: call one of its tools with call-actor, actor `{name}:tool`, "
            "and the tool's arguments as `input`."
            if ctx.offers("call-actor")
            else "It is an MCP server: its tools are called by name."
        )
    if ctx.offers("call-actor"):
        return f"Run it with call-actor, actor `{name}`, and an `input` that fits the schema."
    if ctx.offers("add-actor"):
        return f"Add it as a tool with add-actor, actor `{name}`."
    return "No tool offered here runs it."


def _fenced(document: dict[str, JsonValue]) -> str:
    return f"```json\n{json.dumps(document, ensure_ascii=False)}\n```"


def short_card(card: ActorCard) -> ActorCard:
    """Return the card with a short description."""
    return card.model_copy(update={"description": cut(card.description, _MAX_DESCRIPTION_CHARS)})


def card_as_text(card: ActorCard) -> str:
    """Return the card as Markdown."""
    lines = [f"## {card.title} (`{card.full_name}`)"]
    lines += [cut(card.description, _MAX_DESCRIPTION_CHARS)] if card.description else []
    lines += warnings_of(card)
    facts = [
        f"- Developer: {card.developer}",
        f"- Usage: {stats_in_words(card.stats)}",
        f"- Price: {card.pricing.summary}" if card.pricing else None,
        f"- Categories: {', '.join(card.categories)}" if card.categories else None,
        f"- Store: {card.url}" if card.url else None,
    ]
    return "\n".join([*lines, *(fact for fact in facts if fact)])


def warnings_of(card: ActorCard) -> list[str]:
    """Return the reasons against using the Actor."""
    deprecated = ["Deprecated: its developer advises against using it."] if card.is_deprecated else []
    return [*deprecated, *([f"Notice: {card.notice.replace('_', ' ').lower()}."] if card.notice else [])]


def stats_in_words(stats: ActorStats) -> str:
    """Return users, success rate and rating as far as they are known."""
    parts = [
        f"{stats.total_users:,} users" if stats.total_users is not None else None,
        f"{stats.monthly_users:,} in the last 30 days" if stats.monthly_users is not None else None,
        f"{stats.success_rate:.1%} of runs succeed" if stats.success_rate is not None else None,
        f"rated {stats.rating:.1f} of 5 by {stats.review_count or 0}" if stats.rating else None,
    ]
    return ", ".join(part for part in parts if part) or "not known"


DEFAULT_LIMIT = 5


class SearchActorsArguments(Arguments):
    """The query."""

    keywords: str = Field(
        default="",
        max_length=500,
        description=(
            "A platform and the wanted data, in one to three words: `Instagram posts`, `Google Maps`, `crawler`. "
            "Without keywords the most popular Actors come first."
        ),
    )
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=100, description="Maximum number of Actors.")
    offset: Offset = Field(default=0, description="Number of Actors to skip: the nextOffset of an earlier search.")
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
