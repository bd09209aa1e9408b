"""The note that tells a model that an answer was there already."""

from datetime import timedelta

from outlast.contracts.tasks import Reused
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.answers import describe_duration


def with_origin_note(result: ToolResult, reused: Reused) -> ToolResult:
    """`result` with a last line about its age; as it is where another server's content is passed on unchanged."""
    if result.raw_content is not None:
        return result
    age = describe_duration(timedelta(seconds=reused.age_seconds))
    note = "An equal call was under way: this is its answer." if reused.joined else f"This answer is {age} old."
    return result.model_copy(update={"content": (*result.content, TextContent(text=note))})
