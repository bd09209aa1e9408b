"""`fetch-actor-details` in the default mode."""

from pydantic import Field

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import answered
from outlast.workflows.tools.core.actor_mcp import list_tools_of
from outlast.workflows.tools.core.actors import (
    ActorArguments,
    DetailSections,
    after_details,
    details_as_text,
    details_definition,
    details_report,
    look_up_actor,
)

DESCRIPTION = """
Get the details of an Actor before you run it: its input (JSON Schema), its README, price and statistics, and the
schema of its rows (from your recent runs, or as it declares them). `output` selects parts.
"""


class FetchActorDetailsArguments(ActorArguments):
    """An Actor, and parts of its details."""

    output: DetailSections = Field(default_factory=DetailSections)


async def fetch_actor_details(ctx: HandlerContext, arguments: FetchActorDetailsArguments) -> ToolResult:
    """Return the details, as text and structured."""
    details = await look_up_actor(ctx, arguments.actor, arguments.output)
    wants_tools = arguments.output.mcp_tools and details.mcp_path is not None
    mcp_tools, notes = await list_tools_of(ctx, details.card.full_name) if wants_tools else (None, ())
    summary = " ".join((f"Details of Actor {details.card.full_name}.", *notes))
    next_step = after_details(ctx, details)
    report = details_report(details, arguments.output, summary=summary, next_step=next_step, mcp_tools=mcp_tools)
    return answered(report, summary, f"\n{details_as_text(report)}", f"\n{next_step}")


FETCH_ACTOR_DETAILS = (
    details_definition("fetch-actor-details", fetch_actor_details, DESCRIPTION).args(FetchActorDetailsArguments).build()
)
