"""`add-actor`: make an Actor a tool of the caller's connection."""

from pydantic import Field

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES
from outlast.workflows.tools.core.actor_names import actor_tool_name, normalised_actor
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolAnnotations, tool

ADDED_ACTOR_META = "outlast/addedActor"
"""Key in an answer's meta for the entry point: the Actor to offer from now on. It is not shown."""


class AddActorArguments(Arguments):
    """An Actor."""

    actor: Id = Field(description="Actor as `user/name`, for example `apify/rag-web-browser`.")


async def add_actor(ctx: HandlerContext, arguments: AddActorArguments) -> ToolResult:
    """Look up the Actor, which the entry point then offers. Raises `ToolError` if it does not exist."""
    actor = normalised_actor(arguments.actor)
    details = await ctx.actors.details(actor, max_readme_chars=0, infer_output=False)
    name = details.card.full_name
    becomes = f"Actor {name} is now offered as the tool {actor_tool_name(name)}."
    if details.mcp_path is not None:
        prefix = actor_tool_name(name)
        becomes = f"The tools of {name}, an MCP server, are now offered: their names begin with {prefix}."
    text = f"{becomes} List the tools again to see their arguments."
    ctx.say(text)
    return ToolResult(content=(TextContent(text=text),), meta={ADDED_ACTOR_META: name})


def cannot_be_offered(tool: str, actor: str) -> ErrorEnvelope:
    """Return the error for an Actor that exists but cannot be made a tool now."""
    return ErrorEnvelope.transient(
        ErrorCategory.NETWORK,
        tool,
        f"Actor {actor} cannot be offered as a tool now.",
        hint="Try again later. Its definition, or the list of its tools, could not be read from the platform.",
    )


ADD_ACTOR = (
    tool("add-actor")
    .category(Category.EXPERIMENTAL)
    .describe("Add an Actor to this connection as a tool of its own, with the Actor's input as its arguments.")
    .annotate(ToolAnnotations(title="Add Actor", idempotent=True))
    .args(AddActorArguments)
    .server(add_actor)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
