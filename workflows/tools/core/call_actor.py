"""`call-actor`, `call-actor-task` and the tools of single Actors, in the form that modes share."""

from decimal import Decimal
from typing import Any, TypeVar, Unpack, cast

from pydantic import Field, JsonValue

from outlast.activities.bounds import PositiveCount, PositiveSeconds, Usd
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.runs.contracts import Budget, RunSpec
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.core.actor_mcp import call_tool_of
from outlast.workflows.tools.core.actor_names import actor_tool_name, normalised_actor, split_actor_tool
from outlast.workflows.tools.core.actor_schema import cut, model_input_schema
from outlast.workflows.tools.core.run_report import RunReport
from outlast.workflows.tools.core.schedules import TASKS, actor_of, platform_reference
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.mode import ActorFacts
from outlast.workflows.tools.framework.tool import (
    Arguments,
    Category,
    Handler,
    Tool,
    ToolAnnotations,
    ToolBuilder,
    tool,
)

MAX_DESCRIPTION_CHARS = 1_000

Limit = TypeVar("Limit", int, Decimal)


class RunOptions(Arguments):
    """Options of the run (Apify API v2, run options)."""

    memory: int | None = Field(
        default=None, ge=128, le=32_768, description="Memory in megabytes: a power of two from 128 to 32768."
    )
    timeout: PositiveSeconds | None = Field(default=None, description="Maximum duration of the run, in seconds.")
    build: Id | None = Field(default=None, description="Build tag or number. Default: that of the Actor.")
    max_items: PositiveCount | None = Field(
        default=None, alias="maxItems", description="Maximum number of rows that are charged."
    )
    max_total_charge_usd: Usd | None = Field(
        default=None, alias="maxTotalChargeUsd", description="Maximum cost of the run, in US dollars."
    )


class CallActorArguments(Arguments):
    """An Actor to run, and its input."""

    actor: Id = Field(
        description=(
            "Actor as `user/name`, for example `apify/rag-web-browser`, or its id. For an Actor that is an MCP server, "
            "`user/name:tool` calls one of its tools, with the tool's arguments as `input`."
        )
    )
    input: dict[str, JsonValue] = Field(
        default_factory=dict, description="Input that fits the Actor's own input schema."
    )
    call_options: RunOptions = Field(default_factory=RunOptions, alias="callOptions")


def call_actor_handler(executor: ActorExecutor) -> Handler:
    """Return the handler of `call-actor` for a mode with this executor."""

    async def call_actor(ctx: HandlerContext, arguments: CallActorArguments) -> ToolResult:
        actor, mcp_tool = split_actor_tool(arguments.actor)
        if mcp_tool is not None:
            answer = await call_tool_of(ctx, actor, mcp_tool, arguments.input)
            # `call-actor` always has a structured answer; a proxied tool need not have one.
            return answer.model_copy(update={"structured": answer.structured or {}})
        spec = run_spec(ctx, actor, arguments.input, arguments.call_options)
        return await executor.execute_actor_tool(ctx, spec)

    return call_actor


def run_spec(ctx: HandlerContext, actor: str, run_input: JsonValue, options: RunOptions) -> RunSpec:
    """Return the run to start. The stricter of the call's options and the task's budget applies."""
    task = ctx.call.options.budget
    return RunSpec(
        actor=actor,
        input=run_input,
        build=options.build,
        memory_mbytes=options.memory,
        budget=Budget(
            max_total_charge_usd=_stricter(options.max_total_charge_usd, task.max_total_charge_usd),
            max_items=_stricter(options.max_items, task.max_items),
            max_run_seconds=_stricter(options.timeout, task.max_run_seconds),
        ),
    )


def call_actor_definition(executor: ActorExecutor, description: str) -> ToolBuilder:
    """Begin the definition of `call-actor`, which all modes share."""
    return (
        tool("call-actor")
        .category(Category.ACTORS)
        .describe(description)
        .annotate(ToolAnnotations(title="Call Actor", destructive=False, open_world=True))
        .args(CallActorArguments)
        .output_schema(_call_actor_output())
        .server(call_actor_handler(executor), calls_actor=True)
        .keep_output_schema()
    )


