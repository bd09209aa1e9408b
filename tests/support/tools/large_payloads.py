"""What makes large payloads: a tool whose answer is as large as asked, and a workflow that passes them around.

The tool is loaded with OUTLAST_TOOLS_FROM.
"""

from datetime import timedelta

from pydantic import Field, JsonValue
from temporalio import activity, workflow

from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, tool


class RepeatArguments(Arguments):
    word: str
    times: int = Field(ge=1)


async def _repeat(_ctx: HandlerContext, arguments: RepeatArguments) -> ToolResult:
    return ToolResult(content=(TextContent(text=arguments.word * arguments.times),))


class CountArguments(Arguments):
    values: list[JsonValue]


async def _count(_ctx: HandlerContext, arguments: CountArguments) -> ToolResult:
    return ToolResult(content=(TextContent(text=str(len(arguments.values))),))


TOOLS: tuple[Tool, ...] = (
    tool("count-values").category(Category.DEV).describe("Counts.").args(CountArguments).server(_count).build(),
    tool("repeat-word")
    .category(Category.DEV)
    .describe("Repeats a word.")
    .args(RepeatArguments)
    .server(_repeat)
    .build(),
)


@activity.defn
async def double(text: str) -> str:
    """Twice as large as what it was given."""
    return text + text


@workflow.defn
class DoublingWorkflow:
    """Passes its argument through an activity, and keeps the result in its memo until it is let go."""

    def __init__(self) -> None:
        self._may_end = False

    @workflow.run
    async def run(self, text: str) -> str:
        doubled = await workflow.execute_activity(double, text, start_to_close_timeout=timedelta(minutes=1))
        workflow.upsert_memo({"doubled": doubled})
        await workflow.wait_condition(lambda: self._may_end)
        return doubled

    @workflow.signal
    def let_go(self) -> None:
        self._may_end = True


@workflow.defn
class LocallyDoublingWorkflow:
    """The same as a local activity, and a pause, after which a worker without a cache replays it."""

    @workflow.run
    async def run(self, text: str) -> int:
        doubled = await workflow.execute_local_activity(double, text, start_to_close_timeout=timedelta(minutes=1))
        await workflow.sleep(timedelta(milliseconds=1))
        return len(doubled)
