"""`fetch-actor-details-internal`: a silent look-up of an Actor's input, for the model alone."""

import json

from pydantic import JsonValue

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered
from outlast.workflows.tools.core.actor_schema import model_input_schema
from outlast.workflows.tools.core.actors import (
    ActorArguments,
    DetailSections,
    after_details,
    details_definition,
    look_up_actor,
    warnings_of,
)
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.openai.widgets import silent_meta

DESCRIPTION = """
Get an Actor's input schema and price without showing anything to the user.
Use it before you run the Actor, not when the user wants to see it.
"""

_SECTIONS = DetailSections(readme=False, outputSchema=False)  # pyright: ignore[reportCallIssue]  # by alias


class LeanDetailsReport(Answer):
    """Facts for running the Actor."""

    name: str
    title: str
    description: str
    price: str | None = None
    is_mcp_server: bool = False
    input_schema: dict[str, JsonValue]


async def fetch_actor_details_internal(ctx: HandlerContext, arguments: ActorArguments) -> ToolResult:
    """Return the facts for running the Actor."""
    details = await look_up_actor(ctx, arguments.actor, _SECTIONS)
    card = details.card
    report = LeanDetailsReport(
        name=card.full_name,
        title=card.title,
        description=card.description,
        price=card.pricing.summary if card.pricing else None,
        is_mcp_server=details.mcp_path is not None,
        input_schema=model_input_schema(details.input_schema),
    )
    lines = [
        f"{card.full_name}: {card.description or card.title}",
        *warnings_of(card),
        f"Price: {report.price}" if report.price else "",
        f"Input (JSON Schema): {json.dumps(report.input_schema, ensure_ascii=False)}",
        after_details(ctx, details),
    ]
    return answered(report, *lines)


FETCH_ACTOR_DETAILS_INTERNAL = (
    details_definition("fetch-actor-details-internal", fetch_actor_details_internal, DESCRIPTION)
    .category(Category.UI)
    .output(LeanDetailsReport)
    .meta(**silent_meta())
    .build()
)
