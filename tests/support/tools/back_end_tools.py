"""Tools for the contract between back ends: each does one thing that a call may come to. For OUTLAST_TOOLS_FROM."""

import base64
from typing import Any, Literal

from pydantic import Field, JsonValue
from temporalio import workflow

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.tool_calls import AudioContent, ImageContent, ResourceLink, TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.framework.tool import Arguments, Category, Handler, NoArguments, Tool, ToolBuilder, tool
from tests.support.tools.conformance_tools import PNG, WAV, embedded, form

PDF = base64.b64encode(b"%PDF-1.4\n%%EOF\n").decode()
ODD_NAME = "shelf-of-odd-fields"
ODD_FIELD = "filter[id]"
ODD_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {ODD_FIELD: {"type": "string"}, "limit": {"type": "integer", "default": 5}},
    "required": [ODD_FIELD],
    "anyOf": [{"required": [ODD_FIELD]}, {"required": ["limit"]}],
}


class SayArguments(Arguments):
    """A required field, one with a default, and an optional one."""

    text: str = Field(description="What to say.")
    times: int = Field(default=1, ge=1, le=10, description="How often.")
    note: str | None = Field(default=None, description="Said at the end.")


class LargeArguments(Arguments):
    size_bytes: int = Field(ge=1)


def text(said: str) -> ToolResult:
    return ToolResult(content=(TextContent(text=said),))


async def say(_ctx: HandlerContext, arguments: SayArguments) -> ToolResult:
    return text(" ".join([arguments.text] * arguments.times) + (f" ({arguments.note})" if arguments.note else ""))


async def fail(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    raise ToolError(
        ErrorEnvelope(
            tool=ctx.call.tool,
            message="The shelf is empty.",
            category=ErrorCategory.NOT_FOUND,
            retryable=True,
            hint="Fill it and call again.",
        )
    )


async def draw_number(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    """Another answer each time it is carried out."""
    return text(str(workflow.uuid4()))


async def wait_for_ever(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    await workflow.wait_condition(lambda: False)
    return text("never")


async def ask_name(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    answer = await ctx.ask("name", form("What is your name?", "name", name={"type": "string"}))
    return text(f"Hello, {answer.content.get('name')}!")


async def show(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    picture, sound = ImageContent(data=PNG, mimeType="image/png"), AudioContent(data=WAV, mimeType="audio/wav")
    link = ResourceLink(uri="https://example.com/a.csv", name="a.csv", mimeType="text/csv")
    paper = embedded("test://paper", "application/pdf", PDF)
    return ToolResult(content=(TextContent(text="Look:"), picture, sound, link, paper))


class Medium(Arguments):
    kind: Literal["image", "audio", "file"] = "image"
    media_type: str
    data: str


class MediaArguments(Arguments):
    media: list[Medium]


async def show_media(_ctx: HandlerContext, arguments: MediaArguments) -> ToolResult:
    """Media as other people's tools give them, whatever they are."""
    kinds = {"image": ImageContent, "audio": AudioContent}
    content = [
        kinds[one.kind](data=one.data, mimeType=one.media_type)
        if one.kind in kinds
        else embedded("test://file", one.media_type, one.data)
        for one in arguments.media
    ]
    return ToolResult(content=(TextContent(text="Look:"), *content))


async def fail_showing(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    """A failure with output: what a command or a run had said before it failed."""
    error = ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, ctx.call.tool, "It ended with exit code 2.")
    lines = TextContent(text="first line\nsecond line")
    return ToolResult(content=(lines, ImageContent(data=PNG, mimeType="image/png")), is_error=True, error=error)


async def say_nothing(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult()


async def say_much(_ctx: HandlerContext, arguments: LargeArguments) -> ToolResult:
    return text("x" * arguments.size_bytes)


async def say_odd(_ctx: HandlerContext, arguments: dict[str, Any]) -> ToolResult:
    return text(f"{arguments[ODD_FIELD]} of {arguments.get('limit')}")


def _fixture(name: str, handler: Handler, arguments: type[Arguments] = NoArguments) -> ToolBuilder:
    described = tool(name).category(Category.DEV).describe(f"Fixture {name} of the contract between back ends.")
    return described.args(arguments).server(handler)


TOOLS: tuple[Tool, ...] = (
    _fixture("say", say, SayArguments).build(),
    _fixture("fail", fail).build(),
    _fixture("draw-number", draw_number).build(),
    _fixture("wait-for-ever", wait_for_ever).build(),
    _fixture("ask-name", ask_name).build(),
    _fixture("show", show).build(),
    _fixture("show-media", show_media, MediaArguments).build(),
    _fixture("fail-showing", fail_showing).build(),
    _fixture("say-nothing", say_nothing).build(),
    _fixture("say-much", say_much, LargeArguments).build(),
    _fixture(ODD_NAME, say_odd).args_schema(ODD_SCHEMA).build(),
)
