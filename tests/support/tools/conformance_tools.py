"""The tools that MCP's conformance suite expects of a server, as Outlast tools. Loaded with OUTLAST_TOOLS_FROM."""

import asyncio
import json
from itertools import cycle
from typing import Any

from pydantic import Field, JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.questions import InputAnswer, InputRequest
from outlast.workflows.contracts.tool_calls import (
    AudioContent,
    BlobResource,
    Content,
    EmbeddedResource,
    ImageContent,
    TextContent,
    ToolResult,
)
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.common.add_actor import ADDED_ACTOR_META
from outlast.workflows.tools.framework.tool import (
    Arguments,
    Category,
    Handler,
    NoArguments,
    TaskUse,
    Tool,
    ToolBuilder,
    tool,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="


class GreetArguments(Arguments):
    name: str


class SlowArguments(Arguments):
    seconds: float = Field(ge=0)
    label: str = ""


class FileArguments(Arguments):
    filename: str


class MessageArguments(Arguments):
    message: str


class PromptArguments(Arguments):
    prompt: str


def text(said: str) -> ToolResult:
    return ToolResult(content=(TextContent(text=said),))


def form(message: str, *required: str, **properties: JsonValue) -> InputRequest:
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties}
    return InputRequest(
        message=message, requested_schema={**schema, "required": list(required)} if required else schema
    )


def fixture(name: str, handler: Handler, arguments: type[Arguments] = NoArguments) -> ToolBuilder:
    described = tool(name).category(Category.DEV).describe(f"Fixture {name} of the conformance suite.")
    return described.args(arguments).server(handler)


async def greet(_ctx: HandlerContext, arguments: GreetArguments) -> ToolResult:
    return text(f"Hello, {arguments.name}!")


async def slow_compute(_ctx: HandlerContext, arguments: SlowArguments) -> ToolResult:
    await asyncio.sleep(arguments.seconds)
    return text(f"Computed {arguments.label} in {arguments.seconds:g} seconds")


