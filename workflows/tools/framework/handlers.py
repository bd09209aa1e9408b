"""From the parts of a tool to its handler: server first or client first, and the wait for the client in between."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

from pydantic import BaseModel, JsonValue
from temporalio import workflow

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.questions import Handoff, InputRequest
from outlast.workflows.contracts.tool_calls import CLIENT_META, TextContent, ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.framework.phases import ClientPhase, JsonObject, PlainFunction, Reply
from outlast.workflows.tools.framework.plain_functions import Step, run_plain_function
from outlast.workflows.tools.framework.results import as_result

Handler = Callable[[ToolContext, Any], Awaitable[ToolResult]]
Part = Callable[..., Awaitable[Any]]
"""A workflow handler, or a `PlainFunction`."""


def server_handler(server: Part) -> Handler:
    """A tool without a client phase."""
    if not isinstance(server, PlainFunction):
        return server

    async def run(ctx: ToolContext, _arguments: Any) -> ToolResult:
        return (await run_plain_function(ctx, "server", server)).result

    return run


def server_then_client(server: Part, phase: ClientPhase) -> Handler:
    """The server decides; the client gets the decision, and its answer is added to the result."""

    async def run(ctx: ToolContext, arguments: Any) -> ToolResult:
        decided = await _step(ctx, "server", server, arguments)
        if decided.is_error:
            return decided
        reply = await hand_over(ctx, phase, phase.handed(_shown(decided)))
        return _with_reply(decided, phase, reply, show_answer=True)

    return run


def client_then_server(phase: ClientPhase, server: Part | None) -> Handler:
    """The client runs first; then the server decides. Without a server phase the client's answer is the result."""

    async def run(ctx: ToolContext, arguments: Any) -> ToolResult:
        reply = await hand_over(ctx, phase, phase.handed(_as_object(arguments)))
        if server is None:
            return _with_reply(_result_of(reply), phase, reply)
        return _with_reply(await _step(ctx, "server", server, arguments, reply), phase, reply)

    return run


def before_client_after(before: Part, phase: ClientPhase, after: Part) -> Handler:
    """The server prepares the client's parameters and decides on its answer. `before` may also answer at once."""

    async def run(ctx: ToolContext, arguments: Any) -> ToolResult:
        prepared = await _prepare(ctx, before, arguments)
        if isinstance(prepared, ToolResult):
            return prepared
        reply = await hand_over(ctx, phase, phase.handed(prepared))
        return _with_reply(await _step(ctx, "after", after, arguments, reply), phase, reply)

    return run


async def hand_over(ctx: ToolContext, phase: ClientPhase, parameters: JsonObject) -> Reply[Any]:
    """Ask the client and wait durably. Raises `ToolError` when it declines, or is late and there is no default."""
    handoff = Handoff(
        audience=phase.audience,
        tool=ctx.call.tool,
        phase=phase.name,
        parameters=parameters,
        deadline=workflow.now() + phase.deadline,
    )
    question = InputRequest(message=phase.message_for(parameters), requested_schema=phase.schema, handoff=handoff)
    workflow.logger.info("handed to the client", extra={"tool": ctx.call.tool, "phase": phase.name})
    try:
        answers = await ctx.questions.ask(
            {phase.name: question}, timeout=phase.deadline, checks={phase.name: phase.violations}
        )
    except TimeoutError:
        return _at_the_deadline(ctx, phase, parameters)
    answer, answered_by = answers[phase.name], ctx.questions.answered_by(phase.name)
    if answer.action != "accept":
        raise ToolError(_declined(ctx, phase, answer.action))
    return Reply(phase.parse(answer.content), parameters, answered_by)


async def _step(
    ctx: ToolContext, step: Step, part: Part, arguments: Any, reply: Reply[Any] | None = None
) -> ToolResult:
    if isinstance(part, PlainFunction):
        return (await run_plain_function(ctx, step, part, reply)).result
    return as_result(await (part(ctx, arguments) if reply is None else part(ctx, arguments, reply)))


async def _prepare(ctx: ToolContext, before: Part, arguments: Any) -> ToolResult | JsonObject:
    """The client's parameters (a dict or a model), or the result (text or a `ToolResult`): then nobody is asked."""
    if isinstance(before, PlainFunction):
        answer = await run_plain_function(ctx, "before", before)
        return answer.result.structured or {} if answer.is_object else answer.result
    prepared: object = await before(ctx, arguments)
    return as_result(prepared) if isinstance(prepared, ToolResult | str) else _as_object(prepared)


def _as_object(value: object) -> JsonObject:
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else cast(JsonObject, value)


def _shown(decided: ToolResult) -> JsonObject:
    return decided.structured if decided.structured is not None else {"text": decided.text}


def _result_of(reply: Reply[Any]) -> ToolResult:
    return as_result(reply.answer)


def _with_reply(result: ToolResult, phase: ClientPhase, reply: Reply[Any], *, show_answer: bool = False) -> ToolResult:
    """`result` with the client's answer in its meta; with `show_answer` in its content too: no server phase saw it."""
    content = _as_object(reply.answer)
    record: dict[str, JsonValue] = {"phase": phase.name, "answeredBy": reply.answered_by}
    if reply.answered_by is None:
        record["isDefault"] = True
    blocks = result.content
    if show_answer and content:
        record["answer"] = content
        blocks = (*blocks, TextContent(text=f"The client answered: {json.dumps(content, ensure_ascii=False)}"))
    return result.model_copy(update={"content": blocks, "meta": {**result.meta, CLIENT_META: record}})


def _at_the_deadline(ctx: ToolContext, phase: ClientPhase, parameters: JsonObject) -> Reply[Any]:
    default = phase.default_content
    if default is not None:
        return Reply(phase.parse(default), parameters)
    raise ToolError(
        ErrorEnvelope.transient(
            ErrorCategory.TIMEOUT,
            ctx.call.tool,
            f"Nobody answered {phase.name!r} within {phase.deadline}.",
            hint="Call again when somebody can answer.",
        )
    )


def _declined(ctx: ToolContext, phase: ClientPhase, action: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.PERMISSION,
        ctx.call.tool,
        f"The client {'declined' if action == 'decline' else 'closed'} {phase.name!r} without an answer.",
        hint="Do not ask for the same again unless the user wants it.",
    )
