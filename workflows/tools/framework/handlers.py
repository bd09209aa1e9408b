"""Handlers made of the parts of a tool: server first or client first, with a durable wait for the client in between.

The result of a call with a client phase records the author of the answer, or the reason why it is missing."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

from pydantic import BaseModel, JsonValue
from temporalio import workflow
from temporalio.exceptions import is_cancelled_exception

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.json_schema.violations import schema_violations
from outlast.workflows.contracts.questions import Handoff, InputAnswer, InputRequest
from outlast.workflows.contracts.tool_calls import CLIENT_META, TextContent, ToolResult
from outlast.workflows.contracts.written_json import as_json
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.answers import describe_duration
from outlast.workflows.tools.framework.frozen_json import SchemaText
from outlast.workflows.tools.framework.phases import DEFAULT_DEADLINE, ClientPhase, PlainFunction, Reply
from outlast.workflows.tools.framework.plain_functions import Step, run_plain_function
from outlast.workflows.tools.framework.results import as_result

NoReplyReason = Literal["declined", "cancelled", "error", "timeout", "not_handed"]


@dataclass(frozen=True)
class NoReply:
    """A missing answer of the client, for a phase without a default."""

    reason: NoReplyReason
    message: str
    """The reason as a sentence."""
    answered_by: str | None = None
    """Id of the caller who declined, cancelled or failed, if any."""


Handler = Callable[[HandlerContext, Any], Awaitable[ToolResult]]
Part = Callable[..., Awaitable[Any]]
"""A workflow handler, or a `PlainFunction`."""
SHOWING_DEADLINE = timedelta(minutes=10)
"""Longest wait of a finished answer for its client, for a phase without a deadline."""
MAX_HANDED_BYTES = 256 * 1024
"""Largest answer for the client. It is in the task's memo, which Temporal limits."""


def server_handler(server: Part) -> Handler:
    """Return the handler of a tool without a client phase."""
    if not isinstance(server, PlainFunction):
        return server

    async def run(ctx: HandlerContext, _arguments: Any) -> ToolResult:
        return (await run_plain_function(ctx, "server", server)).result

    return run


def server_then_client(
    server: Part, phase: ClientPhase, merge: Part | None = None, output_text: SchemaText | None = None
) -> Handler:
    """Return the handler for a server step whose answer the client gets and adds to; `merge` combines the two.

    The server's answer remains valid if a later step fails: a call that has done its work, and may have cost money,
    never fails.
    """

    async def run(ctx: HandlerContext, arguments: Any) -> ToolResult:
        decided = await _step(ctx, "server", server, arguments)
        if decided.is_error:
            return decided
        reply = await _show(ctx, phase, decided)
        if isinstance(reply, NoReply):
            return without_answer(decided, phase, reply)
        if merge is None:
            return with_answer(decided, phase, reply)
        merged = await _merge(ctx, merge, arguments, decided, reply, output_text)
        if isinstance(merged, ToolResult):
            return recorded(merged.model_copy(update={"meta": {**decided.meta, **merged.meta}}), phase, reply)
        return not_merged(decided, phase, reply, merged)

    return run


def client_then_server(phase: ClientPhase, server: Part | None) -> Handler:
    """Return the handler for a client step before the server's. Without a server step its answer is the result."""

    async def run(ctx: HandlerContext, arguments: Any) -> ToolResult:
        reply = await required_reply(ctx, phase, phase.handed(as_object(arguments)))
        if server is None:
            return recorded(as_result(reply.answer), phase, reply)
        return recorded(await _step(ctx, "server", server, arguments, reply), phase, reply)

    return run


def before_client_after(before: Part, phase: ClientPhase, after: Part) -> Handler:
    """Return the handler for three steps. `before` prepares the client's parameters, or answers at once."""

    async def run(ctx: HandlerContext, arguments: Any) -> ToolResult:
        prepared = await _prepare(ctx, before, arguments)
        if isinstance(prepared, ToolResult):
            return prepared
        reply = await required_reply(ctx, phase, phase.handed(prepared))
        return recorded(await _step(ctx, "after", after, arguments, reply), phase, reply)

    return run


