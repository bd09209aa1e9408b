"""A tool and a resource with `_meta` for widgets and for the front door, as tools of other packages may have it."""

from outlast.api.mcp.resource_definitions import Resource
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.tool import Category, NoArguments, tool

META = {"openai/outputTemplate": "ui://planted", "own": 1}


async def labelled(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult(content=(TextContent(text="Done."),), meta={**META, "outlast/addedSecret": "planted"})


LABELLED = (
    tool("labelled")
    .category(Category.DEV)
    .describe("Is labelled.")
    .meta(**META)
    .server(labelled)
    .long_running()
    .build()
)
RESOURCE = Resource("test://labelled", "labelled", "Labelled", "Is labelled.", "text/plain", lambda _: ".", meta=META)
