"""Tools whose tasks have rows in other ways than one run's. For OUTLAST_TOOLS_FROM."""

from outlast.activities.runs.contracts import Budget, RunSpec
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolBuilder, tool


class Sizes(Arguments):
    """How many rows each of the runs writes."""

    sizes: list[int]


async def run_in_turn(ctx: ToolContext, arguments: Sizes) -> ToolResult:
    """One run of the sleeper after the other."""
    for number, rows in enumerate(arguments.sizes):
        run_input = {"seconds": 0.5, "steps": 2, "rows": rows, "message": f"run {number}"}
        run = await ctx.runs.start(RunSpec(actor="outlast/sleeper", input=run_input))
        await ctx.runs.finish(run, Budget())
    return ToolResult(content=(TextContent(text=f"{len(arguments.sizes)} runs"),))


class Dataset(Arguments):
    """A dataset of the caller."""

    dataset: str


async def keep_dataset(ctx: ToolContext, arguments: Dataset) -> ToolResult:
    """Store the rows of a dataset that no run of this task has written."""
    stored = await ctx.outputs.store_dataset(arguments.dataset)
    return ToolResult(content=(TextContent(text="stored"),), locator=stored.output.locator)


def dev(name: str) -> ToolBuilder:
    return tool(name).category(Category.DEV).describe(f"Fixture {name}.")


TOOLS = [
    dev("run-in-turn").args(Sizes).server(run_in_turn).build(),
    dev("keep-dataset").args(Dataset).server(keep_dataset).build(),
]