def actor_tool(executor: ActorExecutor, actor: str, *, purpose: str, **facts: Unpack[ActorFacts]) -> Tool:
    """Return the direct tool of one Actor. `purpose` describes a call."""
    text = cut(facts["description"], MAX_DESCRIPTION_CHARS)

    async def run_actor(ctx: HandlerContext, arguments: dict[str, JsonValue]) -> ToolResult:
        return await executor.execute_actor_tool(ctx, run_spec(ctx, actor, arguments, RunOptions()))

    return (
        tool(actor_tool_name(actor))
        .category(Category.ACTORS)
        .describe(f"{purpose} {text}".strip())
        .annotate(ToolAnnotations(title=facts["title"], open_world=True))
        .args_schema(model_input_schema(facts["schema"]))
        .output(RunReport)
        .server(run_actor, calls_actor=True, actor=actor)
        .keep_output_schema()
        .build()
    )


def _call_actor_output() -> dict[str, JsonValue]:
    """Return the schema of a run's report, or of any answer of an MCP server's tool."""
    report = RunReport.model_json_schema(by_alias=True, mode="serialization")
    definitions = report.pop("$defs", {})
    description = "For `user/name:tool`: the structured content of that tool."
    proxied: dict[str, JsonValue] = {"type": "object", "description": description}
    return {"type": "object", "$defs": definitions, "anyOf": [report, proxied]}


def _stricter(one: Limit | None, other: Limit | None) -> Limit | None:
    limits = [limit for limit in (one, other) if limit is not None]
    return min(limits) if limits else None


_MEMBERS = ("id", "actId", "options")
"""Members of the task that are read. Its input stays on the platform, which passes it to the run."""


class SavedTaskArguments(Arguments):
    """A saved task."""

    actor_task_id: Id = Field(
        alias="actorTaskId", description="Saved task: its id, `user/name`, or the name of one of your own."
    )


class CallActorTaskArguments(SavedTaskArguments):
    """A saved task to run, and values that replace saved ones."""

    input: dict[str, JsonValue] = Field(
        default_factory=dict, description="Input fields that replace saved ones, for this run only."
    )
    call_options: RunOptions = Field(
        default_factory=RunOptions, alias="callOptions", description="Options that replace saved ones."
    )


def call_actor_task_handler(executor: ActorExecutor) -> Handler:
    """Return the handler for a mode with this executor."""

    async def call_actor_task(ctx: HandlerContext, arguments: CallActorTaskArguments) -> ToolResult:
        reference = await platform_reference(ctx, arguments.actor_task_id)
        task = await ctx.platform.part(TASKS, reference, members=_MEMBERS)
        _, actor = await actor_of(ctx, str(task.get("actId")))
        _refuse_other_actor(ctx, actor)
        return await executor.execute_actor_tool(ctx, _spec(ctx, actor, task, arguments))

    return call_actor_task


def call_actor_task_definition(executor: ActorExecutor, description: str) -> ToolBuilder:
    """Begin the definition of `call-actor-task`, which all modes share."""
    return (
        tool("call-actor-task")
        .category(Category.TASKS)
        .describe(description)
        .annotate(ToolAnnotations(title="Call Actor task", destructive=False, open_world=True))
        .args(CallActorTaskArguments)
        .output(RunReport)
        .server(call_actor_task_handler(executor), calls_actor=True)
        .seals("input")
        .plans(tasks=("actorTaskId",))
        .keep_output_schema()
    )


def _spec(ctx: HandlerContext, actor: str, task: JsonObject, arguments: CallActorTaskArguments) -> RunSpec:
    """Return the run to start. The stricter of the saved options and the call's budget applies."""
    given = arguments.call_options
    saved = cast("dict[str, Any]", task.get("options") or {})
    cost = saved.get("maxTotalChargeUsd")
    limits = {
        "timeout": given.timeout or saved.get("timeoutSecs") or None,
        "max_items": given.max_items or saved.get("maxItems") or None,
        "max_total_charge_usd": given.max_total_charge_usd or (Decimal(str(cost)) if cost else None),
    }
    spec = run_spec(ctx, actor, arguments.input, given.model_copy(update=limits))
    return spec.model_copy(update={"saved_task": str(task.get("id"))})


def _refuse_other_actor(ctx: HandlerContext, actor: str) -> None:
    """Raise `ToolError` if the operator's rules, or the approval of the call, were for another Actor's task."""
    decided = ctx.call.permission.actor if ctx.call.permission is not None else None
    if decided is None or normalised_actor(decided).casefold() == actor.casefold():
        return
    raise ToolError(
        ErrorEnvelope.permanent(
            ErrorCategory.CONFLICT,
            ctx.call.tool,
            f"The saved task was one of {decided} when this call was allowed, and is one of {actor} now. Nothing was "
            "started.",
            hint="Call again: the operator's rules are evaluated again.",
        )
    )