async def _step(
    ctx: HandlerContext, step: Step, part: Part, arguments: Any, *more: ToolResult | Reply[Any]
) -> ToolResult:
    """Run a server step. Besides the arguments it gets `more`: an earlier result, the reply."""
    if isinstance(part, PlainFunction):
        return (await run_plain_function(ctx, step, part, *more)).result
    return as_result(await part(ctx, arguments, *more))


async def _show(ctx: HandlerContext, phase: ClientPhase, decided: ToolResult) -> Reply[Any] | NoReply:
    """Hand the server's answer to the client, and return its reply, or the reason why it is missing."""
    try:
        parameters = phase.handed(decided.structured if decided.structured is not None else {"text": decided.text})
        if (size := len(json.dumps(parameters).encode())) > MAX_HANDED_BYTES:
            return not_handed(phase, f"it has {size} bytes, and the limit is {MAX_HANDED_BYTES}")
        return await hand_over(ctx, phase, parameters, default_deadline=SHOWING_DEADLINE)
    except Exception as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.exception("The client phase of %s has a defect", ctx.call.tool)
        return not_handed(phase, "the tool has a defect")


async def _merge(
    ctx: HandlerContext,
    merge: Part,
    arguments: Any,
    decided: ToolResult,
    reply: Reply[Any],
    output_text: SchemaText | None,
) -> ToolResult | str:
    """Return the merged result, or the reason why it is missing as a sentence."""
    try:
        merged = await _step(ctx, "merge", merge, arguments, decided, reply)
    except ToolError as error:
        return error.envelope.message
    except Exception as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.exception("The step merge of %s has a defect", ctx.call.tool)
        return "the tool has a defect."
    if merged.is_error:
        return merged.text
    schema: JsonObject = json.loads(output_text.json) if output_text is not None else {}
    if violations := schema_violations(schema, merged.structured or {}):
        workflow.logger.error("The merged answer of %s breaks its output schema: %s", ctx.call.tool, violations[0])
        return "the tool has a defect."
    return merged


async def _prepare(ctx: HandlerContext, before: Part, arguments: Any) -> ToolResult | JsonObject:
    """Return the client's parameters (from a dict or a model), or a final result (from text or a `ToolResult`)."""
    if isinstance(before, PlainFunction):
        answer = await run_plain_function(ctx, "before", before)
        return answer.result.structured or {} if answer.is_object else answer.result
    prepared: object = await before(ctx, arguments)
    return as_result(prepared) if isinstance(prepared, ToolResult | str) else as_json(cast(JsonObject, prepared))


_STANDS = "The result above is complete and stands: do not repeat the call because of this."


def as_object(value: object) -> JsonObject:
    """Return a model or a dict as JSON."""
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else cast(JsonObject, value)


def recorded(result: ToolResult, phase: ClientPhase, reply: Reply[Any]) -> ToolResult:
    """Record the author of the reply in the `result` of a server step that used it."""
    return _with_record(result, _record_of(phase, reply))


def with_answer(result: ToolResult, phase: ClientPhase, reply: Reply[Any]) -> ToolResult:
    """Add the client's answer to the `result` of an earlier server step."""
    content = as_object(reply.answer)
    if not content:
        return recorded(result, phase, reply)
    who = "Nobody answered in time; this stands for the answer" if reply.answered_by is None else "The client answered"
    shown = _with_text(result, f"{who}: {json.dumps(content, ensure_ascii=False)}")
    return _with_record(shown, {**_record_of(phase, reply), "answer": content})


def without_answer(result: ToolResult, phase: ClientPhase, missing: NoReply) -> ToolResult:
    """Add a note about a missing answer to the `result` of an earlier server step."""
    note = f"{missing.message} {_STANDS}"
    record: JsonObject = {"phase": phase.name, "answeredBy": missing.answered_by, "unanswered": missing.reason}
    return _with_record(_with_text(result, note), {**record, "note": note})


def not_merged(result: ToolResult, phase: ClientPhase, reply: Reply[Any], reason: str) -> ToolResult:
    """Add the client's answer to `result`, with a note that the tool could not merge the two."""
    note = f"The client's answer could not be merged into the result: {reason} {_STANDS}"
    answered = with_answer(result, phase, reply)
    record = answered.meta[CLIENT_META]
    assert isinstance(record, dict)
    return _with_record(_with_text(answered, note), {**record, "note": note})


