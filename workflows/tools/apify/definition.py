"""What the definitions of this mode's tools have in common: closed argument schemas, and hints per kind of tool."""

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.framework.tool import Category, Handler, Tool, ToolAnnotations, ToolBuilder, tool


def reading_tool(
    name: str, title: str, category: Category, *, does: str, arguments: JsonObject, answer: JsonObject, handler: Handler
) -> Tool:
    """A tool that changes nothing."""
    hints = ToolAnnotations(title=title, read_only=True, idempotent=True, open_world=False)
    return begun(name, category, hints, does=does, arguments=arguments, answer=answer).server(handler).build()


def begun(
    name: str,
    category: Category,
    hints: ToolAnnotations,
    *,
    does: str,
    arguments: JsonObject,
    answer: dict[str, JsonValue],
) -> ToolBuilder:
    """A definition without its handler. Each tool bounds its own answer, so none is stored for its size."""
    return (
        tool(name)
        .category(category)
        .describe(does)
        .annotate(hints)
        .args_schema(arguments)
        .output_schema(answer)
        .keep_output_schema()
        .gives_back_outputs()
    )
