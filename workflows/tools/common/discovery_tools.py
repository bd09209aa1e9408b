"""Tools with which a model finds and calls others, on connections that have too many tools to list."""

from pydantic import Field, JsonValue

from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolAnnotations, front_door_tool, reads

MAX_FOUND = 20
MAX_DESCRIBED = 10


class SearchToolsArguments(Arguments):
    """What the tools are needed for."""

    query: str = Field(min_length=1, max_length=1_000, description="The task, or words of the tools, in English.")
    limit: int = Field(default=10, ge=1, le=MAX_FOUND, description="Maximum number of tools.")


class DescribeToolsArguments(Arguments):
    """Tools by name."""

    names: tuple[Id, ...] = Field(
        min_length=1, max_length=MAX_DESCRIBED, description="Names of tools, as `search-tools` returns them."
    )


class CallToolArguments(Arguments):
    """A tool and its arguments."""

    name: Id = Field(description="Name of the tool.")
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Its arguments, which match the schema that `describe-tools` returns."
    )


SEARCH_TOOLS = front_door_tool(
    "search-tools",
    Category.TASKS,
    reads("Search tools"),
    "Find tools by what they do. Returns names, descriptions, and required arguments, the best match first. "
    "Use it before you conclude that there is no tool for a task.",
    SearchToolsArguments,
)
DESCRIBE_TOOLS = front_door_tool(
    "describe-tools",
    Category.TASKS,
    reads("Describe tools"),
    "Get the whole descriptions and the schemas of tools by name. Read them before you call a tool.",
    DescribeToolsArguments,
)
CALL_TOOL = front_door_tool(
    "call-tool",
    Category.TASKS,
    ToolAnnotations(title="Call tool", destructive=True),
    "Call a tool that `search-tools` has found, with the arguments that its schema describes.",
    CallToolArguments,
)
DISCOVERY_TOOLS: tuple[Tool, ...] = (SEARCH_TOOLS, DESCRIBE_TOOLS, CALL_TOOL)
