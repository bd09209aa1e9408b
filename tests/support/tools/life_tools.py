"""Tools whose tasks live every kind of life: answered, failed, asked about, endless, stored. For OUTLAST_TOOLS_FROM."""

from pydantic import Field

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, tool
from tests.support.tools import back_end_tools
from tests.support.tools.back_end_tools import text

_OF_BACK_ENDS = ("say", "fail", "ask-name", "wait-for-ever", "show")


class Repeated(Arguments):
    line: str = Field(max_length=100)
    times: int = Field(ge=1, le=5_000)


async def _say_lines(_ctx: HandlerContext, arguments: Repeated) -> ToolResult:
    return text("\n".join(f"{arguments.line} {number}" for number in range(arguments.times)))


TOOLS: tuple[Tool, ...] = (
    *(tool for tool in back_end_tools.TOOLS if tool.name in _OF_BACK_ENDS),
    tool("say-lines")
    .category(Category.DEV)
    .describe("Says a line again and again: many times are an answer that is stored.")
    .args(Repeated)
    .server(_say_lines)
    .build(),
)
