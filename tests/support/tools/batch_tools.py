"""Tools for batches: quick ones that fail as told. For OUTLAST_TOOLS_FROM."""

from pydantic import Field

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolBuilder, tool


class Number(Arguments):
    """A number, and how the call is to end."""

    number: int
    label: str = ""
    fails_with: ErrorCategory | None = Field(default=None, description="How it ends instead.")
    fails_until: int = Field(default=0, description="Attempts of the item that fail; without, all do.")


async def double(ctx: HandlerContext, arguments: Number) -> ToolResult:
    """Twice the number. Of a batch's item, the task's id says which attempt it is."""
    last = ctx.task_id.rpartition("-")[2]
    attempt = int(last) if last.isdecimal() and len(last) < 4 else 1
    if arguments.fails_with is not None and attempt <= (arguments.fails_until or attempt):
        words = f"{arguments.label or arguments.number} fails."
        raise ToolError(ErrorEnvelope.permanent(arguments.fails_with, ctx.call.tool, words))
    doubled = 2 * arguments.number
    return ToolResult(content=(TextContent(text=str(doubled)),), structured={"doubled": doubled})


class Parcel(Arguments):
    """What is shipped. Optional arguments have each of the forms in which schemas write them."""

    sku: str
    country: str | None = None
    limit: int = 10
    fast: bool = False
    weight: float | None = None


async def ship(_ctx: HandlerContext, arguments: Parcel) -> ToolResult:
    """The arguments that were given, without the defaults."""
    return ToolResult(structured={"given": arguments.model_dump(mode="json", exclude_unset=True)})


def dev(name: str) -> ToolBuilder:
    return tool(name).category(Category.DEV).describe(f"Fixture {name}.")


TOOLS = [dev("double").args(Number).server(double).build(), dev("ship").args(Parcel).server(ship).build()]
