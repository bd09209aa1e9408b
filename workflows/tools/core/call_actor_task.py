"""`call-actor-task`: run a saved Actor task, as one durable task that is paid once."""

from decimal import Decimal
from typing import Any, cast

from pydantic import Field, JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.runs.contracts import RunSpec
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.core.actor_names import normalised_actor
from outlast.workflows.tools.core.call_actor import RunOptions, run_spec
from outlast.workflows.tools.core.run_report import RunReport
from outlast.workflows.tools.core.saved_tasks import TASKS, actor_of, platform_reference
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Handler, ToolAnnotations, ToolBuilder, tool

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
        default_factory=dict, description="Fields of the input that take the place of saved ones, for this run only."
    )
    call_options: RunOptions = Field(
        default_factory=RunOptions, alias="callOptions", description="Options that take the place of saved ones."
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
