"""Tools whose tasks have rows in other ways than one run's. For OUTLAST_TOOLS_FROM."""

import asyncio

from outlast.activities.runs.contracts import Budget, RunSpec
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolBuilder, tool

_HOUR_SECONDS = 3_600


class Sizes(Arguments):
    """How many rows each of the runs writes."""

    sizes: list[int]


async def run_in_turn(ctx: HandlerContext, arguments: Sizes) -> ToolResult:
    """One run of the sleeper after the other."""
    for number, rows in enumerate(arguments.sizes):
        run_input = {"seconds": 0.5, "steps": 2, "rows": rows, "message": f"run {number}"}
        run = await ctx.runs.start(RunSpec(actor="outlast/sleeper", input=run_input))
        await ctx.runs.finish(run, Budget())
    return ToolResult(content=(TextContent(text=f"{len(arguments.sizes)} runs"),))


class Dataset(Arguments):
    """A dataset of the caller."""

    dataset: str


async def keep_dataset(ctx: HandlerContext, arguments: Dataset) -> ToolResult:
    """Store the rows of a dataset that no run of this task has written."""
    stored = await ctx.outputs.store_dataset(arguments.dataset)
    return ToolResult(content=(TextContent(text="stored"),), locator=stored.output.locator)


class Talk(Arguments):
    """How many messages of how many characters."""

    messages: int
    length: int


async def talk(ctx: HandlerContext, arguments: Talk) -> ToolResult:
    """Report much progress, then wait for somebody to cancel the call."""
    for number in range(arguments.messages):
        ctx.progress(number, message=str(number).ljust(arguments.length, "."))
    await asyncio.sleep(_HOUR_SECONDS)
    return ToolResult(content=(TextContent(text="talked"),))


class Length(Arguments):
    """How many characters."""

    length: int


async def long_text(_: HandlerContext, arguments: Length) -> ToolResult:
    """Answer with much text."""
    return ToolResult(content=(TextContent(text="." * arguments.length),))


def dev(name: str) -> ToolBuilder:
    return tool(name).category(Category.DEV).describe(f"Fixture {name}.")


TOOLS = [
    dev("run-in-turn").args(Sizes).server(run_in_turn).build(),
    dev("talk").args(Talk).server(talk).build(),
    dev("long-text").args(Length).server(long_text).build(),
    dev("keep-dataset").args(Dataset).server(keep_dataset).build(),
]
