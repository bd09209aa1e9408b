"""`get-actor-log`: the end of a run's log."""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES
from outlast.workflows.tools.core.run_report import RunArguments
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class LogArguments(RunArguments):
    """Which run, and how much of its log."""

    lines: int = Field(default=50, ge=1, le=1_000, description="Lines from the end of the log.")


class LogTail(BaseModel):
    """The end of a log."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    run_id: str
    log: str
    lines: int
    total_lines: int


async def get_actor_log(ctx: ToolContext, arguments: LogArguments) -> ToolResult:
    """Read the tail and say how much there is."""
    log = await ctx.storages.log(arguments.run_id, lines=arguments.lines)
    head = f"Last {log.lines} of {log.total_lines} log lines of run {log.run_id}:"
    answer = LogTail(run_id=log.run_id, log=log.text, lines=log.lines, total_lines=log.total_lines)
    return ToolResult(
        content=(TextContent(text=f"{head}\n{log.text}"),), structured=answer.model_dump(mode="json", by_alias=True)
    )


GET_ACTOR_LOG = (
    tool("get-actor-log")
    .category(Category.RUNS)
    .describe("Get the last lines of an Actor run's log. Use it to see what a run is doing, or why it failed.")
    .annotate(ToolAnnotations(title="Get Actor log", read_only=True, idempotent=True))
    .args(LogArguments)
    .output(LogTail)
    .server(get_actor_log)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
