"""The direct tool of a single Actor."""

import hashlib
import re
from typing import Any

from pydantic import JsonValue

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.runtime.executors import ActorExecutor
from outlast.workflows.tools.apify.actors.input_schema import actor_input_schema, decoded
from outlast.workflows.tools.apify.answers.failures import Handler, failing_as, platform_message, refusal_type
from outlast.workflows.tools.apify.definition import begun
from outlast.workflows.tools.apify.schemas.runs import RUN
from outlast.workflows.tools.core.actor_names import MAX_TOOL_NAME
from outlast.workflows.tools.core.actor_schema import cut
from outlast.workflows.tools.core.call_actor import MAX_DESCRIPTION_CHARS, RunOptions, run_spec
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations

MAX_MEMORY_MBYTES = 4_096
"""What the tool of a single Actor asks for at most; call-actor takes what its caller chooses."""
_PICTURE = re.compile(r"https?://[!-~]{1,2000}")
_DIGEST_CHARS = 4
_INVALID_INPUT = "invalid-input"
"""How the platform refuses an input that breaks the Actor's schema."""


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
    """What a call asks for: no more than the limit, and nothing where the Actor's own default is within it."""
    within = default_mbytes is not None and default_mbytes <= MAX_MEMORY_MBYTES
    return None if within else MAX_MEMORY_MBYTES


def tool_name(actor: str) -> str:
    """`apify/rag-web-browser` -> `apify--rag-web-browser`; a longer name is cut and gets four digits of a digest."""
    name = actor.replace("/", "--").replace(".", "-dot-")
    if len(name) <= MAX_TOOL_NAME:
        return name
    digest = hashlib.sha256(actor.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: MAX_TOOL_NAME - _DIGEST_CHARS - 1]}-{digest}"


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
