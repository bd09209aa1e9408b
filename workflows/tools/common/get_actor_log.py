"""`get-actor-log`: the end of a run's log."""

from pydantic import Field

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered
from outlast.workflows.tools.core.run_report import RunArguments
from outlast.workflows.tools.framework.tool import Category, limited_tool, reads


class LogArguments(RunArguments):
    """A run, and the length of the end of its log."""

    lines: int = Field(default=50, ge=1, le=1_000, description="Lines from the end of the log.")


class LogTail(Answer):
    """The end of a log."""

    run_id: str
    log: str
    lines: int
    total_lines: int


async def get_actor_log(ctx: HandlerContext, arguments: LogArguments) -> ToolResult:
    """Read the end of the log."""
    log = await ctx.storages.log(arguments.run_id, lines=arguments.lines)
    head = f"Last {log.lines} of {log.total_lines} log lines of run {log.run_id}:"
    return answered(LogTail(log=log.text, **log.model_dump(exclude={"text"})), f"{head}\n{log.text}")


GET_ACTOR_LOG = limited_tool(
    "get-actor-log",
    Category.RUNS,
    reads("Get Actor log", open_world=True),
    "Get the last lines of an Actor run's log. Use it to see what a run is doing, or why it failed.",
    get_actor_log,
    LogArguments,
    LogTail,
).build()