def _record_of(phase: ClientPhase, reply: Reply[Any]) -> JsonObject:
    record: JsonObject = {"phase": phase.name, "answeredBy": reply.answered_by}
    return {**record, "isDefault": True} if reply.answered_by is None else record


def _with_record(result: ToolResult, record: dict[str, JsonValue]) -> ToolResult:
    return result.model_copy(update={"meta": {**result.meta, CLIENT_META: record}})


def _with_text(result: ToolResult, text: str) -> ToolResult:
    """Add a block of text to `result`, also to the blocks of another server."""
    if result.raw_content is not None:
        return result.model_copy(update={"raw_content": (*result.raw_content, {"type": "text", "text": text})})
    return result.model_copy(update={"content": (*result.content, TextContent(text=text))})


async def hand_over(
    ctx: HandlerContext, phase: ClientPhase, parameters: JsonObject, *, default_deadline: timedelta = DEFAULT_DEADLINE
) -> Reply[Any] | NoReply:
    """Ask the client and wait durably until the phase's deadline, or for `default_deadline`."""
    deadline = phase.deadline or default_deadline
    handoff = Handoff(
        audience=phase.audience,
        tool=ctx.call.tool,
        phase=phase.name,
        parameters=parameters,
        deadline=workflow.now() + deadline,
    )
    question = InputRequest(message=phase.message_for(parameters), requested_schema=phase.schema, handoff=handoff)
    workflow.logger.info("handed to the client", extra={"tool": ctx.call.tool, "phase": phase.name})
    try:
        answers = await ctx.questions.ask(
            {phase.name: question}, timeout=deadline, checks={phase.name: phase.violations}
        )
    except TimeoutError:
        return _at_the_deadline(phase, parameters, deadline)
    answer, answered_by = answers[phase.name], ctx.questions.answered_by(phase.name)
    if answer.action == "accept":
        return Reply(phase.parse(answer.content), parameters, answered_by)
    return _without_content(phase, answer, answered_by)


async def required_reply(ctx: HandlerContext, phase: ClientPhase, parameters: JsonObject) -> Reply[Any]:
    """Return the client's reply to a required phase. Raises `ToolError` if it is missing."""
    reply = await hand_over(ctx, phase, parameters)
    if isinstance(reply, NoReply):
        raise ToolError(_error(ctx.call.tool, reply))
    return reply


def not_handed(phase: ClientPhase, reason: str) -> NoReply:
    """Return the missing reply to parameters that the client did not get."""
    return NoReply("not_handed", f"The client did not get this for {phase.name!r}: {reason}.")


def _at_the_deadline(phase: ClientPhase, parameters: JsonObject, deadline: timedelta) -> Reply[Any] | NoReply:
    default = phase.default_content
    if default is not None:
        return Reply(phase.parse(default), parameters)
    return NoReply("timeout", f"Nobody answered {phase.name!r} within {describe_duration(deadline)}.")


def _without_content(phase: ClientPhase, answer: InputAnswer, answered_by: str | None) -> NoReply:
    message = " ".join((answer.message or "").split())
    given = f' It said: "{message}".' if message else ""
    if answer.action == "decline":
        return NoReply("declined", f"The client declined {phase.name!r} without an answer.{given}", answered_by)
    if answer.action == "cancel":
        return NoReply("cancelled", f"The client closed {phase.name!r} without an answer.{given}", answered_by)
    return NoReply("error", f"The client failed in {phase.name!r}.{given}", answered_by)


def _error(tool: str, missing: NoReply) -> ErrorEnvelope:
    if missing.reason == "timeout":
        hint = "Call again when somebody can answer."
        return ErrorEnvelope.transient(ErrorCategory.TIMEOUT, tool, missing.message, hint=hint)
    if missing.reason == "error":
        hint = "Tell the user what failed on their machine; call again when it is fixed."
        return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, missing.message, hint=hint)
    hint = "Do not ask for the same again unless the user wants it."
    return ErrorEnvelope.permanent(ErrorCategory.PERMISSION, tool, missing.message, hint=hint)
