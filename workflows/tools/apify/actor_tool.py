"""Direct tools of single Actors: their definition and names, and the Actors that a connection can run."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from outlast.activities.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.apify.answers import Handler, failing_as, platform_message, refusal_type
from outlast.workflows.tools.apify.input_schema import actor_input_schema, decoded
from outlast.workflows.tools.apify.schemas import RUN, begun
from outlast.workflows.tools.core.actor_names import MAX_TOOL_NAME, actor_tool_name, cut_name
from outlast.workflows.tools.core.actor_schema import cut
from outlast.workflows.tools.core.call_actor import MAX_DESCRIPTION_CHARS, RunOptions, run_spec
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.mode import ActorFacts
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations

MAX_MEMORY_MBYTES = 4_096
"""Most memory for the tool of a single Actor; `call-actor` uses the value of its caller."""
_PICTURE = re.compile(r"https?://[!-~]{1,2000}")
_SHORT_USER_CHARS = 8
_DIGEST_CHARS = 4
_INVALID_INPUT = "invalid-input"
"""Error type of the platform for an input that violates the Actor's schema."""
CANNOT_RUN = (
    "This connection cannot run this Actor: it has neither call-actor nor a tool of the Actor. The person who set it "
    "up can select either."
)
SOME_CANNOT_RUN = (
    "This connection can run only Actors that have a tool of their own in it. Others need call-actor, or their own "
    "name, among the tools that the person who set it up has selected."
)


def actor_tool(executor: ActorExecutor, actor: str, **facts: Unpack[ActorFacts]) -> Tool:
    """Return the tool of `actor` (`user/name`), whose arguments are the Actor's input."""
    name, picture_url, memory_mbytes = tool_name(actor), facts.get("picture_url"), facts.get("default_memory_mbytes")
    about = cut(facts["description"], MAX_DESCRIPTION_CHARS)
    hints = ToolAnnotations(title=actor, destructive=True, idempotent=None, open_world=True)
    does = (
        f"Run the Actor {actor} ({facts['title']}) and say how the run stands and what it has written; read the items "
        f"with get-dataset-items. {about}"
    ).strip()
    definition = begun(
        name, Category.ACTORS, hints, does=does, arguments=actor_input_schema(actor, name, facts["schema"]), answer=RUN
    )
    return (
        definition.server(_handler(executor, actor), calls_actor=True, actor=actor)
        .icon(picture_url if picture_url and _PICTURE.fullmatch(picture_url) else None)
        .run_memory(None if memory_mbytes is not None and memory_mbytes <= MAX_MEMORY_MBYTES else MAX_MEMORY_MBYTES)
        .build()
    )


def tool_name(actor: str) -> str:
    """Return the name of the Actor's tool, whose digest is shorter than in the other modes."""
    return actor_tool_name(actor, digest_chars=_DIGEST_CHARS)


def _handler(executor: ActorExecutor, actor: str) -> Handler:
    def wording(_given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
        refused_input = refusal_type(envelope) == _INVALID_INPUT
        return f"Failed to call Actor '{actor}': {platform_message(envelope)}" if refused_input else None

    @failing_as(wording)
    async def run_actor(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
        return await executor.execute_actor_tool(
            ctx, run_spec(ctx, actor, decoded(given), RunOptions(memory=ctx.call.run_memory_mbytes))
        )

    return run_actor


def can_run(ctx: HandlerContext, actor: str) -> bool:
    """Return whether the connection has `call-actor`, the tool of `actor` (`user/name`), or one of its MCP tools."""
    own = tool_name(actor)
    of_its_server = (name for name in ctx.call.offered_tools if name.startswith(f"{own}--"))
    return any(ctx.offers(name) for name in ("call-actor", own, *of_its_server))


def can_run_all(ctx: HandlerContext, actors: Iterable[str]) -> bool:
    """Return whether the caller's connection can run each of the Actors."""
    return all(can_run(ctx, actor) for actor in actors)


def mcp_tool_names(actor: str, tools: Sequence[str]) -> list[str]:
    """Return `user--name--search` for the tool `search` of `user/name`.

    If one name is too long, all have only the first eight characters of the user, and end in a digest of four digits.
    """
    user, _, name = actor.partition("/")
    user = user.replace(".", "-dot-")
    names = [f"{user}--{name}--{tool}" for tool in tools]
    if all(len(each) <= MAX_TOOL_NAME for each in names):
        return names
    short = user[:_SHORT_USER_CHARS].rstrip("-")
    return [
        cut_name(f"{short}--{name}--{tool}", whole, _DIGEST_CHARS) for tool, whole in zip(tools, names, strict=True)
    ]
