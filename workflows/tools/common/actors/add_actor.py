"""`add-actor`: an Actor becomes a tool of the caller's connection."""

from pydantic import Field

from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES
from outlast.workflows.tools.core.actor_names import actor_tool_name, normalised_actor
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolAnnotations, tool

ADDED_ACTOR_META = "outlast/addedActor"
"""Key in an answer's meta that tells the front door which Actor to offer from now on."""


class AddActorArguments(Arguments):
    """Which Actor."""

    actor: str = Field(min_length=1, description="Actor as `user/name`, for example `apify/rag-web-browser`.")


async def add_actor(ctx: ToolContext, arguments: AddActorArguments) -> ToolResult:
    """Name the tool that the Actor becomes; the front door has made sure that it can be loaded."""
    actor = normalised_actor(arguments.actor)
    name = actor_tool_name(actor)
    text = f"Actor {actor} is now offered as the tool {name}. List the tools again to see its arguments."
    ctx.say(text)
    return ToolResult(content=(TextContent(text=text),), meta={ADDED_ACTOR_META: actor})


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
