"""Tools of Actors at the kiosk: `buy_NAME`, which gives one row and half the memory, and `TOOL.at.NAME` of servers."""

from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.core.actor_schema import model_input_schema
from outlast.workflows.tools.core.call_actor import RunOptions, run_spec
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.tool import Category, Handler, Tool, ToolAnnotations, tool


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
    return (
        tool(f"buy_{actor.rpartition('/')[2]}")
        .category(Category.ACTORS)
        .describe(f"Buy one row: {description}")
        .annotate(ToolAnnotations(title=title))
        .args_schema(model_input_schema(schema))
        .icon(picture_url)
        .run_memory(default_memory_mbytes // 2 if default_memory_mbytes else None)
        .server(_handler(executor, actor), calls_actor=True, actor=actor)
        .build()
    )


def _handler(executor: ActorExecutor, actor: str) -> Handler:
    async def run_actor(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
        options = RunOptions(memory=ctx.call.run_memory_mbytes)
        return await executor.execute_actor_tool(ctx, run_spec(ctx, actor, {**given, "rows": 1}, options))

    return run_actor


def mcp_tool_names(actor: str, tools: Sequence[str]) -> Sequence[str]:
    return [f"{each}.at.{actor.rpartition('/')[2]}" for each in tools]
