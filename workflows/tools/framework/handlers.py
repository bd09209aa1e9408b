"""From the parts of a tool to its handler: server first or client first, and the wait for the client in between."""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, cast

from temporalio import workflow
from temporalio.exceptions import is_cancelled_exception

from outlast.activities.contracts import JsonObject
from outlast.activities.json_schema.violations import schema_violations
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.contracts.written_json import as_json
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.framework.client_records import (
    as_object,
    not_merged,
    recorded,
    with_answer,
    without_answer,
)
from outlast.workflows.tools.framework.hand_over import NoReply, hand_over, not_handed, required_reply
from outlast.workflows.tools.framework.phases import ClientPhase, PlainFunction, Reply
from outlast.workflows.tools.framework.plain_functions import Step, run_plain_function
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.schema_text import SchemaText

Handler = Callable[[ToolContext, Any], Awaitable[ToolResult]]
Part = Callable[..., Awaitable[Any]]
"""A workflow handler, or a `PlainFunction`."""

SHOWING_DEADLINE = timedelta(minutes=10)
"""How long a finished answer waits for its client, where the phase has no deadline of its own."""
MAX_HANDED_BYTES = 256 * 1024
"""Size of the largest answer that is handed to the client. It is kept in the task's memo, which Temporal limits."""


def server_handler(server: Part) -> Handler:
    """A tool without a client phase."""
    if not isinstance(server, PlainFunction):
        return server

    async def run(ctx: ToolContext, _arguments: Any) -> ToolResult:
        return (await run_plain_function(ctx, "server", server)).result

    return run


def server_then_client(
    server: Part, phase: ClientPhase, merge: Part | None = None, output_text: SchemaText | None = None
) -> Handler:
    """The server's answer is the result. The client gets it, and adds to it; `merge` makes one result of the two.

    Whatever happens after the server's answer, that answer stands: a call that has done its work, and may have cost
    money, is never answered as a failure.
    """

    async def run(ctx: ToolContext, arguments: Any) -> ToolResult:
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
    """The client runs first; then the server decides. Without a server phase the client's answer is the result."""

    async def run(ctx: ToolContext, arguments: Any) -> ToolResult:
        reply = await required_reply(ctx, phase, phase.handed(as_object(arguments)))
        if server is None:
            return recorded(as_result(reply.answer), phase, reply)
        return recorded(await _step(ctx, "server", server, arguments, reply), phase, reply)

    return run


def before_client_after(before: Part, phase: ClientPhase, after: Part) -> Handler:
    """The server prepares the client's parameters and decides on its answer. `before` may also answer at once."""

    async def run(ctx: ToolContext, arguments: Any) -> ToolResult:
        prepared = await _prepare(ctx, before, arguments)
        if isinstance(prepared, ToolResult):
            return prepared
        reply = await required_reply(ctx, phase, phase.handed(prepared))
        return recorded(await _step(ctx, "after", after, arguments, reply), phase, reply)

    return run


async def _step(ctx: ToolContext, step: Step, part: Part, arguments: Any, *more: ToolResult | Reply[Any]) -> ToolResult:
    """The result of a server step; `more` is what it gets beside the arguments: an earlier result, the reply."""
    if isinstance(part, PlainFunction):
        return (await run_plain_function(ctx, step, part, *more)).result
    return as_result(await part(ctx, arguments, *more))


async def _show(ctx: ToolContext, phase: ClientPhase, decided: ToolResult) -> Reply[Any] | NoReply:
    """Hand the server's answer to the client. What cannot be handed over is the reason why there is no reply."""
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
    ctx: ToolContext,
    merge: Part,
    arguments: Any,
    decided: ToolResult,
    reply: Reply[Any],
    output_text: SchemaText | None,
) -> ToolResult | str:
    """The merged result; or why there is none, as a sentence."""
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


async def _prepare(ctx: ToolContext, before: Part, arguments: Any) -> ToolResult | JsonObject:
    """The client's parameters (a dict or a model), or the result (text or a `ToolResult`): then nobody is asked."""
    if isinstance(before, PlainFunction):
        answer = await run_plain_function(ctx, "before", before)
        return answer.result.structured or {} if answer.is_object else answer.result
    prepared: object = await before(ctx, arguments)
    return as_result(prepared) if isinstance(prepared, ToolResult | str) else as_json(cast(JsonObject, prepared))