async def failing_job(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    await asyncio.sleep(1)
    message = "This job intentionally fails"
    raise ToolError(ErrorEnvelope(tool=ctx.call.tool, message=message, category=ErrorCategory.UNKNOWN, retryable=False))


async def protocol_error_job(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    raise RuntimeError("This job has a defect")


async def confirm_delete(ctx: HandlerContext, arguments: FileArguments) -> ToolResult:
    question = form(f"Delete {arguments.filename}?", "confirm", confirm={"type": "boolean"})
    answer = await ctx.ask("confirm", question)
    deleted = answer.action == "accept" and answer.content.get("confirm") is True
    return text(f"{arguments.filename} was {'deleted' if deleted else 'kept'}")


async def multi_input(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    schema: dict[str, JsonValue] = {"name": {"type": "string"}}
    answers = await ctx.ask_all({key: form(f"Your {key} name?", "name", **schema) for key in ("first", "last")})
    return text(" ".join(str(answer.content.get("name")) for answer in answers.values()))


async def tool_with_task(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    answer = await ctx.ask("user_name", form("What is your name?", "name", name={"type": "string"}))
    await asyncio.sleep(1)
    return text(f"Hello, {answer.content.get('name')}!")


async def asked_name(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    answer = await ctx.ask("user_name", form("What is your name?", "name", name={"type": "string"}))
    return text(f"Hello, {answer.content.get('name')}!")


async def asked_model(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    question = InputRequest.completion("What is the capital of France?", max_tokens=100)
    return text(completion_of(await ctx.ask("capital_question", question)))


async def asked_roots(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    answer = await ctx.ask("client_roots", InputRequest.roots())
    return text(json.dumps(answer.content.get("roots")))


async def asked_state(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    answer = await ctx.ask("confirm", form("Please confirm", "ok", ok={"type": "boolean"}))
    return text(f"state-ok: {answer.content.get('ok')}")


async def asked_everything(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    answers = await ctx.ask_all(
        {
            "user_name": form("What is your name?", "name", name={"type": "string"}),
            "greeting": InputRequest.completion("Generate a greeting", max_tokens=50),
            "client_roots": InputRequest.roots(),
        }
    )
    return text(f"{completion_of(answers['greeting'])}, {answers['user_name'].content.get('name')}!")


async def asked_twice(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    name = await ctx.ask("step1", form("Step 1: What is your name?", "name", name={"type": "string"}))
    color = await ctx.ask("step2", form("Step 2: What is your favorite color?", "color", color={"type": "string"}))
    return text(f"{name.content.get('name')} likes {color.content.get('color')}")


async def image(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult(content=(ImageContent(data=PNG, mimeType="image/png"),))


async def audio(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult(content=(AudioContent(data=WAV, mimeType="audio/wav"),))


def embedded(uri: str, mime_type: str, blob: str = "VGhpcyBpcyBhIHJlc291cmNlLg==") -> Content:
    return EmbeddedResource(resource=BlobResource(uri=uri, mimeType=mime_type, blob=blob))


async def resource(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult(content=(embedded("test://embedded-resource", "text/plain"),))


async def mixed(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    picture = ImageContent(data=PNG, mimeType="image/png")
    blocks = (TextContent(text="Multiple content types test:"), picture, embedded("test://mixed", "application/json"))
    return ToolResult(content=blocks)


async def error(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    message = "This tool intentionally returns an error for testing"
    raise ToolError(ErrorEnvelope(tool=ctx.call.tool, message=message, category=ErrorCategory.UNKNOWN, retryable=False))


async def progress(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    for done in (0, 50, 100):
        ctx.progress(done, total=100, message=f"{done} of 100")
        await asyncio.sleep(0.05)
    return text("Progress was reported")


async def sampling(ctx: HandlerContext, arguments: PromptArguments) -> ToolResult:
    answer = await ctx.ask("completion", InputRequest.completion(arguments.prompt, max_tokens=100))
    return text(f"LLM response: {completion_of(answer)}")


async def elicitation(ctx: HandlerContext, arguments: MessageArguments) -> ToolResult:
    texts: dict[str, JsonValue] = {name: {"type": "string"} for name in ("username", "email")}
    return said_of(await ctx.ask("user", form(arguments.message, "username", "email", **texts)))


async def defaults(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    question = form(
        "Please review your details",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return said_of(await ctx.ask("details", question))


async def enums(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    titled: list[JsonValue] = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    options: list[JsonValue] = ["option1", "option2", "option3"]
    question = form(
        "Please choose",
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return said_of(await ctx.ask("choices", question))


_NEXT_ACTOR = cycle(["outlast/big-table", "outlast/site-crawler", "outlast/sleeper"])


async def added_actor(_ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    """An Actor that is offered already changes no list: the suite calls this three times."""
    return text("An Actor was added").model_copy(update={"meta": {ADDED_ACTOR_META: next(_NEXT_ACTOR)}})


async def one_step(ctx: HandlerContext, _arguments: NoArguments) -> ToolResult:
    ctx.progress(1, message="The one step was done")
    return text("Done")


async def nothing(_ctx: HandlerContext, _arguments: Any) -> ToolResult:
    return text("This is a simple text response for testing.")


def said_of(answer: InputAnswer) -> ToolResult:
    return text(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}")


def completion_of(answer: InputAnswer) -> str:
    content = answer.content.get("content")
    return str(content.get("text")) if isinstance(content, dict) else ""


JSON_SCHEMA: dict[str, JsonValue] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

HEADER_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
}

_ASKING = "test_input_required_result"

TOOLS: tuple[Tool, ...] = (
    fixture("greet", greet, GreetArguments).build(),
    fixture("slow_compute", slow_compute, SlowArguments).long_running().build(),
    fixture("failing_job", failing_job).long_running(TaskUse.REQUIRED).build(),
    fixture("protocol_error_job", protocol_error_job).long_running().build(),
    fixture("confirm_delete", confirm_delete, FileArguments).long_running().build(),
    fixture("multi_input", multi_input).long_running().build(),
    fixture("test_tool_with_task", tool_with_task).long_running(TaskUse.AFTER_QUESTIONS).build(),
    fixture(f"{_ASKING}_elicitation", asked_name).build(),
    fixture(f"{_ASKING}_sampling", asked_model).build(),
    fixture(f"{_ASKING}_list_roots", asked_roots).build(),
    fixture(f"{_ASKING}_request_state", asked_state).build(),
    fixture(f"{_ASKING}_tampered_state", asked_state).build(),
    fixture(f"{_ASKING}_multiple_inputs", asked_everything).build(),
    fixture(f"{_ASKING}_capabilities", asked_everything).build(),
    fixture(f"{_ASKING}_multi_round", asked_twice).build(),
    fixture("test_missing_capability", sampling, PromptArguments).needs_client("sampling").build(),
    fixture("test_streaming_elicitation", asked_name).build(),
    fixture("test_logging_tool", one_step).build(),
    fixture("test_trigger_tool_change", added_actor).build(),
    fixture("test_simple_text", nothing).build(),
    fixture("test_image_content", image).build(),
    fixture("test_audio_content", audio).build(),
    fixture("test_embedded_resource", resource).build(),
    fixture("test_multiple_content_types", mixed).build(),
    fixture("test_error_handling", error).build(),
    fixture("test_tool_with_progress", progress).build(),
    fixture("test_tool_with_logging", progress).build(),
    fixture("test_sampling", sampling, PromptArguments).build(),
    fixture("test_elicitation", elicitation, MessageArguments).build(),
    fixture("test_elicitation_sep1034_defaults", defaults).build(),
    fixture("test_elicitation_sep1330_enums", enums).build(),
    fixture("test_region", nothing).args_schema(HEADER_SCHEMA).build(),
    fixture("json_schema_2020_12_tool", nothing).args_schema(JSON_SCHEMA).build(),
)
