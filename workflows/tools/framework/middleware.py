"""The ordered list of wrappers around every handler. Adding one is inserting it into `PIPELINE`."""

from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import CancelledError

from outlast.activities.failures.contracts import Violation
from outlast.activities.json_schema.violations import schema_violations
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.stubs.task_log import log_task_event
from outlast.workflows.tools.framework.approvals import approval_of, ask_approval, denied, refused
from outlast.workflows.tools.framework.compression import compression
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.tool import Tool

Next = Callable[[], Awaitable[ToolResult]]
Middleware = Callable[[ToolContext, Tool, Next], Awaitable[ToolResult]]


async def abort(ctx: ToolContext, definition: Tool, proceed: Next) -> ToolResult:
    """Fail fast when the call was cancelled before its handler began.

    Where a lost worker may have started a run, the handler begins: its start is cancelled at once, and its run aborted.
    """
    if ctx.cancelled and not (definition.runs_actor and ctx.runs.may_have_begun):
        raise CancelledError(f"{definition.name} was cancelled before it began.")
    return await proceed()


async def logging(_ctx: ToolContext, _definition: Tool, proceed: Next) -> ToolResult:
    """Log that a handler starts. How its task has ended, the workflow logs."""
    log_task_event("started")
    return await proceed()


async def permission(ctx: ToolContext, definition: Tool, proceed: Next) -> ToolResult:
    """Run a call that the operator's rules and the tool allow, at once or after an approval."""
    if ctx.call.permission is not None and ctx.call.permission.action == "deny":
        return ToolResult.failed(denied(ctx, definition))
    approval = approval_of(ctx, definition)
    if approval is None:
        return await proceed()
    verdict = await ask_approval(ctx, definition, approval)
    extra = {**_who(ctx, definition), "granted": verdict.granted, "answered_by": verdict.approved_by}
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


async def results(_ctx: ToolContext, definition: Tool, proceed: Next) -> ToolResult:
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
    """A tool's answer does not fit its output schema. The answer is shown to nobody."""

    def __init__(self, tool: str, violations: tuple[Violation, ...]) -> None:
        """Name the first five violations."""
        where = "; ".join(f"{violation.path or '(answer)'}: {violation.message}" for violation in violations[:5])
        super().__init__(f"{tool} does not keep to its output schema: {where}")


PIPELINE: tuple[Middleware, ...] = (logging, abort, permission, compression, results)
"""The outermost comes first: logging, so that a call which is aborted before it begins is logged too."""


async def run_handler(ctx: ToolContext, definition: Tool) -> ToolResult:
    """Run the tool's handler inside the pipeline. Raises `ToolError` for arguments that break its schema."""
    given = ctx.call
    arguments = definition.parse(given.arguments)

    async def handle() -> ToolResult:
        # An approval may have changed the arguments.
        used = arguments if ctx.call is given else definition.parse(ctx.call.arguments)
        return as_result(await definition.handler(ctx, used))

    proceed: Next = handle
    for middleware in reversed(PIPELINE):
        proceed = _wrap(middleware, ctx, definition, proceed)
    return await proceed()


def _who(ctx: ToolContext, definition: Tool) -> dict[str, Any]:
    """The fields of every log line about a call; the workflow adds the task's id."""
    return {"tool": definition.name, "caller": ctx.call.caller.id, "session": ctx.call.session_id}


def _wrap(middleware: Middleware, ctx: ToolContext, definition: Tool, proceed: Next) -> Next:
    async def wrapped() -> ToolResult:
        return await middleware(ctx, definition, proceed)

    return wrapped
