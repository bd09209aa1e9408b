"""The ordered wrappers around every handler, in `PIPELINE`: log, cancellation, permission, compression, output check.

Compression stores large answers and returns a summary. A call whose answer cannot be stored fails."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import CancelledError

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.activities.json_schema.violations import schema_violations
from outlast.activities.outputs.contracts import StoredOutput
from outlast.workflows.contracts.tool_calls import CLIENT_META, EmbeddedResource, TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.handler_api.observability import log_task_event
from outlast.workflows.tools.answers import as_json, compressed_form, describe_stored, restore_hint
from outlast.workflows.tools.framework.approvals import approval_of, ask_approval, denied, refused
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.tool import Tool

Next = Callable[[], Awaitable[ToolResult]]
Middleware = Callable[[HandlerContext, Tool, Next], Awaitable[ToolResult]]


async def abort(ctx: HandlerContext, definition: Tool, proceed: Next) -> ToolResult:
    """Fail fast if the call was cancelled before its handler began.

    If a lost worker may have started a run, the handler begins: its start is cancelled at once, and its run aborted.
    """
    if ctx.cancelled and not (definition.runs_actor and ctx.runs.may_have_begun):
        raise CancelledError(f"{definition.name} was cancelled before it began.")
    return await proceed()


async def logging(_ctx: HandlerContext, _definition: Tool, proceed: Next) -> ToolResult:
    """Log that a handler starts. The workflow logs the end of its task."""
    log_task_event("started")
    return await proceed()


async def permission(ctx: HandlerContext, definition: Tool, proceed: Next) -> ToolResult:
    """Run a call that the operator's rules and the tool allow, at once or after an approval."""
    if ctx.call.permission is not None and ctx.call.permission.action == "deny":
        return ToolResult.failed(denied(ctx, definition))
    approval = await approval_of(ctx, definition)
    if approval is None:
        return await proceed()
    verdict = await ask_approval(ctx, definition, approval)
    call = {"tool": definition.name, "caller": ctx.call.caller.id, "session": ctx.call.session_id}
    extra = {**call, "granted": verdict.granted, "answered_by": verdict.approved_by}
    workflow.logger.info("approval answered", extra=extra)
    if not verdict.granted:
        return verdict.recorded_in(ToolResult.failed(refused(definition, verdict)))
    if verdict.arguments is not None:
        # The rules were evaluated again for these arguments: they may name another Actor than before.
        ruling = ctx.call.permission and ctx.call.permission.model_copy(update={"actor": None})
        ctx.call = ctx.call.model_copy(update={"arguments": verdict.arguments, "permission": ruling})
    try:
        return verdict.recorded_in(await proceed())
    except ToolError as error:
        return verdict.recorded_in(ToolResult.failed(error.envelope))


async def results(_ctx: HandlerContext, definition: Tool, proceed: Next) -> ToolResult:
    """Check the answer against the tool's output schema. Raises `InvalidOutput`, a defect of the tool."""
    result = await proceed()
    if result.is_error or result.raw_content is not None or definition.output_text is None:
        return result
    if result.structured is None:
        raise InvalidOutput(definition.name, (Violation(path="", message="There is no structured answer."),))
    violations = schema_violations(definition.output_schema or {}, result.structured)
    if violations:
        raise InvalidOutput(definition.name, violations)
    return result


class InvalidOutput(Exception):
    """A tool's answer does not match its output schema, so it is not shown."""

    def __init__(self, tool: str, violations: tuple[Violation, ...]) -> None:
        where = "; ".join(f"{violation.path or '(answer)'}: {violation.message}" for violation in violations[:5])
        super().__init__(f"{tool} does not keep to its output schema: {where}")


RUN_REPORT_BYTES = 8_192
"""Allowance for the report of a run besides its rows."""


async def compression(ctx: HandlerContext, definition: Tool, proceed: Next) -> ToolResult:
    """Store an answer that is larger than the call's threshold. Raises `ToolError` if it may not be stored."""
    result = await proceed()
    size = size_bytes(result)
    if result.locator is not None or definition.restores or size <= threshold_bytes(ctx, definition):
        return result
    if ctx.call.output.compress:
        return _short(result, await _store(ctx, definition, result), ctx)
    limit = ctx.call.output.inline_limit_bytes
    if size > limit:
        raise ToolError(too_large_inline(definition.name, size, limit))
    return result


def threshold_bytes(ctx: HandlerContext, definition: Tool) -> int:
    """Return the size in bytes above which an answer is stored, from the call, the tool or the server.

    For a tool that runs an Actor it applies to the rows: the report of the run is added.
    """
    policy = ctx.call.output
    room = RUN_REPORT_BYTES if definition.calls_actor else 0
    if policy.threshold_bytes is not None:
        return policy.threshold_bytes + room
    if definition.output_threshold is not None:
        return definition.output_threshold
    return policy.default_threshold_bytes + room


def size_bytes(result: ToolResult) -> int:
    """Return the size of an answer in bytes. The larger of text and structured form counts."""
    text = len(result.text.encode())
    structured = len(as_json(result.structured).encode()) if result.structured is not None else 0
    blobs = sum(len(block.resource.blob) for block in result.content if isinstance(block, EmbeddedResource))
    return max(text, structured) + blobs


async def _store(ctx: HandlerContext, definition: Tool, result: ToolResult) -> StoredOutput:
    """Store the complete answer: the structured form if the tool has an output schema, else the blocks."""
    if result.raw_content is not None:
        return await _store_raw(ctx, result, result.raw_content)
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


async def _store_raw(ctx: HandlerContext, result: ToolResult, blocks: Sequence[JsonObject]) -> StoredOutput:
    """Store the answer of an MCP server: as text if it is nothing else."""
    if result.structured is None and all(block.get("type") == "text" for block in blocks):
        return await ctx.outputs.store_text(result.text)
    return await ctx.outputs.store_value({"content": list(blocks), "structured": result.structured})


def _short(result: ToolResult, output: StoredOutput, ctx: HandlerContext) -> ToolResult:
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


def too_large_inline(tool: str, size: int | None, limit: int) -> ErrorEnvelope:
    """Return the error for an output that may neither be stored nor shown."""
    much = f"{size} bytes" if size is not None else f"more than {limit} bytes"
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool,
        f"The output of {tool} has {much}; with compression off at most {limit} are answered.",
        hint="Ask for less of it, or call again with compression on (options.output.compress).",
    )


PIPELINE: tuple[Middleware, ...] = (logging, abort, permission, compression, results)
"""The outermost comes first: logging, so that also calls are logged that are aborted before they begin."""


async def run_handler(ctx: HandlerContext, definition: Tool) -> ToolResult:
    """Run the tool's handler inside the pipeline. Raises `ToolError` for arguments that break its schema."""
    given = ctx.call
    arguments = _parsed(definition, given.arguments)

    async def handle() -> ToolResult:
        # An approval may have changed the arguments.
        used = arguments if ctx.call is given else _parsed(definition, ctx.call.arguments)
        return as_result(await definition.handler(ctx, used))

    proceed: Next = handle
    for middleware in reversed(PIPELINE):
        proceed = _wrap(middleware, ctx, definition, proceed)
    return await proceed()


def _parsed(definition: Tool, arguments: JsonObject) -> Any:
    """Return the arguments for the handler. A function's activity parses them: its tool may change during the call."""
    return None if definition.is_function else definition.parse(arguments)


def _wrap(middleware: Middleware, ctx: HandlerContext, definition: Tool, proceed: Next) -> Next:
    async def wrapped() -> ToolResult:
        return await middleware(ctx, definition, proceed)

    return wrapped
