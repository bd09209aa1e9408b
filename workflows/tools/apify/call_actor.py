"""`call-actor`: run any Actor, or call a tool of one that is an MCP server."""

import math
from decimal import Decimal
from typing import Any, cast

from temporalio import workflow

from outlast.activities.bounds import MAX_SECONDS, usd_flaw
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.mcp_actors.contracts import NOT_CALLED, NOT_CONNECTED
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.apify.answers import (
    Handler,
    awaits_approval,
    bounded,
    failing_as,
    is_missing,
    platform_message,
)
from outlast.workflows.tools.apify.schemas import RUN, arguments, begun, free_object, inner, integer, number, text
from outlast.workflows.tools.core.actor_mcp import call_tool_of
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.core.call_actor import RunOptions, run_spec
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.ids import MAX_ID_CHARS, unquoted
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations

DESCRIPTION = """
Run an Actor, a program on the Apify platform, by its name `user/name`, with an input that fits the Actor's own input
schema. The answer says how the run stands and what it has written; read the items with get-dataset-items. A run that
takes longer than waitSecs goes on: follow it with get-actor-run. The run is paid by your account; maxTotalChargeUsd
limits what it may cost.
"""


RUN_ARGUMENTS: JsonObject = {
    "input": free_object("What the Actor takes, by its own input schema."),
    "callOptions": inner(
        {
            "memory": number("Memory in megabytes, a power of two.", minimum=128, maximum=32_768),
            "timeout": number("Longest duration of the run, in seconds; 0 for none.", minimum=0),
            "build": text("Tag or number of the build; the Actor's default without it."),
            "maxItems": integer("Items to be charged at most.", exclusiveMinimum=0),
            "maxTotalChargeUsd": number("What the run may cost at most, in US dollars.", exclusiveMinimum=0),
        },
        "How the run is carried out.",
    ),
}
"""Arguments of the tools that run any Actor, besides the Actor's name.

`options_of` checks the upper bounds, which Apify's schemas do not have.
"""


def not_called(given: dict[str, Any], envelope: ErrorEnvelope) -> str:
    """Return the text for a failed call of an Actor."""
    actor = unquoted(given.get("actor", ""))
    name, mcp_tool = split_actor_tool(actor)
    if envelope.message.startswith((NOT_CONNECTED, NOT_CALLED)):
        return envelope.message
    if is_missing(envelope):
        return f"Actor '{name}' was not found. Check its name, `user/name`."
    if mcp_tool is not None:
        is_no_server = "is not an MCP server" in envelope.message
        return f"Actor '{name}' is not an MCP server." if is_no_server else envelope.message
    if awaits_approval(envelope):
        return platform_message(envelope)
    return f"Failed to call Actor '{actor}': {platform_message(envelope)}"


def _handler(executor: ActorExecutor) -> Handler:
    @failing_as(not_called, search="search-actors")
    async def call_actor(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
        actor, mcp_tool = split_actor_tool(unquoted(given["actor"]))
        run_input: JsonObject = given.get("input") or {}
        if mcp_tool is None:
            return await executor.execute_actor_tool(ctx, run_spec(ctx, actor, run_input, options_of(ctx, given)))
        answer = await call_tool_of(ctx, actor, mcp_tool, run_input)
        passed_on = _passed_on(actor, mcp_tool, failed=answer.is_error)
        content = bounded(answer.raw_content or (), ctx.call.output.inline_limit_bytes)
        return answer.model_copy(update={"structured": passed_on, "raw_content": content, "meta": {}})

    return call_actor


def options_of(ctx: HandlerContext, given: dict[str, Any]) -> RunOptions:
    """Return the call's options; a timeout of 0 is none. Raises `ToolError` for values that the platform rejects."""
    options = cast("dict[str, Any]", given.get("callOptions") or {})
    cost, build, timeout = options.get("maxTotalChargeUsd"), options.get("build"), options.get("timeout") or 0
    if build and len(build) > MAX_ID_CHARS:
        raise _refused(ctx, f"callOptions.build has {len(build)} characters; the limit is {MAX_ID_CHARS}.")
    if timeout > MAX_SECONDS:
        raise _refused(ctx, f"callOptions.timeout is larger than {MAX_SECONDS} seconds. 0 is no limit.")
    if (flaw := _flaw_of(cost)) is not None and workflow.patched("budget-bounds"):
        raise _refused(ctx, flaw)
    return RunOptions(
        memory=int(options["memory"]) if options.get("memory") else None,
        timeout=math.ceil(timeout) or None,
        build=build or None,
        maxItems=options.get("maxItems"),
        maxTotalChargeUsd=Decimal(str(cost)) if cost is not None else None,
    )


def _flaw_of(cost: float | None) -> str | None:
    return usd_flaw({"callOptions.maxTotalChargeUsd": None if cost is None else Decimal(str(cost))})


def _refused(ctx: HandlerContext, message: str) -> ToolError:
    return ToolError(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, message))


def _passed_on(actor: str, mcp_tool: str, *, failed: bool) -> JsonObject:
    """Return the run response for an answer of an MCP server's tool, which has no run."""
    return {
        "runId": "mcp-passthrough",
        "actorId": actor,
        "actorName": actor,
        "status": "FAILED" if failed else "SUCCEEDED",
        "storages": {},
        "summary": f"{mcp_tool} of {actor} has {'failed' if failed else 'answered'}.",
        "nextStep": "Its answer is in the content.",
    }


def call_actor_tool(executor: ActorExecutor) -> Tool:
    """Return the definition with the mode's executor."""
    schema = arguments(
        {
            "actor": text(
                "The Actor: `user/name`, for example apify/rag-web-browser. `user/name:tool` is a tool of one that is "
                "an MCP server."
            ),
            **RUN_ARGUMENTS,
        },
        required=("actor", "input"),
    )
    hints = ToolAnnotations(title="Call Actor", destructive=True, idempotent=False, open_world=True)
    definition = begun("call-actor", Category.ACTORS, hints, does=DESCRIPTION, arguments=schema, answer=RUN)
    return definition.server(_handler(executor), calls_actor=True).build()
