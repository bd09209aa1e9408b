"""The middleware that keeps large answers out of the conversation: it stores them and answers with a summary.

Nothing is lost: a stored answer can be restored, and a call whose answer cannot be stored fails.
"""

import json
from collections.abc import Awaitable, Callable

from pydantic import JsonValue

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.outputs.contracts import StoredOutput
from outlast.workflows.contracts.tool_calls import CLIENT_META, EmbeddedResource, TextContent, ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.answers import compressed_form, describe_stored, restore_hint
from outlast.workflows.tools.framework.tool import Tool

RUN_REPORT_BYTES = 8_192
"""Room for what is reported of a run besides its rows."""


async def compression(ctx: ToolContext, definition: Tool, proceed: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    """Store an answer that is larger than the call's threshold. Raises `ToolError` when it may not be stored."""
    result = await proceed()
    size = size_bytes(result)
    if result.locator is not None or definition.restores or size <= threshold_bytes(ctx, definition):
        return result
    if not ctx.call.output.compress:
        return _inline(ctx, definition, result, size)
    output = await _store(ctx, definition, result)
    return _short(result, output, ctx)


def threshold_bytes(ctx: ToolContext, definition: Tool) -> int:
    """Size in bytes above which an answer is stored: the call's setting, else the tool's, else the server's.

    For a tool that runs an Actor it is the size of the rows: what is reported around them comes on top.
    """
    policy = ctx.call.output
    room = RUN_REPORT_BYTES if definition.calls_actor else 0
    if policy.threshold_bytes is not None:
        return policy.threshold_bytes + room
    if definition.output_threshold is not None:
        return definition.output_threshold
    return policy.default_threshold_bytes + room


def size_bytes(result: ToolResult) -> int:
    """Size of an answer in bytes of UTF-8. Text and structured form hold the same, so the larger one counts."""
    text = len(result.text.encode())
    structured = len(_json(result.structured)) if result.structured is not None else 0
    blobs = sum(len(block.resource.blob) for block in result.content if isinstance(block, EmbeddedResource))
    return max(text, structured) + blobs


async def _store(ctx: ToolContext, definition: Tool, result: ToolResult) -> StoredOutput:
    """Store the complete answer: the structured form where the tool has an output schema, else the blocks."""
    if result.raw_content is not None:
        return await ctx.outputs.store_value({"content": list(result.raw_content), "structured": result.structured})
    if all(isinstance(block, TextContent) for block in result.content):
        if result.structured is None:
            return await ctx.outputs.store_text(result.text)
        if definition.output_text is not None and "answer" not in _client_record(result):
            return await ctx.outputs.store_value(result.structured)
        return await ctx.outputs.store_value({"text": result.text, "structured": result.structured})
    if result.structured is None and len(result.content) == 1 and isinstance(result.content[0], EmbeddedResource):
        resource = result.content[0].resource
        return await ctx.outputs.store_blob(resource.blob, content_type=resource.mimeType or "application/octet-stream")
    blocks: list[JsonValue] = [block.model_dump(mode="json", exclude_none=True) for block in result.content]
    return await ctx.outputs.store_value({"content": blocks, "structured": result.structured})


def _short(result: ToolResult, output: StoredOutput, ctx: ToolContext) -> ToolResult:
    text = f"{describe_stored(output)}\n{restore_hint(output, ctx.offers)}"
    record = _client_record(result)
    if isinstance(note := record.get("note"), str):
        text = f"{text}\n{note}"
    shown = tuple(block for block in result.content if not isinstance(block, TextContent | EmbeddedResource))
    update: dict[str, object] = {
        "content": (TextContent(text=text), *shown),
        "raw_content": None,
        "structured": compressed_form(output).structured(),
        "locator": output.locator,
    }
    if "answer" in record:  # It is in the stored output, and may be as large as the result.
        kept = {name: value for name, value in record.items() if name != "answer"}
        update["meta"] = {**result.meta, CLIENT_META: kept}
    return result.model_copy(update=update)


def _client_record(result: ToolResult) -> dict[str, JsonValue]:
    record = result.meta.get(CLIENT_META)
    return record if isinstance(record, dict) else {}


def _inline(ctx: ToolContext, definition: Tool, result: ToolResult, size: int) -> ToolResult:
    limit = ctx.call.output.inline_limit_bytes
    if size <= limit:
        return result
    raise ToolError(too_large_inline(definition.name, size, limit))


def too_large_inline(tool: str, size: int | None, limit: int) -> ErrorEnvelope:
    """The error for an output that may neither be stored nor shown."""
    much = f"{size} bytes" if size is not None else f"more than {limit} bytes"
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool,
        f"The output of {tool} has {much}; with compression off at most {limit} are answered.",
        hint="Ask for less of it, or call again with compression on (options.output.compress).",
    )


def _json(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
