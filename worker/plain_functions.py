"""The activity behind every plain function of a tool."""

from typing import Any

from pydantic import BaseModel
from temporalio import activity

from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.failures.classify import RETRYABLE, ToolFailure, classify
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.heartbeat import Heartbeats, heartbeating
from outlast.activities.json_size import MAX_VALUES, has_more_values
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.framework.call_context import CallContext
from outlast.workflows.tools.framework.phases import PlainFunction, Reply
from outlast.workflows.tools.framework.plain_functions import (
    RUN_PLAIN_FUNCTION,
    PlainFunctionInput,
    PlainFunctionResult,
)
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.loader import base_tools
from outlast.workflows.tools.registry import UnknownTool

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""A workflow decodes the answer before it is stored."""


class PlainFunctions:
    """Runs plain functions by the names of their tools, with heartbeats. They are cancelled with their calls."""

    @activity.defn(name=RUN_PLAIN_FUNCTION)
    async def run_plain_function(self, request: PlainFunctionInput) -> PlainFunctionResult:
        """Run the function. Fails with an `ErrorEnvelope`; the text of a defect is only logged."""
        with as_activity_failure():
            function, arguments = _function_and_arguments(request)
            async with heartbeating() as heartbeats:
                context = {"context": _context(request, heartbeats)} if function.takes_context else {}
                try:
                    value = await function(*arguments, **context)
                    _check_values(request, value)
                    result = PlainFunctionResult(result=as_result(value), is_object=isinstance(value, dict | BaseModel))
                    _check_size(request, result)
                    return result
                except ToolError as error:
                    raise ToolFailure(error.envelope) from None
                except Exception as error:
                    if classify(error).category in (*RETRYABLE, ErrorCategory.FILESYSTEM, ErrorCategory.PERMISSION):
                        raise
                    if isinstance(error, ToolFailure):
                        raise
                    extra = {"tool": request.tool, "caller": request.caller_id, "session": request.session_id}
                    activity.logger.exception("a plain function has a defect", extra=extra)
                    raise ToolFailure(_defect(request, error)) from None


def _context(request: PlainFunctionInput, heartbeats: Heartbeats) -> CallContext:
    info = activity.info()
    return CallContext(
        task_id=info.workflow_id or "",
        caller_id=request.caller_id,
        session_id=request.session_id,
        attempt=info.attempt,
        report=heartbeats.send,
    )


def _function_and_arguments(request: PlainFunctionInput) -> tuple[PlainFunction, tuple[Any, ...]]:
    """The function and its arguments."""
    try:
        definition = base_tools(request.mode).get(request.tool)
    except UnknownTool as error:
        raise ToolFailure(error.envelope) from None
    function = dict(definition.functions).get(request.step)
    if function is None:
        raise ToolFailure(_missing_function(request))
    try:
        arguments = definition.parse(request.arguments)
    except ToolError as error:
        raise ToolFailure(error.envelope) from None
    more = (request.decided, _reply(definition, request))
    return function, (arguments, *(one for one in more if one is not None))


def _reply(definition: Tool, request: PlainFunctionInput) -> Reply[Any] | None:
    if request.reply is None or definition.client is None:
        return None
    answer = definition.client.parse(request.reply.content)
    return Reply(answer, request.reply.parameters, request.reply.answered_by)


def _missing_function(request: PlainFunctionInput) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.CONFLICT,
        request.tool,
        f"{request.tool} has no plain function for its step {request.step!r} in this worker's version of it.",
        hint="Call again: the tool was changed while this call was under way.",
    )


def _check_values(request: PlainFunctionInput, answer: object) -> None:
    """Raise `ToolFailure` before time is spent on an answer of too many values."""
    content = answer.structured if isinstance(answer, ToolResult) else answer
    if has_more_values(content):
        raise _too_large(request, f"more than {MAX_VALUES} values")


def _check_size(request: PlainFunctionInput, result: PlainFunctionResult) -> None:
    """Raise `ToolFailure` for an answer that no workflow can decode in its time."""
    _check_values(request, result.result)
    size = len(result.model_dump_json())
    if size > MAX_ANSWER_BYTES:
        raise _too_large(request, f"{size} bytes; the limit is {MAX_ANSWER_BYTES}")


def _too_large(request: PlainFunctionInput, size: str) -> ToolFailure:
    return ToolFailure(
        ErrorEnvelope.permanent(
            ErrorCategory.UNKNOWN,
            request.tool,
            f"The tool's answer has {size}.",
            hint="Report it to the tool's author: it has to write large data to a dataset or a key-value store, and "
            "answer with its id.",
        )
    )


def _defect(request: PlainFunctionInput, error: Exception) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.UNKNOWN,
        request.tool,
        f"The tool has a defect ({type(error).__name__}); the details are in the worker's log.",
        hint="Report it to the operators with the task's id.",
    )
