"""Direct tools of single Actors: their definition, their names, and the Actors that a connection can run."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import JsonValue

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.apify.answers import Handler, failing_as, platform_message, refusal_type
from outlast.workflows.tools.apify.input_schema import actor_input_schema, decoded
from outlast.workflows.tools.apify.schemas import RUN, begun
from outlast.workflows.tools.core.actor_names import MAX_TOOL_NAME
from outlast.workflows.tools.core.actor_schema import cut
from outlast.workflows.tools.core.call_actor import MAX_DESCRIPTION_CHARS, RunOptions, run_spec
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations

MAX_MEMORY_MBYTES = 4_096
"""Most memory that the tool of a single Actor requests; `call-actor` uses the value of its caller."""
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


def actor_tool(
    executor: ActorExecutor,
    actor: str,
    *,
    title: str,
    description: str,
    schema: dict[str, JsonValue],
    picture_url: str | None = None,
    default_memory_mbytes: int | None = None,
) -> Tool:
    """The tool of `actor` (`user/name`): its arguments are the Actor's input."""
    name = tool_name(actor)
    about = cut(description, MAX_DESCRIPTION_CHARS)
    hints = ToolAnnotations(title=actor, destructive=True, idempotent=None, open_world=True)
    does = (
        f"Run the Actor {actor} ({title}) and say how the run stands and what it has written; read the items with "
        f"get-dataset-items. {about}"
    ).strip()
    definition = begun(
        name, Category.ACTORS, hints, does=does, arguments=actor_input_schema(actor, name, schema), answer=RUN
    )
    return (
        definition.server(_handler(executor, actor), calls_actor=True, actor=actor)
        .icon(picture_url if picture_url and _PICTURE.fullmatch(picture_url) else None)
        .run_memory(_memory(default_memory_mbytes))
        .build()
    )


def _memory(default_mbytes: int | None) -> int | None:
    """Memory of a run in megabytes: the limit, or None if the Actor's own default does not exceed it."""
    within = default_mbytes is not None and default_mbytes <= MAX_MEMORY_MBYTES
    return None if within else MAX_MEMORY_MBYTES


def tool_name(actor: str) -> str:
    """`apify/rag-web-browser` -> `apify--rag-web-browser`; a longer name is cut and gets four digits of a digest."""
    name = actor.replace("/", "--").replace(".", "-dot-")
    if len(name) <= MAX_TOOL_NAME:
        return name
    return _cut(name, actor)


def _handler(executor: ActorExecutor, actor: str) -> Handler:
    def wording(_given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
        refused_input = refusal_type(envelope) == _INVALID_INPUT
        return f"Failed to call Actor '{actor}': {platform_message(envelope)}" if refused_input else None

    @failing_as(wording)
    async def run_actor(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
        return await executor.execute_actor_tool(
            ctx, run_spec(ctx, actor, decoded(given), RunOptions(memory=ctx.call.run_memory_mbytes))
        )

    return run_actor


def can_run(ctx: ToolContext, actor: str) -> bool:
    """Whether the caller's connection has `call-actor`, the tool of `actor` (`user/name`), or one of its server's."""
    own = tool_name(actor)
    of_its_server = (name for name in ctx.call.offered_tools if name.startswith(f"{own}--"))
    return any(ctx.offers(name) for name in ("call-actor", own, *of_its_server))


def can_run_all(ctx: ToolContext, actors: Iterable[str]) -> bool:
    """Whether the caller's connection can run each of the Actors."""
    return all(can_run(ctx, actor) for actor in actors)


def mcp_tool_names(actor: str, tools: Sequence[str]) -> list[str]:
    """`user/name` and its tool `search` -> `user--name--search`.

    Where one of them is too long, all have the first eight characters of the user, and four digits of a digest of the
    whole name, before which they are cut.
    """
    user, _, name = actor.partition("/")
    user = user.replace(".", "-dot-")
    names = [f"{user}--{name}--{tool}" for tool in tools]
    if all(len(each) <= MAX_TOOL_NAME for each in names):
        return names
    short = user[:_SHORT_USER_CHARS].rstrip("-")
    return [_cut(f"{short}--{name}--{tool}", whole) for tool, whole in zip(tools, names, strict=True)]


def _cut(name: str, whole: str) -> str:
    """Shorten `name` to the limit; it ends in digits of a digest of `whole`."""
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: MAX_TOOL_NAME - _DIGEST_CHARS - 1]}-{digest}"
